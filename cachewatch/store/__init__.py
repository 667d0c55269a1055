"""What is remembered between runs: cursors, slots, digests, deliveries, and how sources and channels fare.

`database.py` opens it, `lock.py` keeps others out, `schema.py` has the tables. The other modules
are functions on an open transaction, so that a caller decides what belongs together.
"""
