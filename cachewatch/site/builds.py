"""What there is of a package now: stacks by versions, how to install it, and every binary with its hash."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from cachewatch.core.model import known_hash
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.versions import newest, sorted_versions, version_key
from cachewatch.history import Build, Present
from cachewatch.render.statement_phrases import stack_name
from cachewatch.render.template_context import install_line, is_plain, web_address
from cachewatch.site.page_names import shown
from cachewatch.site.page_values import BuildRow, Builds, Install, Matrix, MatrixRow
from cachewatch.site.shared_phrases import stack_link

_UP = "../"
_MOST_VERSIONS = 8
_MOST_OLDER = 40
_MOST_TARGETS = 4
_MOST_BUILDS = 120
_MOST_HASHES = 3
_MOST_LETTERS = 30_000  # of variants on one page


class Sources(Struct, frozen=True):
    """Where binaries are installed from, and where Spack describes packages; empty where that is unknown."""

    mirror: str = ""  # with {tag}
    packages: str = ""  # with {package}

    def page_of(self, package: str) -> str:
        """Return the address of the page about a package."""
        if not self.packages or not is_plain(package):
            return ""
        return web_address(self.packages.replace("{package}", package)) or ""

    def mirror_of(self, tag: str) -> str:
        """Return the address that Spack installs from."""
        if not self.mirror or not is_plain(tag):
            return ""
        return web_address(self.mirror.replace("{tag}", tag)) or ""


def matrix_of(present: Present) -> Matrix | None:
    """Return stacks by versions; what no stack builds comes last."""
    if not present.copies:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    targets: defaultdict[str, set[str]] = defaultdict(set)
    for copies in present.copies:
        counts[copies.stack, copies.version] += copies.count
        targets[copies.stack].add(copies.target)
    ordered = sorted_versions(present.versions)[::-1]
    columns, older = ordered[:_MOST_VERSIONS], ordered[_MOST_VERSIONS:]
    return Matrix(
        versions=tuple(shown(version, 24) for version in columns),
        rows=tuple(
            MatrixRow(
                stack_link(stack, _UP),
                _named(sorted(targets[stack]), _MOST_TARGETS),
                tuple(counts[stack, version] for version in columns),
                is_unreferenced=not stack,
            )
            for stack in sorted(targets, key=lambda stack: (stack == "", stack))
        ),
        older=tuple(shown(version, 24) for version in older[:_MOST_OLDER]),
        more_older=max(0, len(older) - _MOST_OLDER),
    )


def _named(words: Sequence[str], most: int) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(shown(word, 24) for word in words[:most]) + more


def install_of(package: str, tag: str, present: Present, sources: Sources) -> Install | None:
    """Say how to install the newest version, in the build that most stacks have."""
    built = [build for build in present.builds if build.stacks and build.version]
    if not built:
        return None
    latest = newest({build.version for build in built})
    chosen = max((b for b in built if b.version == latest), key=lambda b: (len(b.stacks), len(b.hashes), b.hashes))
    command = install_line(package, latest, spec_hash=known_hash(chosen.hashes[0]) or "")
    if command is None:
        return None
    mirror = sources.mirror_of(tag)
    setup = (f"spack mirror add {tag} {mirror}", "spack buildcache keys --install --trust") if mirror else ()
    stacks = _named([stack_name(stack) for stack in chosen.stacks], 3)
    variants = " ".join(shown(variant) for variant in chosen.variants)
    return Install(setup, command, f"for {_configuration(chosen)}, from {stacks}", variants)


def _configuration(build: Build) -> str:
    compiler = "" if build.compiler == NO_COMPILER else build.compiler
    return ", ".join(shown(value, 40) for value in (build.target, build.os, compiler) if value)


def builds_of(present: Present) -> Builds:
    """List all specs, alike ones together, the newest version first."""
    shared = _shared(present.builds)
    ordered = _in_order(present.builds)
    rows: list[BuildRow] = []
    letters = 0
    for build in ordered[:_MOST_BUILDS]:
        row = _row(build, shared)
        letters += len(row.variants)
        if letters > _MOST_LETTERS:
            break
        rows.append(row)
    more = sum(len(build.hashes) for build in ordered[len(rows) :])
    return Builds(tuple(rows), present.specs, more, " ".join(shown(variant) for variant in shared))


def _in_order(builds: Iterable[Build]) -> list[Build]:
    """Sort builds: the newest version first, and last what no stack builds."""
    ordered = sorted(builds, key=lambda build: (build.stacks, build.target, build.hashes))
    ordered.sort(key=lambda build: version_key(build.version), reverse=True)
    return sorted(ordered, key=lambda build: not build.stacks)


def _shared(builds: Iterable[Build]) -> tuple[str, ...]:
    """Return the variants that all builds have."""
    sets = [set(build.variants) for build in builds]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def _row(build: Build, shared: Iterable[str]) -> BuildRow:
    own = [variant for variant in build.variants if variant not in set(shared)]
    hashes = [spec_hash for spec_hash in build.hashes if known_hash(spec_hash)]
    return BuildRow(
        version=shown(build.version, 40),
        hashes=tuple(shown(spec_hash, 40) for spec_hash in hashes[:_MOST_HASHES]),
        more_hashes=max(0, len(hashes) - _MOST_HASHES),
        configuration=_configuration(build),
        stacks=_named([stack_name(stack) for stack in build.stacks], 4) if build.stacks else "no stack",
        variants=" ".join(shown(variant) for variant in own),
    )
