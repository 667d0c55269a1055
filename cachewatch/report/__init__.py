"""Render changesets and digests: one module for each format, and words.py for phrases that all formats share."""
