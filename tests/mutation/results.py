"""The outcome of each change, a line of JSON in a file: a run that was stopped goes on where it was."""

import json
from pathlib import Path

from mutation.changes import Mutant

Row = dict[str, object]


class Results:
    """The file of outcomes."""

    def __init__(self, path: Path, code: str) -> None:
        """Read what is there for the very same `code`, a fingerprint; a test that took too long is tried again."""
        self._path, self._code = path, code
        lines = path.read_text("utf-8").splitlines(True) if path.exists() else []
        rows: list[Row] = [json.loads(line) for line in lines if line.endswith("\n")]
        rows = [row for row in rows if row["code"] == code and row["outcome"] != "timeout"]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        self._rows = {str(row["diff"]): row for row in rows}

    def get(self, mutant: Mutant) -> Row | None:
        """Return the outcome of a change that was tried before."""
        return self._rows.get(mutant.diff)

    def add(self, row: Row) -> None:
        """Write an outcome, once."""
        if str(row["diff"]) not in self._rows:
            self._rows[str(row["diff"])] = row
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"code": self._code} | row) + "\n")
