"""The state that is stored between runs: cursors, slots, digests, deliveries, the health of sources, and more."""
