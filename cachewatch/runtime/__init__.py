"""Worker processes, files and logs."""
