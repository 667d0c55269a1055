"""The service: poll sources, create digests, deliver them. Start with `passes_and_leadership.py`."""
