"""Reports of changesets and digests: one module for each format, and words.py for the words that they share."""
