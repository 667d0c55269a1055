"""The service: poll sources, create digests, deliver them. Read `run_pass.py` first; docs/design.md has a map of all modules."""
