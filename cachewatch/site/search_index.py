"""What the search field knows: names, versions, stacks and tags in one file, hashes in a file for each first letter.

The files are scripts that hand over data, because a page on disk may load scripts and nothing else.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cachewatch.core.versions import sorted_versions
from cachewatch.history import Present, Totals
from cachewatch.site.page_names import file_name, shown
from cachewatch.site.read_history import Catalogue

# Letters of a hash that name a spec well enough; the first one names the file.
_LETTERS = 7
_MOST_VERSIONS = 12
_HASH_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def index_file(packages: Sequence[str], catalogue: Catalogue, totals: Totals) -> bytes:
    """Return the file that is loaded once somebody searches; `packages` are in the order of their numbers."""
    presents = presents_of(catalogue)
    stacks = sorted({*totals.stacks, *(stack for present in presents.values() for stack in present.stacks)})
    targets = sorted({target for present in presents.values() for target in present.targets})
    compilers = sorted({compiler for present in presents.values() for compiler in present.compilers})
    places = tuple({name: n for n, name in enumerate(names)} for names in (stacks, targets, compilers))
    data = {
        "tag": shown(catalogue.past.tag),
        "letters": "".join(sorted({letter for present in presents.values() for letter in _by_letter(present)})),
        "stacks": [_named(stack) for stack in stacks],
        "tags": [_named(tag) for tag in (catalogue.past.tag, *catalogue.tags)],
        "targets": [shown(target, 40) for target in targets],
        "compilers": [shown(compiler, 40) for compiler in compilers],
        "packages": [_facts(package, presents.get(package, Present()), places) for package in packages],
    }
    return b"cachewatch.index(" + _json(data) + b");\n"


def hash_files(packages: Sequence[str], catalogue: Catalogue) -> Iterator[tuple[str, bytes]]:
    """Yield for each first letter the path and the content of the file of its hashes."""
    presents = presents_of(catalogue)
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for number, package in enumerate(packages):
        for letter, hashes in _by_letter(presents.get(package, Present())).items():
            found[letter][number] = "".join(sorted(hashes))
    for letter, by_number in sorted(found.items()):
        yield f"assets/hashes-{letter}.js", b'cachewatch.hashes("%s",' % letter.encode() + _json(by_number) + b");\n"


def presents_of(catalogue: Catalogue) -> dict[str, Present]:
    """Return what there is of each package in the tag that is told."""
    return {history.package: history.present for history in catalogue.past.packages if history.is_there}


def _by_letter(present: Present) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for build in present.builds:
        for spec_hash in build.hashes:
            short = spec_hash[:_LETTERS].lower()
            if len(short) == _LETTERS and _HASH_LETTERS.issuperset(short):
                found[short[0]].append(short[1:])
    return found


def _named(name: str) -> str | list[str]:
    """Return a name, with the name of its page where that is another one."""
    return name if file_name(name) == name else [shown(name), file_name(name)]


def _facts(package: str, present: Present, places: tuple[Mapping[str, int], ...]) -> list[object]:
    stacks, targets, compilers = places
    versions = sorted_versions(present.versions)[::-1][:_MOST_VERSIONS]
    return [
        _named(package),
        " ".join(shown(version, 40).replace(" ", "") for version in versions),
        sorted(stacks[stack] for stack in present.stacks),
        sorted(targets[target] for target in present.targets),
        sorted(compilers[compiler] for compiler in present.compilers),
    ]


def _json(data: object) -> bytes:
    # "<" is never in a script that somebody might take for markup.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").encode()
