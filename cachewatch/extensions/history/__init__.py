"""The history index: when each spec of a catalogue was present. `build.py` fills it, `index_lookup.py` opens it."""

from typing import Any

from cachewatch.hooks import Command, Settings, extends, load

_COMMANDS = f"{__name__}.commands"


@extends
def commands() -> list[Command]:
    """Return the commands `log` and `history`, and the subcommands of `history` that ask the index."""
    return [
        Command("Compare", "log", "Show what each revision did to a package.", f"{_COMMANDS}:log"),
        Command("", "history when", "Show since when a version is in each stack.", f"{_COMMANDS}:when"),
        Command("", "history blame", "Show when a spec was added and removed.", f"{_COMMANDS}:blame"),
        Command("", "history churn", "Show how many specs come and go.", f"{_COMMANDS}:churn"),
        Command("", "history best", "Find the snapshots with most binaries of an environment.", f"{_COMMANDS}:best"),
        Command("Operate", "history", "Build the history index, or keep it up to date.", f"{_COMMANDS}:history"),
    ]


@extends
def after_poll(context: Any, source: Any) -> None:
    """Bring the history index of `source` up to date if the configuration lists this source under `history:`."""
    settings = getattr(context.config, "history", None)
    if settings and settings.sources:
        load(f"{__name__}.in_service:update_history")(context, source, settings.sources)


@extends
def settings() -> Settings:
    """Return the declaration of the configuration section `history:`."""
    return Settings("history", f"{__name__}.settings:HistorySettings", "which history indexes are kept")


@extends
def past(repository: Any, log: Any) -> Any:
    """Return the history index of `repository`, which digests ask about the past; None if missing or unreadable."""
    path = load(f"{__name__}.schema_and_location:index_path")(None, repository.shared_git_dir, {})
    return load(f"{__name__}.in_service:open_past")(path, log) if path.exists() else None
