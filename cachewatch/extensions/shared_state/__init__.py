"""shared_state."""
