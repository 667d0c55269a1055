"""The revisions of the database for Alembic, each from one form to the next: form N is revision N.

A released revision never changes: databases have it behind them. The form that all of them lead to is in schema.py, and
new databases begin with it. Until form 4 there was SQLite alone.
"""
