"""The power goes in the middle of a pass: nothing is lost. `make powercut`, as root, with loop devices.

Everything but the mail server is on an ext4 image. A pass stops at a named place; what the disk has by then is
copied, without what is only in memory; the machine that is started again has that copy.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crash.faults import places
from crash.world import World, recover

_CUTS = int(os.environ.get("CACHEWATCH_CUTS", "60"))
_IMAGE_BYTES = 768 << 20  # a poll leaves 512 MiB to others


def test_the_power_is_cut(world: World) -> None:
    cuts = random.Random(2026).choices(places(world), k=_CUTS)
    problems = {place: found for place in cuts if (found := _cut(world, place))}
    print(f"\npower cut: {len(cuts)} cuts, {len(problems)} broke a promise")
    assert not problems


def test_a_cut_finds_what_is_not_flushed(world: World) -> None:
    """The test has teeth: files that are renamed without being flushed are empty, or not there, and count as sent."""
    found = [_cut(world, ("before passes_and_leadership.clean_up", 1), mutant="no flush") for _ in range(3)]
    print(f"\nmutant 'no flush': {sum(map(bool, found))} of {len(found)} cuts broke a promise")
    assert any(found)


def _cut(world: World, place: tuple[str, int], **request: Any) -> list[str]:
    zygote, case = world.zygotes[0], world.case()
    disk, copy = case.folder.with_suffix(".img"), case.folder.with_suffix(".cut.img")
    with disk.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    try:
        with _mounted(disk, case.folder):
            shutil.copytree(world.folder / "first", case.folder, dirs_exist_ok=True)
            case.begin()
            case.publish(1)
            subprocess.run(["sync", "-f", str(case.folder)], check=True)
            with zygote.stopped(case, stop=place, **request):
                subprocess.run(["cp", "--sparse=always", str(disk), str(copy)], check=True)
        with _mounted(copy, case.folder):
            recover(zygote, case, **request)
            return list(case.problems())
    finally:
        disk.unlink()
        copy.unlink(missing_ok=True)


@contextmanager
def _mounted(image: Path, folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        yield
    finally:
        # Lazily, because a git may live for a moment after the pass that started it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
