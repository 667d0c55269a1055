"""The migrations of the database for Alembic: form N of the tables is revision N. A released one is never changed."""
