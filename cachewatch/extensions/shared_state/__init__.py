"""A state that several hosts share, in a PostgreSQL database."""
