"""The rules that compare two documents of a package, and all packages of a tag (comparison_flow.py calls them)."""
