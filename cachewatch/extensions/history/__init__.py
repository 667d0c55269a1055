"""The history index: since when, and until when, each spec of a catalogue was there.

It is one SQLite file that can be rebuilt from the repository at any time. `build.py` fills it, `read.py` opens it.
"""
