"""Documents: parse the bytes of a `specs.md` into a Document, and write them."""
