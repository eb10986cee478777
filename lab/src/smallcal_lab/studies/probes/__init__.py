"""What a study measures at each place it visits."""
