"""Digests: their words, their data, and their forms."""
