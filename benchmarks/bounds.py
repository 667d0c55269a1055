"""The least that any reader in Python does: run as a script, it reads, or also parses, what differs.

It takes the ids of blobs on standard input. How long it takes says how near to the floor a
program in Python can come on this machine.
"""

import subprocess
import sys
from collections.abc import Callable
from threading import Thread

_RECORDS = b"\nspec_details: "


def main() -> None:
    """Read all blobs through one pipe; with `parse`, also decode their records into typed values."""
    mode, git_dir = sys.argv[1:]
    ids = sys.stdin.buffer.read()
    take: Callable[[bytes], object] = _make_parser() if mode == "parse" else len
    command = ["git", f"--git-dir={git_dir}", "cat-file", "--batch", "--buffer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # Git answers while we still ask, and both pipes have an end.
        stdin = process.stdin
        writer = Thread(target=lambda: (stdin.write(ids), stdin.close()))
        writer.start()
        while header := process.stdout.readline():
            if not header.endswith(b" missing\n"):
                take(process.stdout.read(int(header.split()[2]) + 1))
        writer.join()


def _make_parser() -> Callable[[bytes], object]:
    import msgspec  # noqa: PLC0415  reading alone takes none

    class Record(msgspec.Struct, gc=False):
        """What is read of a record."""

        hash: str
        compiler: str
        os: str
        platform: str
        target: str
        stacks: list[str]
        variants: list[str]
        versions: list[str]

    decode = msgspec.json.Decoder(list[Record]).decode

    def parse(content: bytes) -> object:
        start = content.find(_RECORDS)
        return decode(content[start + len(_RECORDS) : content.rindex(b"\n---")]) if start >= 0 else None

    return parse


if __name__ == "__main__":
    main()
