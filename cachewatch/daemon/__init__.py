"""The daemon, and what it answers over HTTP."""
