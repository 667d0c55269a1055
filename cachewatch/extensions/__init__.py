"""Features that the core does not need: each is a folder with its own commands."""
