"""Apache Kafka and its tools, beside the server under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.java_peer import Finished, JavaPeer, RunTool
from support.oracle.differences import intention_of, listed_for
from support.server_process import ServerProcess
from support.transcript import Transcript, differences


@pytest.fixture(autouse=True)
def _leaky_clients(leaky_clients: None) -> None:
    """Every test here drives client libraries."""


@pytest.fixture
def kafka_tool(java: JavaPeer) -> RunTool:
    """Run a tool by its bare class name, such as `TopicCommand`, with any arguments."""
    return java.run


@pytest.fixture
def tool(kafka_tool: RunTool, server: ServerProcess) -> RunTool:
    """Run a tool against the server under test."""

    def run(main: str, *arguments: object, stdin: str = "") -> Finished:
        return kafka_tool(main, "--bootstrap-server", server.bootstrap_servers, *arguments, stdin=stdin)

    return run


@pytest.fixture
def dump(kafka_tool: RunTool) -> Callable[..., list[str]]:
    """Run DumpLogSegments on one file and return its lines; the tool must not complain, but for the offsets that a
    cleaner took out of a log that may be compacted."""

    def run(path: Path, *options: str, may_be_compacted: bool = False) -> list[str]:
        finished = kafka_tool("DumpLogSegments", *options, "--files", path)
        output = (finished.stdout + finished.stderr).replace(
            "-1 is followed by", "the file starts at"
        )  # it does not know
        assert finished.exit == 0, f"{path.name}:\n{output[-3000:]}"
        complaints = {complaint for complaint in COMPLAINTS if complaint in output}
        assert complaints <= ({MISSING_OFFSETS} if may_be_compacted else set()), f"{path.name}:\n{output[-3000:]}"
        return finished.lines

    return run


MISSING_OFFSETS = " is followed by "

COMPLAINTS = (
    "isvalid: false",
    "Mismatches in",
    "The following indexed offsets are not found",
    MISSING_OFFSETS,
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "invalid bytes at the end",
)
"""What DumpLogSegments prints about a damaged or inconsistent file; it exits with 0 all the same."""


Script = Callable[[Transcript], None]


@pytest.fixture
def same_answers(
    server: ServerProcess,
    apache_kafka_server: ServerProcess,
    topic_names: Callable[[str], str],
    against_kafka: bool,
) -> Callable[[Script], None]:
    """Run a script of requests against the server under test and Apache Kafka: every answer must be the same, but for
    what `support/oracle/differences.py` lists."""

    def compare(script: Script) -> None:
        topic = topic_names("same")
        transcripts: list[Transcript] = []
        for each in (server, apache_kafka_server):
            transcript = Transcript(each, topic)
            try:
                script(transcript)
            finally:
                transcript.close()
            transcripts.append(transcript)
        ours, theirs = transcripts
        found = differences(ours.entries, theirs.entries)
        intended = [intention_of(one.what, ours.apis.get(one.what, ""), *one[1:]) for one in found]
        lines = [str(one) for one, intention in zip(found, intended, strict=True) if intention is None]
        if not against_kafka:
            lines += [f"listed, and not so any more: {one}" for one in listed_for(ours.apis) if one not in intended]
        assert not lines, "\n".join([f"{len(lines)} differences", *lines])

    return compare


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Ends the servers of a test, which it adds with `callback`."""
    with ExitStack() as stack:
        yield stack
