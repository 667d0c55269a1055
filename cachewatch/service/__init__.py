"""The service: poll sources, create digests, deliver them. Read `passes_and_leadership.py` first; docs/dev/design.md has a map."""
