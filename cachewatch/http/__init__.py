"""HTTP for sources, channels and pings: `client.py` sends requests, `addresses.py` checks where they go."""
