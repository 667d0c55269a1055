"""HTTP for sources, channels and pings: `client.py` sends requests, `allowed_addresses.py` checks addresses."""
