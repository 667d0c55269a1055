"""Why a package was rebuilt, as a picture: the package that changed on top, and the way down to the one that was rebuilt."""

from collections.abc import Callable, Iterator

from cachewatch.causes.cause_chains import Chain
from cachewatch.core.causes import What
from cachewatch.render.rebuild_reasons import because, change_of
from cachewatch.render.statement_phrases import number
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import CauseChain, ChainStep, Link, Reasons
from cachewatch.site.recorded_causes import PackageCauses
from cachewatch.site.shared_phrases import Times

_STEP = 40  # pixels from one package to the next
_LAST = 24
_MOST_STEPS = 7
_LONGEST = 300
_UP = "../"


def reasons_of(causes: PackageCauses, times: Times, has_page: Callable[[str], bool]) -> Reasons:
    """Return why a package was rebuilt the last time; packages that have a page are linked to."""
    return Reasons(times.moments[causes.revision], tuple(_picture(chain, has_page) for chain in causes.chains))


def _picture(chain: Chain, has_page: Callable[[str], bool]) -> CauseChain:
    words = f"{number(chain.specs, 'spec')} {shown(because([chain.cause]), _LONGEST)}"
    # From the cause to the package that was rebuilt.
    names = tuple(reversed(chain.path))
    if len(names) < 2 or chain.cause.what in (What.SPACK, What.NOT_RECORDED):
        return CauseChain(words, "", (), 0)
    steps = tuple(_steps(names, shown(change_of(chain.cause), _LONGEST), has_page))
    title = ", which needs ".join(shown(name, 40) for name in chain.path)
    return CauseChain(words, title, steps, _STEP * (len(steps) - 1) + _LAST)


def _steps(names: tuple[str, ...], note: str, has_page: Callable[[str], bool]) -> Iterator[ChainStep]:
    few = _few(names)
    for place, name in enumerate(few):
        if not name:
            link = Link(f"{len(names) - len(few) + 1} more packages")
        else:
            is_here = place == len(few) - 1
            link = Link(shown(name, 40), _UP + page("package", name) if has_page(name) and not is_here else "")
        yield ChainStep(link, note if place == 0 else "", place * _STEP)


def _few(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, with an empty one in the place of those in the middle of a long way."""
    if len(names) <= _MOST_STEPS:
        return names
    return (*names[: _MOST_STEPS - 3], "", *names[-2:])
