"""Build caches as Spack's clients publish them, read at their index.

`address.py` says what an address means and how files are got from there, `layouts.py`
finds the index in a mirror of layout 2 or 3 and `oci.py` in a registry, `record_slices.py`
finds its records, `index.py` and `nodes.py` make specs of them, `spec_store.py` keeps them in
a temporary file, `published_specs.py` puts those of several indexes together, `catalogue.py`
reads the list of all of Spack's public caches, and `sizes.py` asks for the sizes of tarballs.
"""

from typing import Protocol

from msgspec import Struct


class Validator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """By what an index is known again without reading it."""

    layout: str = ""  # v2, v3 or oci
    etag: str = ""  # of the file that is asked for first
    digest: str = ""  # sha256 of the index, in hex
    looked: float = 0.0  # when it was last looked for a newer layout, in seconds since 1970


class IndexFile(Struct, frozen=True):
    """The bytes of an index, verified as far as its layout lets them be."""

    content: bytes
    where: str
    fresh: Validator
    more: tuple[bytes, ...] = ()  # further indexes of the same cache


class Mirror(Protocol):
    """A place that holds files under relative paths."""

    @property
    def where(self) -> str:
        """What to call it in messages."""

    @property
    def max_index(self) -> int:
        """How many bytes an index may have, unpacked."""

    def get(self, path: str, *, etag: str = "", size: int | None = None) -> "File | None":
        """Return a file, or None if there is none; raises SourceError if that cannot be known.

        TooLarge is raised where it has more than `size` bytes.
        """

    def get_all(self, paths: list[str]) -> "list[File | None]":
        """Return many small files; None where there is none or it cannot be read."""

    def close(self) -> None:
        """Let go of connections."""


class File(Struct, frozen=True):
    """What a mirror gave."""

    content: bytes
    etag: str = ""
    is_unchanged: bool = False  # as the etag that was sent along says; there is no content then
