"""The examples below the help of a command."""

# Click keeps the lines of a paragraph as they are if it begins with this.
_AS_IT_IS = "\b"


def examples(*lines: str, title: str = "Examples:") -> str:
    """Return an epilog that shows each of `lines` as an example."""
    return "\n".join([_AS_IT_IS, title, *(f"  $ {line}" for line in lines)])
