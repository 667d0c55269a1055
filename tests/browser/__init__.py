"""What is seen in a browser; the fixtures are in conftest.py."""
