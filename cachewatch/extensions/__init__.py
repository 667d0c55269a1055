"""What the core does not need: a folder each, with its own commands."""
