"""Sphinx builds the documentation from the pages of this folder, as they are; `make docs` runs it."""

import inspect
import os
import re
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
sys.path.insert(0, str(_FOLDER.parent))

import cachewatch  # noqa: E402

project = "cachewatch"
version = release = cachewatch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"cachewatch {version}"
html_copy_source = False
html_show_copyright = False

# Links of the pages lead to headings, as where the project is hosted.
myst_heading_anchors = 3
# `name` in a docstring is code.
default_role = "literal"
autodoc_default_options = {"members": True, "undoc-members": True, "special-members": "__iter__"}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

_SOURCES = "https://github.com/cachewatch/cachewatch/blob/main"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")


def rewritten(text: str, folder: Path) -> str:
    """Return a page of `folder` whose links to files outside of docs/ lead to where the project is hosted."""

    def target(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / link[1]))
        if path.is_relative_to(_FOLDER) and not path.is_dir():
            return link[1]
        return f"{_SOURCES}/{path.relative_to(_FOLDER.parent)}"

    return _LINK.sub(target, text)


def _rewrite(app, name: str, content: list[str]) -> None:
    content[0] = rewritten(content[0], Path(app.env.doc2path(name)).parent)


def _hide_construction(*about: object) -> tuple[str, None] | None:
    """Show no arguments of classes that only cachewatch makes."""
    return ("", None) if about[2] in ("cachewatch.OpenCatalogue", "cachewatch.TagChangeset") else None


def _describe_field(*about) -> None:
    """Take what the class says of a field, or the comment behind it, as its description."""
    _, what, name, _, _, lines = about
    if what == "attribute" and not lines:
        _, owner, field = name.split(".")
        source = inspect.getsource(getattr(cachewatch, owner))
        lines += re.findall(rf"^    {field}: .*  # (.*)$", source, re.MULTILINE)
        lines += re.findall(rf"(?:^    |  )(?:\w+, )*{field}(?:, \w+)*: (.*?\.)(?=  |$)", source, re.MULTILINE)


def setup(app) -> None:
    """Have pages rewritten when they are read, and public names described by their code."""
    app.connect("source-read", _rewrite)
    app.connect("autodoc-process-signature", _hide_construction)
    app.connect("autodoc-process-docstring", _describe_field)
