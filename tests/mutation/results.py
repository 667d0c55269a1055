"""The outcome of each change, a line of JSON in a file: a run that was stopped goes on where it was."""

import json
from collections.abc import Iterable
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
        self._rows = {str(row["diff"]): row for row in rows}
        self.drop([])

    def get(self, mutant: Mutant) -> Row | None:
        """Return the outcome of a change that was tried before."""
        return self._rows.get(mutant.diff)

    def drop(self, rows: Iterable[Row]) -> None:
        """Forget outcomes, so that these changes are tried again."""
        for row in rows:
            self._rows.pop(str(row["diff"]), None)
        self._path.write_text("".join(map(self._line, self._rows.values())), "utf-8")

    def _line(self, row: Row) -> str:
        return json.dumps({"code": self._code} | row) + "\n"

    def add(self, row: Row) -> None:
        """Write an outcome, once."""
        if str(row["diff"]) not in self._rows:
            self._rows[str(row["diff"])] = row
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._line(row))
