"""The rules by which two documents of a package, and all packages of a tag, are compared (comparison_flow.py calls them)."""
