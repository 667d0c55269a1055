"""The state: what is stored between runs, such as cursors, slots, digests, deliveries and the health of sources."""
