"""Where the time of one process goes: run as a script, it does what `diff` does, with a watch in its hand.

It prints the seconds of each phase as JSON. Reading a watch costs a little, so the sum is no measurement of `cachewatch diff`.
"""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_PHASES: dict[str, float] = {}


def _timed(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            _PHASES[phase] = _PHASES.get(phase, 0.0) + time.perf_counter() - start

    return watched


def _timed_steps(phase: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def watched(*arguments: Any, **options: Any) -> Iterator[Any]:
        steps = function(*arguments, **options)
        step = _timed(phase, lambda: next(steps, None))
        while (found := step()) is not None:
            yield found

    return watched


def main() -> None:
    """Compare two revisions, once."""
    repository, before, after = sys.argv[1:]
    load = _timed("load the command line", lambda: __import__("cachewatch.cli.diff_and_fail_on"))
    load()
    _timed("load what reads git", lambda: __import__("cachewatch.git.tags_and_documents"))()
    _timed("load DeepDiff", lambda: __import__("deepdiff"))()
    from cachewatch import comparison_flow as diff  # noqa: PLC0415
    from cachewatch.core.changesets import NoCollector  # noqa: PLC0415
    from cachewatch.core.comparison.stacks_prunes_suspicion import Observation  # noqa: PLC0415
    from cachewatch.core.filters_and_spec_patterns import Selection  # noqa: PLC0415
    from cachewatch.documents import records_parsing_diagnostics as parsing  # noqa: PLC0415
    from cachewatch.git.remote_urls_and_fetch_errors import open_repository  # noqa: PLC0415
    from cachewatch.report.diff_blocks_and_colours import Palette, Requested  # noqa: PLC0415
    from cachewatch.report.diff_formats_and_alike_tags import write_text  # noqa: PLC0415
    from cachewatch.sources.before_and_after import compare_sides  # noqa: PLC0415

    gc.set_threshold(100_000, 20, 50)
    selection = Selection()
    diff.read = _timed_steps("wait for git, and read", diff.read)  # type: ignore[attr-defined]
    parsing.parse = _timed("parse", parsing.parse)
    compare_all = diff.compare_all  # type: ignore[attr-defined]
    diff.compare_all = _timed("compare", lambda pairs, **options: list(compare_all(pairs, **options)))  # type: ignore[attr-defined]
    diff.items_of = _timed("take apart", diff.items_of)  # type: ignore[attr-defined]
    diff.statements_of = _timed("find statements", diff.statements_of)  # type: ignore[attr-defined]
    Observation.add = _timed("count", Observation.add)  # type: ignore[method-assign]
    opened = open_repository(repository)
    comparison = _timed("find what differs", compare_sides)(before, after, selection, repository=opened)
    changesets = diff.changesets(comparison, selection, NoCollector)
    for _ in write_text(
        changesets, asked=Requested(most=20, wants=selection.wants), width=80, palette=Palette(is_on=False)
    ):
        pass
    opened.close()
    print(json.dumps(_PHASES))


if __name__ == "__main__":
    main()
