"""What the journal shows: its entries, decoded when they are read.

A decoded entry takes the place of the bytes in the journal, so that it is decoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...protocol.errors import MalformedMessage, error_name
from ...protocol.messages import REQUESTS
from ...protocol.messages.headers import read_response_header
from ..api.answer_errors import error_codes
from ..api.key_fields import KeyFields, KeyPartition, Names, Producer, key_fields
from ..network.peer_log import printable
from .registry_requests import RegistryAnswer, RegistryCall, RegistryQuestion, call_of
from .request_journal import Answer, Entry, RequestJournal, Source, frame_bytes

_NO_SESSION: tuple[()] = ()


class JournalEntry(NamedTuple):
    """A request that a broker was asked, or the schema registry beside it."""

    number: int
    """Counts the requests of the broker or cluster, from 1, in the order of their arrival."""
    broker: int
    """The number of the broker that was asked; -1 for a request to the schema registry."""
    api: str
    """Kafka's name of the API, as "Produce"; "registry" for a request to the schema registry."""
    version: int
    """0 for a request to the schema registry, which has none."""
    client_id: str | None
    """What the client calls itself; to the schema registry that is its User-Agent."""
    connection: str
    """Host and port of the client's end of the connection."""
    principal: str
    """The authenticated user; User:ANONYMOUS without authentication."""
    correlation_id: int
    time_ms: int
    """When it arrived, by the wall clock, in milliseconds since the epoch."""
    log_time_ms: int
    """The same by the broker's clock, which tests move."""
    ms: float | None
    """Milliseconds from decoding it to its answer; None while it is in service."""
    partitions: tuple[KeyPartition, ...]
    """The partitions that it names, or topics as a whole. A Fetch that goes on with a fetch session names those of the
    session (KIP-227)."""
    groups: tuple[str, ...]
    members: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    producers: tuple[Producer, ...]
    bytes_in: int
    """Bytes of the request, without its header."""
    bytes_out: int
    """Bytes of the answer, with its header; 0 without one."""
    errors: tuple[str, ...]
    """Kafka's names of the errors in the answer, each once, in their order; of the schema registry its error code, as
    "40901"."""
    closed: str | None
    """Why there is no answer; None if there is one, or may be."""
    faults: tuple[str, ...]
    """The names of the fault rules that acted on it."""
    registry: RegistryCall | None = None
    """What was asked of the schema registry; None for a request of Kafka."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that it names, each once."""
        return tuple(dict.fromkeys(one.topic for one in self.partitions))

    @property
    def is_in_service(self) -> bool:
        """Whether it has neither been answered nor closed its connection."""
        return self.ms is None

    def __str__(self) -> str:
        return f"{self.asked} {self.outcome}"

    @property
    def asked(self) -> str:
        """What was asked, by which client."""
        if self.registry is not None:
            call = self.registry
            return printable(" ".join((self.api, call.method, call.path, self.client_id or "-")))
        names = [*_shown_partitions(self.partitions, _TIMESTAMPS if self.api == "ListOffsets" else {})]
        names += [f"group={one}" for one in self.groups]
        names += [f"transactional_id={one}" for one in self.transactional_ids]
        client = "-" if self.client_id is None else self.client_id
        return printable(" ".join((self.api, f"v{self.version}", client, *names)))

    @property
    def outcome(self) -> str:
        """What became of it: "ok 1.2 ms", its errors, or why there is no answer."""
        if self.closed is not None:
            return f"closed: {printable(self.closed)}"
        if self.ms is None:
            return "not answered yet"
        outcome = " ".join(self.errors) if self.errors else "ok"
        acted = f" fault={','.join(self.faults)}" if self.faults else ""
        return f"{outcome} {self.ms:.1f} ms{acted}"


MOST_SHOWN = 5
"""Partitions of a request that a line shows; it gives the number of the others."""


_TIMESTAMPS = {-1: "latest", -2: "earliest"}
"""What ListOffsets asks for by timestamps that are none."""


