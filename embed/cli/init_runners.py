"""What is done with each kind of file of an init directory, by its ending."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import click

from kmini.broker.scheduler import in_thread
from kmini.cli.init_done import DoneFiles
from kmini.cli.init_file import RECORDS, RULES, SCRIPT, TOPICS, InitFile
from kmini.cli.init_script import Script
from kmini.cli.wanted_topics import NewTopic, create_missing, parse_topic_lines
from kmini.control.fault_control import FaultControl
from kmini.control.steered import Steered
from kmini.seeds import Here, check_lines, load

log = logging.getLogger("kmini.init")


class Start(NamedTuple):
    """The start that runs the files."""

    served: Steered
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
