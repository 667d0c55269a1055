"""The page of one stack: what it builds, and what came to it and left it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from cachewatch.history import Present, TagHistory, Totals
from cachewatch.site.package_lists import package_row
from cachewatch.site.page_names import file_name, shown
from cachewatch.site.page_values import Happening, StackPage
from cachewatch.site.revisions import named
from cachewatch.site.shared_phrases import Times, figures, line_plot

_MOST_NAMED = 40
_MOST_REVISIONS = 40


def stack_pages(past: TagHistory, totals: Totals, times: Times) -> Mapping[str, StackPage]:
    """Tell of every stack that there ever was."""
    members: defaultdict[str, dict[str, Present]] = defaultdict(dict)
    events: defaultdict[str, defaultdict[int, tuple[list[tuple[str, str]], list[tuple[str, str]]]]]
    events = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for history in past.packages:
        for stack in history.present.stacks:
            members[stack][history.package] = _in_stack(history.present, stack)
        for step in history.steps:
            for place, side in enumerate(() if step.is_baseline else (step.came, step.went)):
                for stack, version in side:
                    events[stack][step.revision][place].append((history.package, version))
    return {
        stack: _stack_page(
            stack,
            tag=past.tag,
            members=members[stack],
            events=events[stack],
            specs=totals.stacks[stack],
            times=times,
        )
        for stack in sorted(totals.stacks)
    }


def _in_stack(present: Present, stack: str) -> Present:
    copies = tuple(found for found in present.copies if found.stack == stack)
    return Present(specs=sum(found.count for found in copies), copies=copies)


def _stack_page(
    stack: str,
    *,
    tag: str,
    members: Mapping[str, Present],
    events: Mapping[int, tuple[list[tuple[str, str]], list[tuple[str, str]]]],
    specs: Sequence[int],
    times: Times,
) -> StackPage:
    # Like a package's, its axis ends with the last change.
    changes = [n for n in range(len(specs)) if n == 0 or specs[n] != specs[n - 1]]
    happened = [
        Happening(
            moment=times.moments[revision],
            counts=(),
            specs=f"{specs[revision]:,}",
            came=tuple(named(came[:_MOST_NAMED], "../")),
            went=tuple(named(went[:_MOST_NAMED], "../")),
            more_came=max(0, len(came) - _MOST_NAMED),
            more_went=max(0, len(went) - _MOST_NAMED),
        )
        for revision, (came, went) in sorted(events.items(), reverse=True)
    ]
    targets = sorted({target for present in members.values() for target in present.targets})
    lead = f"It builds for {', '.join(shown(t, 40) for t in targets[:6])}{', ...' if len(targets) > 6 else ''}."
    return StackPage(
        name=shown(stack),
        tag=shown(tag),
        lead=lead if members else "It has no specs now.",
        figures=figures(package=len(members), spec=specs[-1], target=len(targets)),
        plot=line_plot("specs", [specs[n] for n in changes], changes, times),
        happenings=tuple(happened[:_MOST_REVISIONS]),
        more_happenings=max(0, len(happened) - _MOST_REVISIONS),
        packages=tuple(package_row(package, present, up="../") for package, present in sorted(members.items())),
        feed=f"{file_name(stack)}.atom",
    )
