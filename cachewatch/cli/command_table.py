"""All commands by purpose: where each is loaded from, and its line in the help, which must not load it."""

from collections.abc import Mapping
from typing import NamedTuple

# In the environment of a shell that asks for completions; click derives the name from the program's.
COMPLETING = "_CACHEWATCH_COMPLETE"


class Entry(NamedTuple):
    """A command: its module below `cachewatch.cli`, and what it does in one line."""

    module: str
    summary: str


SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Compare": {
        "diff": Entry("diff", "Show what changed between two revisions, dates or documents."),
        "show": Entry("show", "Show the builds of packages by version, stack and target."),
        "packages": Entry("listings", "List the packages of a tag."),
        "stacks": Entry("listings", "List the stacks of a tag."),
        "tags": Entry("listings", "List the tags of a catalogue."),
        "coverage": Entry("coverage", "Show which specs of an environment have binaries."),
        "why": Entry("why", "Explain why the specs of a package were rebuilt."),
        "impact": Entry("impact", "Show what would be rebuilt if a package changed."),
        "log": Entry("log", "Show what each revision did to a package."),
        "when": Entry("when", "Show since when a version is in each stack."),
        "blame": Entry("blame", "Show when a spec was born and died."),
        "churn": Entry("churn", "Show how many specs come and go."),
        "kinds": Entry("kinds_and_schema", "List the kinds of change, worst first."),
    },
    "Notify": {
        "init": Entry("init", "Write a short, commented configuration file."),
        "config": Entry("config", "Check or show the configuration."),
        "preview": Entry("preview", "Print the digest that a subscription would receive now."),
        "explain": Entry("explain", "Show which subscriptions report a package, and why."),
        "test": Entry("try_channel", "Send a test message through a channel."),
        "once": Entry("once_and_daemon", "Fetch, compare and deliver what is due, then exit."),
        "daemon": Entry("once_and_daemon", "Fetch, compare and deliver whenever something is due."),
        "template": Entry("template", "List, print, render and check message templates."),
    },
    "Operate": {
        "status": Entry("status", "Show the health of sources and channels, and what is due."),
        "deliveries": Entry("deliveries", "List, retry, release or drop deliveries."),
        "backup": Entry("backup", "Back up the state database."),
        "state": Entry("state", "Check the state, or move it to another database."),
        "record": Entry("record", "Record the current contents of a build cache."),
        "history": Entry("history", "Build the history index, or keep it up to date."),
        "site": Entry("site", "Generate a static site about a catalogue."),
    },
    "Begin": {
        "demo": Entry("demo", "Compare two revisions of a bundled sample catalogue."),
        "completion": Entry("completion", "Print the completion of commands for your shell."),
        "schema": Entry("kinds_and_schema", "Print the JSON Schema of differences, digests or causes."),
    },
}
COMMANDS: Mapping[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
