"""Start git such that it ends with us, in time and before it uses up the memory, by programs that every Linux has."""

from functools import cache
from shutil import which

from cachewatch.git.hardening import Command
from cachewatch.git.processes import MEMORY, works

# How a guarded command ends that was ended: by `timeout`, SIGTERM or SIGKILL.
ENDED = (124, 128 + 9, 128 + 15, -9, -15)
# How long one may take to clean up, and then how much later it is certainly gone.
GRACE_SECONDS = 10
_CLEANING_SECONDS = 5


def guarded(command: Command, *, seconds: float, most: int | None = None) -> Command:
    """Return `command` such that git ends with us and in time, whatever becomes of us.

    It gets no more memory than any git, and no file that it writes gets more than `most` bytes.
    """
    tools = _tools()
    guards = [*tools["setpriv"], "--"] if "setpriv" in tools else []
    if "prlimit" in tools:
        guards += [*tools["prlimit"], f"--data={MEMORY}", *([] if most is None else [f"--fsize={most}"]), "--"]
    if "timeout" in tools:
        guards += [*tools["timeout"], f"--kill-after={_CLEANING_SECONDS}", f"{seconds:.3f}"]
    return Command((*guards, *command.arguments), command.environment)


@cache
def _tools() -> dict[str, list[str]]:
    found = {name: [path] for name in ("setpriv", "prlimit", "timeout") if (path := which(name))}
    if "setpriv" in found:
        found["setpriv"] += ["--pdeathsig", "TERM"]
        # It sets capabilities, even if to what they are, which the sandbox of a service may forbid.
        if not works([*found["setpriv"], "--", "true"]):
            del found["setpriv"]
    return found
