"""What a report says, as one plain dictionary."""
