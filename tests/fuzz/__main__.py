"""Fuzz each target for a time, each in a process of its own; `make fuzz`."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
_STATS = re.compile(rb"stat::(\w+): +(\d+)")
# What one input may take; more is a finding.
_SECONDS, _MEGABYTES, _BYTES = 10, 2048, 65_536


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(TARGETS)))
@click.option("--seconds", default=17, help="How long each target is fuzzed.")
@click.option("--findings", type=Path, default=Path("findings"), help="Where inputs are kept that broke something.")
def main(names: tuple[str, ...], seconds: int, findings: Path) -> None:
    """Give random bytes to what reads the files of strangers. Exits with 1 if something broke."""
    broken = [name for name in names or TARGETS if not _fuzz(name, seconds, findings)]
    sys.exit(bool(broken))


def _fuzz(name: str, seconds: int, findings: Path) -> bool:
    findings.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as found:
        bounds = [f"-rss_limit_mb={_MEGABYTES}", f"-max_len={_BYTES}"]
        limits = [f"-max_total_time={seconds}", f"-timeout={_SECONDS}", *bounds]
        kept = [f"-artifact_prefix={findings.resolve()}/{name}-", "-print_final_stats=1", found, str(CORPUS / name)]
        command = [sys.executable, "-m", "fuzz.process", name, *limits, *kept]
        end = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"PYTHONHASHSEED": "0"})
    stats = {key.decode(): int(value) for key, value in _STATS.findall(end.stderr)}
    figures = {"target": name, "seconds": seconds, "executions": stats.get("number_of_executed_units", 0)}
    click.echo(json.dumps(figures | {"most_megabytes": stats.get("peak_rss_mb", 0), "is_broken": end.returncode != 0}))
    if end.returncode:
        click.echo(end.stderr.decode(errors="replace")[-4000:], err=True)
    return end.returncode == 0


if __name__ == "__main__":
    main()
