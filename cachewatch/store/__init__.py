"""The state: what is stored between runs, such as cursors, slots, digests, deliveries and the health of sources.

`sqlite.py` opens it, and `schema.py` has the tables. The other modules are functions on an open transaction, so that
their caller decides what is written together.
"""
