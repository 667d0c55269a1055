"""Report what changed in a Spack build cache. The names in `__all__` are the public API; docs/api.md describes them.

Each name is loaded when it is first used, so that importing the package is fast. To read the code, start where a
command begins: `diff` in cli/diff_and_fail_on.py, `once` in service/passes_and_leadership.py (run_pass). Both compare by the steps
of comparison_flow.py. A word has its meaning at its class: Spec (one built binary), Place, Loss (core/kinds_and_specs.py),
Items, Story, Statement (core/statement_kinds.py), Stream (service); a tag is a folder of the catalogue, such as develop.
"""
# ruff: noqa: F403, F405  type checkers find the names of `__all__` in these modules

__version__ = "0.2.0"

# As in `typing`, which takes longer to load than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from cachewatch.api import *
    from cachewatch.core.advice.environment_coverage import Coverage, Environment, Nearest, Need, Resolution
    from cachewatch.core.graphs_and_attribution import Cause, What
    from cachewatch.core.kinds_and_specs import *
    from cachewatch.core.statement_kinds import *
    from cachewatch.errors import *
    from cachewatch.git.revision_names_and_times import Revision

__all__ = [
    "Attribute", "BrokenSource", "BuildCache", "CachewatchError", "Cause", "CauseCount", "CompilerForm", "Counts",
    "Coverage", "CoverageReport", "Delta", "Diagnostic", "DiagnosticKind", "Document", "DocumentError", "Effect",
    "Environment", "HttpError", "Items", "Kind", "Line", "Loss", "LossClass", "Machine", "MachineLoss", "MatchKind",
    "Nearest", "Need", "NotComparableDocument", "OpenCatalogue", "Outside", "OwnedLoss", "PackageChange",
    "PackageCounts", "Place", "PlaceChange", "RefusedAddress", "Resolution", "Revision", "Severity", "Side",
    "Signature", "SignatureCount", "SourceError", "Spec", "SpecClass", "SpecCounts", "SpecMatch", "Specs",
    "StackChange", "StackVersions", "Statement", "StatementKind", "Status", "Stay", "Story", "Summary",
    "TagChangeset", "TooLarge", "Turnover", "UnknownRevision", "UnreadableDocument", "UsageError", "Verdict",
    "What", "__version__", "compare", "coverage", "open", "parse_document", "to_records",
]  # fmt: skip

# The modules that define these names, those that load quickly first.
_MODULES = (
    "errors", "core.kinds_and_specs", "core.graphs_and_attribution", "core.statement_kinds",
    "core.advice.environment_coverage", "api", "git.revision_names_and_times",
)  # fmt: skip

if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name):
        """Return the object with the public name `name`, and keep it. Raises AttributeError for other names."""
        if name in __all__:
            from importlib import import_module  # noqa: PLC0415

            for module in _MODULES:
                if hasattr(found := import_module(f"{__name__}.{module}"), name):
                    return globals().setdefault(name, getattr(found, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
