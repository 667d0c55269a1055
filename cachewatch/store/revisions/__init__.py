"""The revisions of the database for Alembic, each from one form to the next: form N is revision N.

A released revision never changes: databases have it behind them. New databases are made of store/schema.py, the
newest form; the first step to another one writes down what the first form was.
"""
