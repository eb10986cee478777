"""What goes in, checked once, and the demo data."""
