"""`kmini serve --init-dir DIR`: files that a start runs once clients can connect, in the order of their names.

    10-orders.topics    topics, a line each, as in KAFKA_CREATE_TOPICS; `#` begins a comment
    20-orders.jsonl     records, as `kmini consume --format json` prints them
    30-faults.json      fault rules, as a list or as the body of `PUT /api/v1/faults`
    40-more.sh          a script for sh

The readiness of the control API says which file is not done yet, or which one has failed. After a failure no other file
is run, and the brokers go on. Missing topics are created at each start, and fault rules, which live in memory, are set
at each start. Records and scripts are run once for the data, which remember it in a file.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kmini.broker.scheduler import in_thread
from kmini.cli.escaping import escaped
from kmini.cli.wanted_topics import NewTopic, create_missing, parse_topic_lines
from kmini.protocol.errors import KafkaError
from kmini.storage.filenames import INIT_DONE
from kmini.storage.filesystem import OsFileSystem, write_atomically

if TYPE_CHECKING:
    from kmini.control.managed_brokers import ManagedBrokers

log = logging.getLogger("kmini.init")

TIMEOUT_MS = 60_000
"""Milliseconds that a script may take, unless told otherwise."""

TOPICS, RECORDS, RULES, SCRIPT = ".topics", ".jsonl", ".json", ".sh"
ENDINGS = (TOPICS, RECORDS, RULES, SCRIPT)
LEFT_OUT = ".md"
"""Ending of files that explain the others."""


class InitError(Exception):
    """A file of an init directory cannot be run. The message begins with its name, and says where and what was
    expected."""


class InitFile(NamedTuple):
    """A file of an init directory."""

    name: str
    path: str

    @property
    def ending(self) -> str:
        return os.path.splitext(self.name)[1]

    @property
    def shown(self) -> str:
        """The name, without control characters."""
        return escaped(self.name)

    def error(self, text: str, line: int | None = None) -> InitError:
        """The error that says `text` of this file, or of one of its lines. A text may begin with the path or the name.
        The error has the name alone, because `/health` is open."""
        text = text.replace(self.path, self.name)
        if text.startswith((f"{self.name}, line ", f"{self.shown}, line ")):
            return InitError(escaped(text))
        where = self.shown if line is None else f"{self.shown}, line {line}"
        return InitError(f"{where}: {escaped(text)}")

    def check(self) -> None:
        """Raise InitError for what cannot be run whatever it holds. A link to a file is a file: the volumes of
        Kubernetes consist of links."""
        if self.ending not in ENDINGS:
            raise self.error(f"must end in {', '.join(ENDINGS)}; hidden files and {LEFT_OUT} files are left out")
        if os.path.islink(self.path) and not os.path.exists(self.path):
            raise self.error("a link, and what it points to does not exist")
        if os.path.isdir(self.path):
            raise self.error(
                "a directory, and a file was expected; Docker makes a directory where the file that it mounts does not "
                "exist on the host"
            )
        if not os.path.isfile(self.path):
            raise self.error("a regular file was expected")

    @property
    def is_empty(self) -> bool:
        """Whether it has no content. Raises InitError."""
        try:
            return os.path.getsize(self.path) == 0
        except OSError as error:
            raise self._unreadable(error) from error

    def digest(self) -> str:
        """The SHA-256 of the content. Blocks. Raises InitError."""
        import hashlib

        try:
            with open(self.path, "rb") as file:
                found = hashlib.sha256()
                while part := file.read(1 << 20):
                    found.update(part)
        except OSError as error:
            raise self._unreadable(error) from error
        return found.hexdigest()

    def read(self) -> str:
        """The content as UTF-8, with or without a byte order mark. Blocks. Raises InitError."""
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error("UTF-8 was expected", content.count(b"\n", 0, error.start) + 1) from error

    def _unreadable(self, error: OSError) -> InitError:
        by = f" (kmini runs as user {os.geteuid()})" if hasattr(os, "geteuid") else ""
        return self.error(f"cannot be read: {error.strerror}{by}")


# --- which files were run


_BEGUN, _DONE = "begun", "done"


class DoneFiles:
    """The files that were run for the data of a cluster."""

    def __init__(self, data_dir: str, cluster_id: str) -> None:
        """Read what the data directory remembers of this cluster. Raises InitError."""
        self._path = os.path.join(data_dir, INIT_DONE)
        self._cluster_id = cluster_id
        self._files: dict[str, dict[str, str]] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                document: Any = json.load(file)
            if document["cluster_id"] == cluster_id:  # else it belongs to data that are gone
                self._files = {
                    name: {"digest": one["digest"], "state": one["state"]} for name, one in document["files"].items()
                }
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InitError(
                f"{INIT_DONE} of the data directory cannot be read; it says which files were run, and without it all "
                "of them are run again"
            ) from error

    def is_done(self, file: InitFile) -> bool:
        """Whether an earlier start has run the file to its end."""
        return self._state(file) == _DONE

    def is_begun(self, file: InitFile) -> bool:
        """Whether an earlier start has begun to run the file, and not finished."""
        return self._state(file) == _BEGUN

    def has_changed(self, file: InitFile, digest: str) -> bool:
        """Whether the file had another content when it was run."""
        return self._files[file.name]["digest"] != digest

    def begin(self, file: InitFile, digest: str) -> None:
        """Remember that the file is being run. Raises OSError."""
        self._remember(file, digest, _BEGUN)

    def end(self, file: InitFile, digest: str) -> None:
        """Remember that the file was run. Raises OSError."""
        self._remember(file, digest, _DONE)

    def _state(self, file: InitFile) -> str:
        return self._files.get(file.name, {}).get("state", "")

    def _remember(self, file: InitFile, digest: str, state: str) -> None:
        self._files[file.name] = {"digest": digest, "state": state}
        text = json.dumps({"cluster_id": self._cluster_id, "files": self._files}, indent=1)
        write_atomically(OsFileSystem(), self._path, text.encode())


# --- scripts


MOST_OF_A_LINE = 4_000
"""Bytes of a line of output that one log line has."""

READ_S = 1.0
"""Seconds for the output that is left when a script has ended. A program that it leaves behind may keep it open."""


class Script:
    """A script that sh runs."""

    def __init__(self, file: InitFile, environ: Mapping[str, str], timeout_ms: int) -> None:
        """`environ` is its whole environment. It is ended after `timeout_ms`."""
        self._file, self._environ, self._timeout_ms = file, environ, timeout_ms
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._changes = threading.Lock()

    def check(self) -> None:
        """Raise InitError for line ends that sh takes as parts of words. Blocks."""
        lines = self._file.read().split("\n")
        for number, line in enumerate(lines, start=1):
            if line.endswith("\r"):
                raise self._file.error("ends as lines of Windows do (CRLF), and sh needs LF alone", number)

    def run(self) -> None:
        """Run it, from its own directory. Blocks. Raises InitError if it fails or takes too long."""
        process = self._begin()
        reader = threading.Thread(target=self._log_output, daemon=True, name=f"output of {self._file.shown}")
        reader.start()
        try:
            code = process.wait(self._timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            self.end()
            process.wait()
            raise self._file.error(
                f"did not end within {self._timeout_ms} ms, and was ended; --init-timeout-ms or KMINI_INIT_TIMEOUT_MS "
                "gives it another time"
            ) from None
        finally:
            reader.join(READ_S)
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise self._file.error(f"ended with {how}; the log has its output")

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._changes:
            if self._is_ended:
                raise self._file.error("was ended before it began")
            try:
                self._process = subprocess.Popen(
                    ["sh", self._file.path],
                    cwd=os.path.dirname(self._file.path),
                    env={**self._environ},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._file.error(f"cannot be run by sh: {error.strerror}") from error
            return self._process

    def end(self) -> None:
        """End it, with the programs that it has started, if it has not ended."""
        with self._changes:
            self._is_ended = True
            process = self._process
        if process is None or process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()

    def _log_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while line := output.readline(MOST_OF_A_LINE):
                text = line.decode(errors="backslashreplace").rstrip("\r\n")
                log.info("%s: %s", self._file.shown, escaped(text))


# --- what is done with each kind of file


class Start(NamedTuple):
    """The start that runs the files."""

    served: ManagedBrokers
    environ: Mapping[str, str]
    """The environment of scripts."""
    topics: list[NewTopic]
    """The topics that a reset, or another start of the broker, creates again."""
    timeout_ms: int
    """Milliseconds that a script may take."""
    done: DoneFiles


async def create_topics(file: InitFile, start: Start) -> None:
    """Create the missing ones of the topics that the file lists. Raises InitError."""
    text = await in_thread(file.read)
    try:
        topics = list(parse_topic_lines(text, file.shown))
        create_missing(start.served.operations.any_broker(), topics)
    except click.UsageError as error:
        raise file.error(error.message) from error
    start.topics.extend(topics)


async def load_records(file: InitFile, start: Start) -> None:
    """Append the records of the file, unless an earlier start with these data has. They are read twice: a mistake in a
    line is found before the first record is appended. Raises InitError, SeedError and KafkaError."""
    digest = await in_thread(file.digest)
    if _was_run(file, digest, start.done):
        return
    if start.done.is_begun(file):
        raise file.error(
            "an earlier start ended while it was loaded, and these data have a part of its records; begin with empty "
            "data, or give the file another name to load all of it"
        )
    from kmini.testkit.seeds import Here, check_lines, load  # not before clients of Kafka can connect

    target = Here(start.served.operations)
    await check_lines(target, file.path)
    start.done.begin(file, digest)
    loaded = await load(target, file.path, None)
    start.done.end(file, digest)
    counts = ", ".join(f"{count} to {topic}" for topic, count in sorted(loaded.items()))
    log.info("%s: records appended: %s", file.shown, counts or "none")


async def set_rules(file: InitFile, start: Start) -> None:
    """Put the fault rules of the file in force. Raises InitError, ValueError and TypeError."""
    text = await in_thread(file.read)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise file.error(f"JSON was expected: {error.msg}", error.lineno) from error
    if isinstance(document, dict) and document.keys() == {"rules"}:
        document = document["rules"]
    if not isinstance(document, list):
        raise file.error('a list of fault rules was expected, or {"rules": [...]}')
    from kmini.control.fault_control import FaultControl  # not before clients of Kafka can connect

    await FaultControl(start.served.operations, start.served.rules).load(document)


async def run_script(file: InitFile, start: Start) -> None:
    """Run a script, unless an earlier start with these data has. One that has failed is run again by the next start.
    Raises InitError."""
    digest = await in_thread(file.digest)
    if _was_run(file, digest, start.done):
        return
    script = Script(file, start.environ, start.timeout_ms)
    await in_thread(script.check)
    try:
        await in_thread(script.run)
    finally:
        script.end()
    start.done.end(file, digest)


def _was_run(file: InitFile, digest: str, done: DoneFiles) -> bool:
    """Whether an earlier start has run the file, which the log says."""
    if not done.is_done(file):
        return False
    changed = "; it has changed since, and is not run again: give it another name for that, or begin with empty data"
    log.info("%s: run before, for these data%s", file.shown, changed if done.has_changed(file, digest) else "")
    return True


RUNNERS: Mapping[str, Callable[[InitFile, Start], Awaitable[None]]] = {
    TOPICS: create_topics,
    RECORDS: load_records,
    RULES: set_rules,
    SCRIPT: run_script,
}


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

    def announce(self, served: ManagedBrokers) -> None:
        """Say that the files are not run yet."""
        served.missing = (self._ahead(0),)

    async def run(self, served: ManagedBrokers, environ: Mapping[str, str]) -> bool:
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

    async def _run(self, file: InitFile, served: ManagedBrokers, environ: Mapping[str, str]) -> None:
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
