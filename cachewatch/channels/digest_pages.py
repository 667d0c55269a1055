"""The pages of one subscription in an archive of files: each links to the one before it and the one after it."""

from pathlib import Path
from urllib.parse import quote

from cachewatch.channels.path_templates import Place
from cachewatch.core.neighbours import PLACE, Neighbours, with_neighbours, without_neighbours
from cachewatch.runtime.atomic_files import publish, read

_SUFFIX = ".html"


class DigestPages:
    """The pages of an archive, which lie in a folder for each subscription and are named after their days."""

    def __init__(self, place: Place, mode: int) -> None:
        self._place = place
        self._mode = mode
        folder, name = Path(place.template).parent, Path(place.template).name
        # Elsewhere their order, or whose they are, is not in their names.
        self._is_in_order = "{subscription}" in str(folder) and "{period}" in name and "{subscription}" not in name

    def is_page(self, path: Path, content: bytes) -> bool:
        """Tell whether `content` is a page that has a place for links to its neighbours."""
        return self._is_in_order and path.suffix == _SUFFIX and PLACE.encode() in content

    def linked(self, path: Path, content: bytes) -> bytes:
        """Return a page with links to its neighbours, as they are now."""
        previous, after = (quote(page.name) if page else None for page in self._neighbours(path))
        found = Neighbours(previous=previous, next=after)
        return _bytes(with_neighbours(_text(content), found))

    def unlinked(self, content: bytes) -> bytes:
        """Return a page as it was made."""
        return _bytes(without_neighbours(_text(content)))

    def link_neighbours(self, path: Path) -> None:
        """Let the pages beside `path` link to it, or past it if it is gone; raises OSError."""
        for page in filter(None, self._neighbours(path)):
            content = read(page) or b""
            plain = self.unlinked(content)
            if self.is_page(page, plain) and (linked := self.linked(page, plain)) != content:
                publish(page, linked, base=self._place.base, mode=self._mode)

    def _neighbours(self, path: Path) -> tuple[Path | None, Path | None]:
        # By their stems: `2026-08-03-1a2b3c4d` stands beside `2026-08-03` and comes after it.
        pages = {
            page.stem: page for page in self._place.made() if page.parent == path.parent and page.suffix == _SUFFIX
        }
        earlier, later = [stem for stem in pages if stem < path.stem], [stem for stem in pages if stem > path.stem]
        return pages[max(earlier)] if earlier else None, pages[min(later)] if later else None


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
