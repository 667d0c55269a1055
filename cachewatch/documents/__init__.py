"""Documents: bytes of a `specs.md` to a Document, and back."""
