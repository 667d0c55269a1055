"""Processes, files and other services of the operating system."""
