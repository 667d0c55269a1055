"""Change the code a little, again and again, and see whether a test notices: `make mutants`, and docs/dev/figures.md.

`changes.py` makes the changes, `reach.py` finds out which tests run which lines, `watching.py` is the
part of it within pytest, and `__main__.py` runs those tests on a sample of the changes.
"""
