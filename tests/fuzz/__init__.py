"""Bytes that no test thought of, given to everything that reads what strangers write."""
