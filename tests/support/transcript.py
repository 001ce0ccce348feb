"""The answers of one server to a script of requests, in a form that two servers can agree on."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from support import kafka_requests
from support.server_process import ServerProcess
from support.until import until
from support.wire import Wire

NONE_EXISTS = uuid.UUID(int=0xDEAD)
"""A topic id that no server gave out."""

OF_THE_SERVER = {
    *("throttle_time_ms", "host", "port", "cluster_id", "controller_id", "rack", "configs", "node_endpoints"),
    *("log_dir", "total_bytes", "usable_bytes"),
}
"""Fields that depend on the server, not on the answer."""

SENTENCES = {"error_message", "batch_index_error_message"}
"""Each server has its own words, and its own mind about when to use them."""

LEFT_OUT = OF_THE_SERVER | SENTENCES

IDENTITIES = {"topic_id", "producer_id", "session_id"}
"""Drawn by each server; zero and -1 keep their meaning."""

TIMES = {"log_append_time_ms", "last_fetch_timestamp", "last_caught_up_timestamp"}
"""When the server did something; -1 keeps its meaning."""


COORDINATOR_LOAD_IN_PROGRESS = 14
UNKNOWN_SERVER_ERROR = -1
"""An unexpected exception inside Apache Kafka: any error of ours says more."""


class Transcript:
    """Asks one server and writes down what it answered; topic names and ids are kept by the script's own names."""

    def __init__(self, server: ServerProcess, topic: str) -> None:
        self.server = server
        self.topic = topic
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.entries: dict[str, Any] = {}
        self.apis: dict[str, str] = {}
        """Which API each entry is the answer of."""
        self._wire = Wire(server.host, server.port)

    def close(self) -> None:
        self._wire.socket.close()

    def create(self, name: str = "", *, partitions: int = 1, keeps_records: bool = True, **configs: str) -> str:
        """Create a topic, settings with underscores for dots, and return its full name.

        Its records stay with `keeps_records`, unless the settings say otherwise: those of `batches.py` have the time
        of 2023, and each broker looks for old records five minutes after its own start.
        """
        full_name = self.topic + name
        kept = {"retention.ms": "-1"} if keeps_records else {}
        dotted = kept | {key.replace("_", "."): value for key, value in configs.items()}
        request = kafka_requests.create_topics({"name": full_name, "num_partitions": partitions, "configs": dotted})
        (created,) = self._wire.ask(request, 7).topics
        assert created.error_code == 0, created
        self.topic_ids[full_name] = created.topic_id
        kafka_requests.wait_for_leaders(self._wire, full_name, partitions)
        return full_name

    def wait_until_loaded(self, request: Any, version: int) -> None:
        """Apache Kafka, just started, answers some requests with COORDINATOR_LOAD_IN_PROGRESS."""
        until(
            lambda: self._wire.ask(request, version).error_code != COORDINATOR_LOAD_IN_PROGRESS,
            "a coordinator that has loaded its partition",
        )

    def ask(self, what: str, request: Any, version: int) -> Any:
        """Ask, note the answer under `what` (or that the connection was closed), and return the answer."""
        response = self._wire.ask(request, version)
        if response is None:
            self._wire.socket.close()
            self._wire = Wire(self.server.host, self.server.port)
        answer = "closed" if response is None else response.to_dict(json=False)
        self.note(f"{what}, v{version}", answer, api=type(request).__name__.removesuffix("Request"))
        return response

    def ask_quietly(self, request: Any, version: int) -> Any:
        """Ask, and note nothing."""
        return self._wire.ask(request, version)

    def wait_for_partitions(self, topic: str, count: int) -> None:
        """Apache Kafka answers CreatePartitions a moment before they are there."""
        kafka_requests.wait_for_leaders(self._wire, topic, count)

    def read(self, topic: str) -> list[Any]:
        """Return what partition 0 holds, batch by batch: the headers without sizes and checksums, and the records."""
        from kafka.record import MemoryRecords

        response = self._wire.ask(kafka_requests.fetch(topic, 0), 11)
        records = MemoryRecords(bytes(response.responses[0].partitions[0].records))
        batches = []
        while records.has_next():
            stored = records.next_batch()
            rows = [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, str(r.headers)) for r in stored]
            head = (stored.base_offset, stored.attributes, stored.last_offset_delta, stored.first_timestamp)
            batches.append([*head, stored.max_timestamp, rows])
        return batches

    def note(self, what: str, answer: Any, *, api: str = "") -> None:
        assert what not in self.entries, f"the script says {what!r} twice"
        self.entries[what] = comparable(answer)
        self.apis[what] = api


def comparable(value: Any, field: str = "") -> Any:
    """Return a decoded answer with what each server may say in its own way replaced by whether it says it."""
    if isinstance(value, dict):
        return {name: comparable(entry, name) for name, entry in value.items() if name not in LEFT_OUT}
    if isinstance(value, (list, tuple)) and not isinstance(value, bytes):
        entries = [comparable(entry, field) for entry in value]
        return sorted(entries, key=_place) if entries and isinstance(entries[0], dict) else entries
    if field in IDENTITIES:
        return value if value in (None, 0, -1, uuid.UUID(int=0), NONE_EXISTS) else "an identity"
    if field in TIMES:
        return value if value == -1 else "a time"
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return value


def _place(entry: dict[str, Any]) -> tuple[int, str]:
    """Order topics and partitions: a server may answer them in any order."""
    number = next((entry[name] for name in ("index", "partition_index", "partition") if name in entry), 0)
    return number, next((str(entry[name]) for name in ("name", "topic", "topic_name", "user") if entry.get(name)), "")


class Found(NamedTuple):
    """A field in which two transcripts differ."""

    what: str
    """The entry."""
    field: str
    """The way to the field, such as `.topics[0].error_code`; empty for the whole answer."""
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.what}{self.field}: kmini {_short(self.ours)}, Kafka {_short(self.theirs)}"


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Found]:
    """In which entries, and there in which fields, two transcripts differ."""
    return [
        Found(what, *leaf)
        for what in [*theirs, *(ours.keys() - theirs.keys())]
        for leaf in _differing_leaves("", ours.get(what, "nothing"), theirs.get(what, "nothing"))
    ]


def _differing_leaves(path: str, mine: Any, other: Any) -> Any:
    if isinstance(mine, dict) and isinstance(other, dict):
        # What Kafka tells beside such an error goes with that error, not with ours.
        left_out = {"log_start_offset"} if other.get("error_code") == UNKNOWN_SERVER_ERROR else set()
        for name in sorted({*mine, *other} - left_out):
            yield from _differing_leaves(f"{path}.{name}", mine.get(name, "absent"), other.get(name, "absent"))
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for index, (left, right) in enumerate(zip(mine, other, strict=True)):
            yield from _differing_leaves(f"{path}[{index}]", left, right)
    elif mine != other and not (other == UNKNOWN_SERVER_ERROR and path.endswith("error_code") and mine > 0):
        yield path, mine, other


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


SameAnswers = Callable[[Callable[[Transcript], None]], None]
"""The fixture `same_answers`: it runs a script against the server under test and Apache Kafka, and compares."""
