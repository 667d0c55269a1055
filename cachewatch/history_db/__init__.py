"""The history index: since when, and until when, each spec of a catalogue was there, in one SQLite file that can be rebuilt."""
