"""`cachewatch coverage --best`: the tag and revision that had most of an environment."""

from contextlib import closing
from pathlib import Path
from shlex import quote

from cachewatch.cli.open_history import open_history, write_answer
from cachewatch.cli.output import write
from cachewatch.core import tag_names
from cachewatch.core.environment_coverage import Environment
from cachewatch.errors import UsageError
from cachewatch.history_db.answer_tables import snapshots_table
from cachewatch.history_db.best_snapshot import BestSnapshots, find_best

PUBLIC_MIRROR = "https://binaries.spack.io/{tag}"
_MOST_SHOWN = 10


def show_best(
    environment: Environment,
    repo: str | None,
    db: Path | None,
    *,
    mirror: str | None,
    is_pin: bool,
    format_: str,
    output: str | None,
) -> None:
    """Write the tags that had most of `environment`, or the command that adds the best of them."""
    if not environment.hashes:
        raise UsageError(f"{environment.name}: names no hashes; --best needs a spack.lock")
    most = _MOST_SHOWN if format_ == "text" and not is_pin else None
    with closing(open_history(repo, db)) as index:
        answer = find_best(index, environment.hashes, most=most)
    if not answer.snapshots:
        raise UsageError(
            f"{environment.name}: none of its {len(environment.hashes):,} hashes was ever in an indexed tag "
            f"(up to {answer.indexed.revision[:10]})"
        )
    if is_pin:
        write([f"{_pin(answer, mirror or PUBLIC_MIRROR)}\n".encode()], output)
        return
    write_answer(answer, answer.indexed, lambda: snapshots_table(answer), format_=format_, output=output)


def _pin(answer: BestSnapshots, mirror: str) -> str:
    """Return the command for the best tag that stays as it is and still is."""
    for one in answer.snapshots:
        if one.is_current and not tag_names.is_mutable(one.tag):
            url = mirror.replace("{tag}", one.tag)
            return f"spack mirror add {quote(one.tag)} {quote(url)}  # {one.found} of {one.of} binaries"
    best = answer.snapshots[0]
    raise UsageError(
        f"no snapshot or release has any of it now; {best.tag} had {best.found} of {best.of} "
        f"at {best.revision[:10]}, but a branch cannot be pinned"
    )
