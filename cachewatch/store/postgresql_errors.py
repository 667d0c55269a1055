"""What a PostgreSQL server says is wrong, and what to do about it."""

from sqlalchemy.exc import DatabaseError

_UNREACHABLE = "the server cannot be reached, or ended the connection; what was confirmed is safe there"
_CERTIFICATE = (
    "check `sslmode` and `sslrootcert` in the address: the file of the authority that signed the server's certificate"
)
_CREDENTIALS = "check the user in `state:`, and `state_password_file:`"
# By the code of the error, or its class.
_ADVICE = {
    "28": _CREDENTIALS,
    "3D": "create the database, and let the user own it",
    "42501": "let the user own the database, or create tables in it",
    "53100": "free some disk space on the server; nothing was lost",
    "53300": "let the server take more connections (`max_connections`)",
    "55P03": "another process is using it; try again",
    "25006": "this server is a standby, or read-only; use the primary",
    "25P03": "this process stopped for too long in the middle of a transaction; nothing of it was stored",
    "57P": "the server is stopping or starting; try again",
    "08": _UNREACHABLE,
    "XX": "the server's files are damaged; restore a backup",
}


def advise(error: DatabaseError) -> str:
    """Return in one line what the server said, and what to do."""
    lines = str(error.orig or error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    advice = _for_code(getattr(error.orig, "sqlstate", None)) or _for_text(str(error.orig), error)
    return f"{said}; {advice}" if advice else said


def _for_code(code: str | None) -> str | None:
    return next((_ADVICE[code[:length]] for length in (5, 3, 2) if code and code[:length] in _ADVICE), None)


def _for_text(text: str, error: DatabaseError) -> str | None:
    """Return the advice where the driver has no code: it has none for a connection that was not made."""
    if "certificate" in text:
        return _CERTIFICATE
    if "password" in text or "authentication" in text:
        return _CREDENTIALS
    if 'database "' in text and "does not exist" in text:
        return _ADVICE["3D"]
    return _UNREACHABLE if error.connection_invalidated or "connection" in text else None
