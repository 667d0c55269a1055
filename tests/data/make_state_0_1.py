"""Make `state-0.1.db`: the state that cachewatch 0.1 leaves when it is killed while it sends mail.

It was run once, with the code of commit de0a95e; later versions only read its constants:

    PYTHONPATH=tests python tests/data/make_state_0_1.py tests/data/state-0.1.db

Times stand still, so that the revisions of `upstream()` are the ones which the cursors point to.
"""

import shutil
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from helpers import catalogue, record, records
from mailservers import post
from station import Site

BASE = {"zlib": records(range(3)), "hdf5": [record(10, versions=["1.14.5"])]}
PACKAGES = [BASE | {f"change-{number}": records([100 + number]) for number in range(count)} for count in range(5)]
# More at once than `bulk` takes without being asked.
PACKAGES += [PACKAGES[4] | {f"many-{number}": records([200 + number]) for number in range(3)}]
PACKAGES += [PACKAGES[5] | {"last": records([300]), "hdf5": [record(11, versions=["1.14.6"])]}]
# The document of hdf5 cannot be read from the third revision to the sixth; in the seventh it has another version.
UNREADABLE = {"_cache/develop/hdf5/specs.md": b"---\n<<<<<<< HEAD\n"}
STATES = [catalogue(packages) | (UNREADABLE if 2 <= number < 6 else {}) for number, packages in enumerate(PACKAGES)]
STATES[6] |= catalogue({"zlib": records([500])}, tag="v1.0")

CONFIG = """\
version: 1
state: {folder}/state
sources:
  public: {git: {folder}/upstream.git, stale_after: 4000d}
  away: {git: {folder}/nowhere.git}
channels:
  mail: {type: email, from: cachewatch@example.org, smtp: {host: 127.0.0.1, port: {port}, security: none}}
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}
  desk: {type: file, path: "{folder}/desk/{subscription}/{key}.{ext}", formats: [txt]}
operators: {channels: [desk], after_failures: 1}
silences:
  noise: {match: {packages: [change-1]}, until: 2026-06-01, reason: a test}
subscriptions:
  ml: {to: [ann@example.org, kim@example.org, lee@example.org], channels: [mail], changes: [all], match: {sources: [public]}}
  weekly: {channels: [files], changes: [all], when: weekly mon 07:30, match: {sources: [public]}}
  releases: {channels: [files], changes: [all], when: daily 07:30, match: {sources: [public], tags: ["v*"]}}
  bulk: {to: [max@example.org], channels: [mail], changes: [all], limit: {hold_above: 2}, match: {sources: [public]}}
"""
NO_SUCH_USER = {"lee@example.org": "550 5.1.1 no such user"}
BUSY = dict.fromkeys(("ann@example.org", "kim@example.org"), "451 4.3.0 try later")


def main(target: Path) -> None:
    """Play six days; on the last, mail for two readers is deferred, and one of them is being sent to."""
    folder = Path("/srv/cachewatch")  # names that say nothing of a machine
    folder.mkdir()
    try:
        site = Site(folder, STATES)
        for number in range(6):
            with post(by_recipient=NO_SUCH_USER | (BUSY if number == 5 else {})) as server:
                site.configure(CONFIG.replace("{port}", str(server.port)))
                site.publish(number)
                site.run(later=timedelta(days=number > 0))
        with closing(sqlite3.connect(folder / "state" / "cachewatch.db")) as database:
            # What a process leaves that is killed while it waits for the server's answer.
            database.execute(
                "UPDATE deliveries SET state = 'sending', attempts = attempts + 1 "
                "WHERE state = 'deferred' AND target = 'ann@example.org'"
            )
            database.commit()
            database.execute("VACUUM INTO ?", (str(target),))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
