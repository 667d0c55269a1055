"""The migrations of the database for Alembic: revision N makes form N of the tables. A released one never changes."""
