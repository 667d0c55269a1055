"""How upstream lays out a revision: `_cache/<tag>/<package>/specs.md`, and nothing else counts."""

import re
from collections.abc import Callable

CATALOGUE = "_cache"
DOCUMENT = "specs.md"
TAGS_FILE = "_data/tags.yaml"
# The catalogue of Spack's public build caches.
PUBLIC_REPOSITORY = "https://github.com/spack/cache.spack.io.git"

# Beside the documents of a recorded build cache: what each spec of a package was made of, and, in the folder of a
# tag, the specs that are no binaries. No rule of the layout takes them for documents.
PACKAGE_GRAPH = "graph.json"
TAG_GRAPH = ".graph.json"

# Chooses packages by name.
Wanted = Callable[[str], bool]

_NAME = re.compile(rb"[A-Za-z0-9._+@-]{1,128}")


def is_name(name: bytes) -> bool:
    """Tell whether a tag or a package can be called `name`."""
    return _NAME.fullmatch(name) is not None and name.strip(b".") != b"" and name.lower() != b".git"
