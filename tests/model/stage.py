"""What all examples share, and one example as a list of moves that can be played again, and made smaller."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from model.checks import problems
from model.mail import MailServer
from model.process import Zygote
from model.world import Figures, World


class Move(NamedTuple):
    """Something that happens: a method of World, and what it is called with."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"world.{self.name}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


class Stage:
    """Processes to fork from, a mail server, and the figures of all examples."""

    def __init__(self, folder: Path, zygotes: tuple[Zygote, Zygote], mail: MailServer) -> None:
        self.folder = folder
        self.zygotes = zygotes
        self.mail = mail
        self.figures = Figures()
        self.mutant = ""
        self._numbers = count(1)

    def world(self) -> World:
        """Return a new world."""
        number = next(self._numbers)
        folder = self.folder / f"world-{number}"
        folder.mkdir()
        return World(folder, number, *self.zygotes, self.mail, self.figures, self.mutant)

    def play(self, moves: list[Move]) -> list[str]:
        """Play an example, and return what is wrong in the end."""
        example = Example(self)
        if [move.name for move in moves[:1]] != ["begin"]:
            example.do("begin")
        try:
            for move in moves:
                example.do(move.name, **move.options)
        except AssertionError as error:
            return [str(error), *example.end()]
        return example.end()


class Example:
    """One world, and what happened to it so far."""

    def __init__(self, stage: Stage) -> None:
        self.moves: list[Move] = []
        self._stage = stage
        self._world = stage.world()

    def do(self, name: str, **options: Any) -> None:
        """Let something happen."""
        self.moves.append(Move(name, options))
        getattr(self._world, name)(**options)
        self._stage.figures.moves += 1

    def end(self) -> list[str]:
        """Let all be well, and return what is wrong all the same."""
        self._stage.figures.examples += 1
        try:
            self._world.recover()
            found = list(problems(self._world))
            return [*found, *self._world.errors()] if found else []
        except AssertionError as error:
            return [f"cannot be checked: {error}"]
        finally:
            # The process that stays would answer to what the next example asks.
            self._world.change_process(is_daemon=False)
            shutil.rmtree(self._world.folder)


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Prepare what all examples share."""
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(prefix="cachewatch-model-", dir=memory if memory.is_dir() else None) as name,
        MailServer() as mail,
        Zygote() as service,
        Zygote() as operator,
    ):
        stage = Stage(Path(name), (service, operator), mail)
        for zygote in stage.zygotes:
            world = stage.world()
            world.prepare_news()
            zygote.warm_up({"config": str(world.config), "moment": world.now.isoformat()})
        yield stage
