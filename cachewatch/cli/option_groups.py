"""A command whose help lists its options by purpose; a list of twenty helps nobody."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

Groups = Mapping[str, Sequence[str]]


class GroupedOptions(click.Command):
    """A command with groups of options, each named by what its options are for; all others come last."""

    def __init__(self, *arguments: Any, groups: Groups, **values: Any) -> None:
        super().__init__(*arguments, **values)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below the titles of their groups."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {str(option.name): option.get_help_record(ctx) for option in options}
        grouped = {name for names in self.groups.values() for name in names}
        sections = {**self.groups, "Options": [name for name in records if name not in grouped]}
        for title, names in sections.items():
            found = [record for name in names if (record := records[name]) is not None]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
