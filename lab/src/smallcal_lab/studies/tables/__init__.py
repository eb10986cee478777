"""What a study's measurements amount to, as tables."""