def _shown_partitions(partitions: tuple[KeyPartition, ...], words: dict[int, str]) -> Iterator[str]:
    for one in partitions[:MOST_SHOWN]:
        number = "" if one.partition is None else f"-{one.partition}"
        offset = "" if one.offset is None else f"@{words.get(one.offset, one.offset)}"
        records = "" if one.records is None else f":{one.records}"
        yield f"{one.topic}{number}{offset}{records}"
    if len(partitions) > MOST_SHOWN:
        yield f"+{len(partitions) - MOST_SHOWN}"


class JournalReader:
    """Reads a journal."""

    def __init__(self, journal: RequestJournal, moves: Iterable[tuple[float, int]] = ()) -> None:
        """`moves` are the moves of the clock: when, by `time.perf_counter`, and how far log time was ahead from then
        on."""
        self.journal = journal
        self._moves = [*moves]

    def decoded(self, entry: Entry) -> JournalEntry:
        """The entry as it is now."""
        journal, source = self.journal, entry.source
        asked = self._key_fields(entry, source)
        answered = _answer(entry, source)
        time_ms = round((journal.began_wall_s + entry.started_s - journal.began_s) * 1000)
        return JournalEntry(
            entry.number,
            source.node,
            source.api,
            source.version,
            source.client_id,
            source.peer,
            source.principal,
            entry.correlation_id,
            time_ms,
            time_ms + self._ahead_ms(entry.started_s),
            (entry.ended_s - entry.started_s) * 1000 if entry.ended_s else None,
            asked.partitions,
            asked.groups,
            asked.members,
            asked.transactional_ids,
            asked.producers,
            entry.bytes_in,
            answered.size_bytes if isinstance(answered, _Answered) else 0,
            answered.errors if isinstance(answered, _Answered) else (),
            answered if isinstance(answered, str) else None,
            tuple(entry.faults or ()),
            call_of(entry),
        )

    def _ahead_ms(self, at_s: float) -> int:
        """How far log time was ahead of the wall clock."""
        return next((ahead_ms for moved_s, ahead_ms in reversed(self._moves) if moved_s <= at_s), 0)

    def _key_fields(self, entry: Entry, source: Source) -> KeyFields:
        asked = entry.asked
        if asked is None or isinstance(asked, RegistryQuestion):
            return KeyFields()
        if isinstance(asked, KeyFields):
            return asked
        names = self.journal.names[source.node]
        session: Any = _NO_SESSION
        if isinstance(asked, tuple):
            asked, session = asked
        if isinstance(asked, bytes):
            asked = REQUESTS[source.api_key].decode(memoryview(bytearray(asked)), source.version)
        found = entry.asked = key_fields(asked, Names(names.topic_of, lambda _: session))
        return found


class _Answered(NamedTuple):
    """An answer, as an entry tells it."""

    size_bytes: int
    errors: tuple[str, ...]


def _answer(entry: Entry, source: Source) -> _Answered | str | None:
    """What became of the request."""
    answered = entry.answered
    if answered is None or isinstance(answered, str):
        return answered
    if isinstance(answered, RegistryAnswer):
        return _Answered(answered.size_bytes, (str(answered.error_code),) if answered.error_code else ())
    if isinstance(answered, Answer):
        return _answered(answered)
    if isinstance(answered, int):
        return _Answered(answered, ())
    response = REQUESTS[source.api_key].response
    frame = memoryview(answered)[4:]
    try:
        _, position = read_response_header(frame, response.header_version(source.version))
        body = frame[position:]
        codes = error_codes(response.decode(body, response.version_of(body, source.version)))
    except MalformedMessage:  # a fault made the answer malformed
        codes = []
    found = entry.answered = Answer(frame_bytes(answered), tuple(dict.fromkeys(codes)))
    return _answered(found)


def _answered(answer: Answer) -> _Answered:
    return _Answered(answer.size_bytes, tuple(map(error_name, answer.codes)))
