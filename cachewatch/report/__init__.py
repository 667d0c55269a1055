"""What a digest and a report say, as values."""
