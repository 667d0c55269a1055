"""Digests with defaults, and tags read as digests have them."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from helpers import Packages, catalogue, history, record, spec_hash
from msgspec.structs import replace

from cachewatch.comparison_flow import changesets
from cachewatch.core.advice.environment_coverage import Environment, Need, compare_coverage, cover
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Kind, Signature
from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.git.local_repository import Repository
from cachewatch.report.digest_and_message_values import Digest, Outage, RenderedDigest, Silenced, Span, TagDigest
from cachewatch.report.digests.data_for_templates import DigestCollector, read_tag_digest
from cachewatch.report.digests.rendering_and_sizes import render_digest
from cachewatch.sources.before_and_after import compare_sides

Held = dict[str, dict[str, Signature]]  # what a cache has: by package and hash
NOW = datetime(2025, 6, 2, 7, 30, tzinfo=UTC)


def read(repository: Path, *, selection: Selection | None = None, jobs: int = 1) -> TagDigest:
    """Read the last revision of develop as a digest."""
    chosen = selection or Selection(tags=Globs(["develop"]))
    with closing(Repository(repository)) as opened:
        comparison = compare_sides("HEAD~1", "HEAD", chosen, repository=opened)
        found = changesets(comparison, chosen, lambda: DigestCollector(chosen.wants), jobs=jobs)
        (tag,) = [read_tag_digest(one, source="public", wants=chosen.wants) for one in found]
    return tag


def digest_of(*tags: TagDigest, subscription: str = "ml-team", **values: object) -> Digest:
    """Return a digest of these tags, with everything that can be said of one."""
    report = tags[0].report
    source: Any = {"source": "public", "address": "https://github.com/spack/cache.spack.io.git"}
    ends: dict[str, Any] = {"before": report.before, "after": report.after, "revisions": report.revisions_between}
    newest = datetime.fromisoformat(report.after.time) if report.after.time else None
    gaps = (Outage(datetime(2025, 5, 26, 4, tzinfo=UTC), datetime(2025, 5, 30, 4, tzinfo=UTC)),)
    span = Span(**source, **ends, newest=newest, checked=NOW, gaps=gaps)
    options: dict[str, object] = {
        "key": "0123456789abcdef",
        "subscription": subscription,
        "description": "what the ML team uses",
        "created": NOW,
        "period": "2025-05-25..2025-06-01",
        "spans": (span,),
        "tags": tags,
        "silenced": (Silenced("llvm", 3, "migration, ask Kim", "2026-12-01"),),
        "why": ("tags develop", "packages py-*"),
        "commands": ("cachewatch diff 6001b266be 1afa5ee758 --tag develop",),
        "archive_url": "https://hpc.example.org/cachewatch/ml-team/2025-06-01.html",
        "unsubscribe": "mailto:cachewatch+unsubscribe@hpc.example.org?subject=ml-team",
        "operator": "hpc-software@example.org",
        "links": "https://cache.spack.io",
    }
    return Digest(**(options | values))  # type: ignore[arg-type]


def week(folder: Path, before: Packages, after: Packages, **options: Any) -> TagDigest:
    """Return a week in which these documents replaced those, read with these options."""
    return read(history(folder / "r.git", catalogue(before), catalogue(after)), **options)


def called(tag: TagDigest, before: str, after: str) -> TagDigest:
    """Return the same changes of tags with these names."""
    sides = ((tag.report.before, before), (tag.report.after, after))
    old, new = (replace(side, tag=name) for side, name in sides)
    return replace(tag, report=replace(tag.report, before=old, after=new))


def mail(digest: Digest) -> tuple[RenderedDigest, str]:
    """Return a digest as readers get it, and its body without the footer, in one line."""
    rendered = render_digest(replace(digest, spans=tuple(replace(span, gaps=()) for span in digest.spans)))
    return rendered, " ".join(rendered.text.partition("\n-----")[0].split())


def many(first: int, count: int, **values: object) -> Packages:
    """Return packages of one spec each."""
    return {f"p{n:03}": [record(first + n, **values)] for n in range(count)}


def needs(*versions: tuple[str, int, str]) -> Environment:
    """Return an environment of these binaries."""
    machine: dict[str, Any] = {"platform": "linux", "os": "ubuntu22.04", "target": "x86_64_v3"}
    built: dict[str, Any] = {"compiler": "gcc@11.4.0", "variants": ("+shared",)}
    found = (Need(package=name, version=v, hash=spec_hash(n), **machine, **built) for name, n, v in versions)
    return Environment(name="ml", needs=tuple(found))


def held(*versions: tuple[str, int, str]) -> Held:
    """Return a cache that has these binaries."""
    rest = ("gcc@11.4.0", "ubuntu22.04", "linux", "x86_64_v3", ("+shared",), ("e4s",))
    return {name: {spec_hash(number): Signature((version,), *rest)} for name, number, version in versions}


def unbuilt(cache: Held) -> Held:
    """Return the same binaries where no stack builds them any more."""
    return {name: {key: replace(one, stacks=()) for key, one in found.items()} for name, found in cache.items()}


def mail_of(
    folder: Path, environment: Environment, before: Held, after: Held, **values: Any
) -> tuple[RenderedDigest, str]:
    """Return the mail about an environment whose cache went from one state to another; beside it, zlib was rebuilt."""
    change = compare_coverage(cover(environment, before), cover(environment, after))
    tag = week(folder, {"zlib": [record(1)]}, {"zlib": [record(2)]})
    return mail(digest_of(tag, environment=change, silenced=(), **values))


def returned(*packages: str, of: int, **values: Any) -> Statement:
    kinds = frozenset({Kind.RETURNED})
    return Statement(kind=StatementKind.RETURNED, packages=packages, of_packages=of, kinds=kinds, **values)
