"""The paths of published files, from a template such as /srv/www/{subscription}/{period}.{ext}."""

import re
from collections.abc import Iterator
from pathlib import Path

from cachewatch.channels.escaping import file_name

_FIELD = re.compile(r"\{([^{}]*)\}")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# One day, with its time or not, or two days; then what parts digests of the same period.
_SHAPES = {"period": rf"{_DAY}(?:T[0-9]{{4,6}}Z?|\.\.{_DAY})?(?:-urgent)?(?:-[0-9a-f]{{8}})?"}


class Place:
    """A template of paths."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = frozenset(_FIELD.findall(template))
        constant = Path(template.partition("{")[0] + "x" if self.fields else template)
        self.base = constant.absolute().parent  # everything up to the first folder that has a field

    def path(self, **values: str) -> Path:
        """Return the path for `values`, none of which leads out of its folder."""
        safe = {name: file_name(value) for name, value in values.items()}
        parts = [_FIELD.sub(lambda found: safe[found[1]], part) for part in Path(self.template).parts]
        return Path(*parts).absolute()

    def made(self) -> Iterator[Path]:
        """Yield the files whose paths are of this template, whoever wrote them."""
        template = str(Path(self.template).absolute())
        pieces = [piece for piece in re.split(r"(\{[^{}]*\})", template) if piece]
        shape = re.compile("".join(_shape(piece) for piece in pieces))
        steps = _FIELD.sub("*", str(Path(template).relative_to(self.base)))
        for path in self.base.glob(steps):
            if shape.fullmatch(str(path)) and path.parent.resolve().is_relative_to(self.base.resolve()):
                yield path


def _shape(piece: str) -> str:
    return _SHAPES.get(piece[1:-1], r"[A-Za-z0-9._+~-]+") if piece.startswith("{") else re.escape(piece)
