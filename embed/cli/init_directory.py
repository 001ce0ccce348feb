"""`kmini serve --init-dir DIR`: files that a start runs once clients can connect, in the order of their names.

    10-orders.topics    topics, a line each, as in KAFKA_CREATE_TOPICS; `#` begins a comment
    20-orders.jsonl     records, as `kmini consume --format json` prints them
    30-faults.json      fault rules, as a list or as the body of `PUT /api/v1/faults`
    40-more.sh          a script for sh

The readiness of the control API says which file is not done yet, or which one has failed. After a failure no other file
is run, and the brokers go on. Missing topics are created at each start, and fault rules, which live in memory, are set
at each start. Records and scripts are run once for the data (`init_done.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from kmini.cli.init_file import LEFT_OUT, InitError, InitFile

if TYPE_CHECKING:
    from kmini.cli.wanted_topics import NewTopic
    from kmini.control.steered import Steered

log = logging.getLogger("kmini.init")

TIMEOUT_MS = 60_000
"""Milliseconds that a script may take, unless told otherwise."""


def files_in(directory: str) -> list[InitFile]:
    """The files of an init directory in the order in which they are run, without hidden ones and explanations. Raises
    click.UsageError."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise click.UsageError(f"--init-dir {directory}: {error.strerror}; a directory was expected") from error
    kept = [name for name in names if not name.startswith(".") and not name.endswith(LEFT_OUT)]
    return [InitFile(name, os.path.join(os.path.abspath(directory), name)) for name in kept]


def init_directory(directory: str, timeout_ms: int | None, topics: list[NewTopic]) -> InitDirectory | None:
    """The init directory; None without files in it. Raises click.UsageError."""
    files = files_in(directory)
    return InitDirectory(files, topics, timeout_ms or TIMEOUT_MS) if files else None


class InitDirectory:
    """Runs the files of an init directory."""

    def __init__(self, files: Sequence[InitFile], topics: list[NewTopic], timeout_ms: int) -> None:
        """`topics` are those that a reset, or another start of the broker, creates again; topics of files are added."""
        self._files, self._topics, self._timeout_ms = files, topics, timeout_ms

    def announce(self, served: Steered) -> None:
        """Say that the files are not run yet."""
        served.missing = (self._ahead(0),)

    async def run(self, served: Steered, environ: Mapping[str, str]) -> bool:
        """Run the files, scripts with these variables. Return whether all have succeeded; readiness and the log say
        which one has failed."""
        try:
            for file in self._files:
                file.check()
            for number, file in enumerate(self._files):
                served.missing = (self._ahead(number),)
                await self._run(file, served, environ)
        except InitError as error:
            log.error("init directory: %s", error)
            served.missing = (f"init directory: {error}",)
            return False
        served.missing = ()
        log.info("init directory: done")
        return True

    async def _run(self, file: InitFile, served: Steered, environ: Mapping[str, str]) -> None:
        from kmini.cli.init_done import DoneFiles
        from kmini.cli.init_runners import RUNNERS, Start
        from kmini.protocol.errors import KafkaError

        if file.is_empty:
            log.warning("init directory: %s is empty", file.shown)
            return
        try:
            done = DoneFiles(served.data_dir, served.operations._controller.cluster_id)
            await RUNNERS[file.ending](file, Start(served, environ, self._topics, self._timeout_ms, done))
        except KafkaError as error:
            raise file.error(f"{error.kafka_name}: {error.message}") from error
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            raise file.error(str(error)) from error
        except InitError:
            raise
        except Exception as error:
            log.exception("init directory: %s failed", file.shown)
            raise file.error("failed by a bug of kmini; the log has more") from error

    def _ahead(self, number: int) -> str:
        behind = len(self._files) - number - 1
        more = "" if not behind else ", nor the file after it" if behind == 1 else f", nor the {behind} files after it"
        return f"init directory: {self._files[number].shown} is not done yet{more}"
