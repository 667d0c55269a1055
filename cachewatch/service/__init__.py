"""The service: poll sources, create digests, deliver them. Read `passes.py` first; docs/dev/design.md has a map."""
