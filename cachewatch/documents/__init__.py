"""Documents: parse the bytes of a `specs.md` to a Document, and write them."""
