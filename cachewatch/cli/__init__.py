"""The commands, each loaded when it is called, and what they share. `__main__.py` beside this folder lists them."""
