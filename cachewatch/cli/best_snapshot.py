"""`cachewatch coverage --best`: the tag and revision that had most of an environment."""

from pathlib import Path
from shlex import quote

from cachewatch.cli.open_history import open_history, write_answer
from cachewatch.cli.output import write
from cachewatch.core import tag_names
from cachewatch.core.environment_coverage import Environment
from cachewatch.core.filter_patterns import Globs
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
    tag: str | None,
    mirror: str | None,
    is_pin: bool,
    format_: str,
    output: str | None,
) -> None:
    """Write the tags, or those that a glob names, that had most of `environment`, or the command that adds the best of them."""
    if mirror is not None and not is_pin:
        raise UsageError("--mirror belongs to --pin; give --pin too")
    if is_pin and format_ != "text":
        raise UsageError("--pin prints a command; leave out --format")
    if not environment.hashes:
        raise UsageError(f"{environment.name}: names no hashes; --best needs a spack.lock")
    most = _MOST_SHOWN if format_ == "text" and not is_pin else None
    with open_history(repo, db) as index:
        answer = find_best(index, environment.hashes, most=most, takes_tag=Globs([tag]) if tag else None)
    if not answer.snapshots:
        count = len(environment.hashes)
        raise UsageError(
            f"{environment.name}: {'its one hash was never' if count == 1 else f'none of its {count:,} hashes was ever'} "
            f"in {f'a tag {tag}' if tag else 'an indexed tag'} (up to {answer.indexed.revision[:10]})"
        )
    if is_pin:
        write([f"{_pin(answer, mirror or PUBLIC_MIRROR, is_chosen=tag is not None)}\n".encode()], output)
        return
    write_answer(answer, answer.indexed, lambda: snapshots_table(answer), format_=format_, output=output)


def _pin(answer: BestSnapshots, mirror: str, *, is_chosen: bool) -> str:
    """Return the command for the best tag that has as much now, and never changes, by its name or as the user says."""
    for one in answer.snapshots:
        if one.is_current and (is_chosen or not tag_names.is_mutable(one.tag)):
            url = mirror.replace("{tag}", one.tag)
            return f"spack mirror add {quote(one.tag)} {quote(url)}  # {one.found} of {one.of} binaries"
    best = answer.snapshots[0]
    had = f"{best.tag} {'has' if best.is_current else 'had'} {best.found} of {best.of} at {best.revision[:10]}"
    if is_chosen:
        raise UsageError(f"no tag of that name has any of it now; {had}")
    raise UsageError(
        f"no snapshot (NAME-YYYY-MM-DD) or release (v1.2.3) has any of it now; {had}; "
        "name a tag that never changes by --tag"
    )
