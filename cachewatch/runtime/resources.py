"""Find the files that are beside the package in a checkout and inside it in a wheel, and those of extensions.

The templates of an extension lie in its package, in `templates/`, and have its name as a prefix: `site/index.html.j2`.
Its JSON Schemas lie in `schemas/`.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from cachewatch.hooks import extensions

_SCHEMA = ".schema.json"


def root() -> Traversable:
    """Return the folder that holds templates/, config/ and the documents of the demo."""
    installed = files("cachewatch") / "_data"  # put there by pyproject.toml
    return installed if installed.is_dir() else Path(__file__).parents[2]


@lru_cache(maxsize=256)
def template(name: str) -> str | None:
    """Return the source of a template, or None where there is none of that name."""
    extension, _, rest = name.partition("/")
    package = extensions().loaded.get(extension) if rest else None
    file = files(package) / "templates" / rest if package else root() / "templates" / name
    return file.read_text("utf-8") if file.is_file() else None


def schemas() -> Mapping[str, Traversable]:
    """Return the JSON Schemas of what commands print, by name."""
    folders = [root() / "config", *(files(package) / "schemas" for package in extensions().loaded.values())]
    found = sorted(
        (file for folder in folders if folder.is_dir() for file in folder.iterdir()), key=lambda file: file.name
    )
    return {file.name.removesuffix(_SCHEMA): file for file in found if file.name.endswith(_SCHEMA)}


def config(name: str) -> str:
    """Return the text of a file in config/."""
    return (root() / "config" / name).read_text("utf-8")


def demo_documents() -> dict[str, bytes]:
    """Return the documents that the demo is made of, by package."""
    folder = root() / "demo"
    documents = (file for file in folder.iterdir() if file.name.endswith(".md"))
    return {file.name.removesuffix(".md"): file.read_bytes() for file in documents}
