"""The configuration file: read, checked, explained and shown."""
