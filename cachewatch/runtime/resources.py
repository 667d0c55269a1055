"""Find the files that are beside the package in a checkout and inside it in a wheel."""

from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def root() -> Traversable:
    """Return the folder that holds templates/, config/ and the documents of the demo."""
    installed = files("cachewatch") / "_data"  # put there by pyproject.toml
    return installed if installed.is_dir() else Path(__file__).parents[2]


@lru_cache(maxsize=256)
def template(name: str) -> str | None:
    """Return the source of a template, or None where there is none of that name."""
    file = root() / "templates" / name
    return file.read_text("utf-8") if file.is_file() else None


def config(name: str) -> str:
    """Return the text of a file in config/."""
    return (root() / "config" / name).read_text("utf-8")


def demo_documents() -> dict[str, bytes]:
    """Return the documents that the demo is made of, by package."""
    folder = root() / "demo"
    documents = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return {file.name.removesuffix(".md"): file.read_bytes() for file in documents}
