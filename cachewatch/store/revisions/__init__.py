"""The migrations of the database for Alembic, each from one form of the tables to the next: form N is revision N.

A released migration is never changed, because databases have already run it. New databases are made from
store/schema.py, the newest form; the first migration after form 1 must write down what form 1 was.
"""
