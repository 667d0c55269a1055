"""The state: what is remembered between runs, as cursors, slots, digests, deliveries and the health of sources.

`sqlite.py` opens it, and `schema.py` has the tables. The other modules are functions on an open transaction, so that
a caller decides what belongs together.
"""
