"""buildcaches."""
