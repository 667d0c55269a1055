"""A few faults of two hosts, the same ones each time; `make hosts` plays as many as it is asked to."""

from pathlib import Path

import pytest

from hosts.faults import play

COUNT, SEED = 8, 1


@pytest.mark.slow
def test_readers_get_everything_once_whatever_happens_to_two_hosts_and_their_database(tmp_path: Path) -> None:
    """Each fault once on each host, and one of the database."""
    problems, figures = play(tmp_path, COUNT, SEED)
    assert not problems, "\n".join([*problems, str(figures)])
    assert figures.digests
    assert figures.takeovers > 1
    print(f"\n{figures}")
