"""Digests with defaults, and tags read as digests have them."""

from datetime import UTC, datetime
from pathlib import Path

from cachewatch.comparing import changesets
from cachewatch.core.selection import Globs, Selection
from cachewatch.report.formats import DigestCollector, read_tag_digest
from cachewatch.report.values import Digest, Outage, Silenced, Span, TagDigest
from cachewatch.sources.opening import open_comparison

NOW = datetime(2025, 6, 2, 7, 30, tzinfo=UTC)


def read(repository: Path, *, selection: Selection | None = None, jobs: int = 1) -> TagDigest:
    """Read the last revision of develop as a digest."""
    chosen = selection or Selection(tags=Globs(["develop"]))
    opened = open_comparison(
        "HEAD~1",
        "HEAD",
        repository=str(repository),
        wanted_tag=chosen.tags,
        wanted_package=chosen.packages,
    )
    with opened as comparison:
        found = changesets(comparison, chosen, lambda: DigestCollector(chosen.wants), jobs=jobs)
        (tag,) = [read_tag_digest(one, source="public", wants=chosen.wants) for one in found]
    return tag


def digest_of(*tags: TagDigest, subscription: str = "ml-team", **values: object) -> Digest:
    """Return a digest of these tags, with everything that can be said of one."""
    report = tags[0].report
    span = Span(
        source="public",
        address="https://github.com/spack/cache.spack.io.git",
        before=report.before,
        after=report.after,
        revisions=report.revisions_between,
        newest=datetime.fromisoformat(report.after.time) if report.after.time else None,
        checked=NOW,
        gaps=(Outage(datetime(2025, 5, 26, 4, tzinfo=UTC), datetime(2025, 5, 30, 4, tzinfo=UTC)),),
    )
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
