"""The process in which one target is fuzzed; it takes libFuzzer's options."""

import sys

import atheris

with atheris.instrument_imports(include=["cachewatch"]):
    from fuzz.targets import TARGETS, attempt


def main() -> None:
    """Fuzz until the time is up or something breaks."""
    _, name, *options = sys.argv
    target = TARGETS[name]
    atheris.Setup([name, *options], lambda data: attempt(target, data))
    atheris.Fuzz()


main()
