"""Changesets in, bytes out: one module for each format, and the words that they share."""
