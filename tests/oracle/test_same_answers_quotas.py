"""Quotas of clients: we throttle the same requests as Apache Kafka does, and for as long."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kafka.protocol.admin import CreatePartitionsRequest

from support import kafka_requests
from support.batches import Item, batch
from support.kafka_requests import Entity
from support.transcript import SameAnswers, Transcript
from support.until import until
from support.wire import Wire

USER = "ANONYMOUS"
THROTTLING_QUOTA_EXCEEDED = 89


class Quotas:
    """Sets quotas at one server, and asks it as clients of one request each. The quotas go in the end."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._set: set[tuple[Entity, str]] = set()
        self._numbers = itertools.count()

    def set(self, key: str, values: Mapping[Entity, float | None]) -> None:
        self._set |= {(entity, key) for entity in values}
        answer = self.transcript.ask_quietly(kafka_requests.alter_client_quotas(key, values), 1)
        assert [entry.error_code for entry in answer.entries] == [0] * len(values)

    def end(self) -> None:
        for entity, key in [*self._set]:  # `set` grows the table of the set, and an iterator would miss some then
            self.set(key, {entity: None})

    def wire(self, client_id: str) -> Wire:
        return Wire(self.transcript.server.host, self.transcript.server.port, client_id=client_id)

    def ask(self, client_id: str, request: Any, version: int) -> Any:
        with self.wire(client_id) as wire:
            return wire.ask(request, version)

    def new_name(self) -> str:
        """A name for a client or a topic that nothing has had yet."""
        return f"{self.transcript.topic}-{next(self._numbers)}"


Script = Callable[[Transcript, Quotas], None]


@pytest.fixture
def same_throttling(same_answers: SameAnswers) -> Callable[[Script], None]:
    """`same_answers` for a script that sets quotas."""

    def compare(script: Script) -> None:
        def run(transcript: Transcript) -> None:
            quotas = Quotas(transcript)
            try:
                script(transcript, quotas)
            finally:
                quotas.end()

        same_answers(run)

    return compare


def records(size: int) -> bytes:
    return batch([Item(value=bytes(size))])


def waits(wire: Wire, topic: str, throttle_ms: int) -> bool:
    """Whether the next request of a connection is answered only when it has been muted for so long."""
    asked = time.monotonic()
    wire.ask(kafka_requests.metadata(topic), 9)
    return time.monotonic() - asked >= throttle_ms / 1_000 - 0.05


def client(name: str) -> Entity:
    return (("client-id", name),)


def test_bytes_above_a_quota(same_throttling: Callable[[Script], None]) -> None:
    def script(transcript: Transcript, quotas: Quotas) -> None:
        topic = transcript.create()
        writer, reader, probe = f"{topic}-writer", f"{topic}-reader", f"{topic}-probe"
        large, small = kafka_requests.produce(topic, records(20_000)), kafka_requests.produce(topic, records(10))
        for _ in range(2):
            transcript.ask_quietly(large, 9)
        quotas.set("producer_byte_rate", {client(writer): 1_800.0, client(probe): 1.0})
        quotas.set("consumer_byte_rate", {client(reader): 1_900.0})
        # Apache Kafka's broker hears of a change a moment after it was answered.
        until(lambda: quotas.ask(probe, small, 9).throttle_time_ms > 0)
        with quotas.wire(writer) as wire:
            throttle_ms = wire.ask(large, 9).throttle_time_ms
            is_late = waits(wire, topic, throttle_ms)
        transcript.note("a produce above its quota", [throttle_ms, is_late])
        transcript.note("a produce of another client", quotas.ask(quotas.new_name(), large, 9).throttle_time_ms)

        throttle_ms = until(lambda: quotas.ask(reader, kafka_requests.fetch(topic, 0), 11).throttle_time_ms)
        transcript.note("a first fetch above its quota", throttle_ms)
        with quotas.wire(reader) as wire:
            answer = wire.ask(kafka_requests.fetch(topic, 0), 11)
            is_late = waits(wire, topic, answer.throttle_time_ms)
        told = [answer.error_code, answer.session_id, len(answer.responses), answer.throttle_time_ms > 0, is_late]
        transcript.note("a second one", told)
        begun = quotas.ask(quotas.new_name(), kafka_requests.fetch(topic, 0, session_epoch=0), 11)
        again = kafka_requests.fetch(topic, 0, session_id=begun.session_id, session_epoch=1)
        answer = quotas.ask(reader, again, 11)
        told = [answer.error_code, answer.session_id == begun.session_id, len(answer.responses)]
        transcript.note("a fetch of a session above its quota", [*told, answer.throttle_time_ms > 0])
        again = kafka_requests.fetch(topic, 0, session_id=begun.session_id, session_epoch=2)
        answer = quotas.ask(quotas.new_name(), again, 11)
        transcript.note("the session goes on", [answer.error_code, len(answer.responses), answer.throttle_time_ms])

    same_throttling(script)


def test_which_of_eight_quotas_holds(same_throttling: Callable[[Script], None]) -> None:
    def script(transcript: Transcript, quotas: Quotas) -> None:
        topic = transcript.create()
        sent = kafka_requests.produce(topic, records(100))
        name = quotas.new_name()
        levels: list[Entity] = [
            (("user", USER), ("client-id", name)),
            (("user", USER), ("client-id", None)),
            (("user", USER),),
            (("user", None), ("client-id", name)),
            (("user", None), ("client-id", None)),
            (("user", None),),
            (("client-id", name),),
            (("client-id", None),),
        ]

        def is_throttled() -> bool:
            return bool(quotas.ask(name, sent, 9).throttle_time_ms > 0)

        for number, entity in enumerate(levels):
            lower = levels[number + 1 :]
            quotas.set("producer_byte_rate", {entity: 1e9, **dict.fromkeys(lower, 1.0)})
            until(lambda: not is_throttled(), f"no throttling by level {number + 1}, whatever those behind it say")
            quotas.set("producer_byte_rate", {entity: 1.0, **dict.fromkeys(lower, 1e9)})
            until(is_throttled, f"throttling by level {number + 1}, whatever those behind it say")
            transcript.note(f"level {number + 1}", "holds")
            quotas.set("producer_byte_rate", {entity: None})

    same_throttling(script)


def test_time_above_a_quota(same_throttling: Callable[[Script], None]) -> None:
    def script(transcript: Transcript, quotas: Quotas) -> None:
        topic = transcript.create()
        for _ in range(2):
            transcript.ask_quietly(kafka_requests.produce(topic, records(100)), 9)
        name, probe = quotas.new_name(), quotas.new_name()
        quotas.set("request_percentage", {client(name): 1e-9, client(probe): 1e-9})  # no request is so short
        until(lambda: quotas.ask(probe, kafka_requests.metadata(topic), 9).throttle_time_ms > 0)

        for what, request, version in (
            ("Metadata", kafka_requests.metadata(topic), 9),
            ("Produce", kafka_requests.produce(topic, records(10)), 9),
            ("ListOffsets", kafka_requests.list_offsets(topic, -1), 5),
            ("CreateTopics", kafka_requests.create_topics({"name": topic}), 7),
            ("InitProducerId", kafka_requests.init_producer_id(), 4),
        ):
            throttle_ms = quotas.ask(name, request, version).throttle_time_ms
            transcript.note(f"{what} above its quota: by the rate hours, and at most a window", throttle_ms)
        fetched = quotas.ask(name, kafka_requests.fetch(topic, 0), 11)
        transcript.note("Fetch above its quota", [fetched.throttle_time_ms, len(fetched.responses)])
        with quotas.wire(name) as wire:
            throttle_ms = wire.ask(kafka_requests.metadata(topic), 9).throttle_time_ms
            is_late = waits(wire, topic, throttle_ms)
        transcript.note("the next request of the connection waits", is_late)
        answer = quotas.ask(quotas.new_name(), kafka_requests.metadata(topic), 9)
        transcript.note("a Metadata of another client", answer.throttle_time_ms)
        quotas.set("producer_byte_rate", {client(name): 1.0, client(probe): 1.0})
        large = kafka_requests.produce(topic, records(20_000))
        until(lambda: quotas.ask(probe, large, 9).throttle_time_ms > 1_000)
        transcript.note("above two quotas the longer time counts", quotas.ask(name, large, 9).throttle_time_ms > 1_000)
        quotas.set("producer_byte_rate", {client(name): None})
        quotas.set("request_percentage", {client(name): 1e9})
        until(lambda: not quotas.ask(name, kafka_requests.metadata(topic), 9).throttle_time_ms)
        transcript.note("a larger quota holds at once", 0)

    same_throttling(script)


def test_partitions_above_a_quota(same_throttling: Callable[[Script], None]) -> None:
    def script(transcript: Transcript, quotas: Quotas) -> None:
        def create(name: str, partitions: int = 1, **options: Any) -> Any:
            return kafka_requests.create_topics({"name": name, "num_partitions": partitions}, **options)

        def spent() -> str:
            """A client whose quota is used up: it had 1.1 tokens."""
            name = quotas.new_name()
            quotas.set("controller_mutation_rate", {client(name): 0.1})

            def is_refused() -> bool:
                answer = quotas.ask(name, create(quotas.new_name(), 20), 7)
                return bool(answer.topics[0].error_code == THROTTLING_QUOTA_EXCEEDED)

            until(is_refused)
            return name

        def note(what: str, answer: Any, outcomes: list[Any]) -> None:
            transcript.note(what, [[one.error_code for one in outcomes], answer.throttle_time_ms > 0])

        topic = transcript.create(partitions=2)
        fresh = quotas.new_name()
        quotas.set("controller_mutation_rate", {client(fresh): 0.1})
        used = spent()  # and so Apache Kafka has heard of the other one
        requested = kafka_requests.create_topics(
            *({"name": quotas.new_name(), "num_partitions": count} for count in (1, 2, 1))
        )
        answer = quotas.ask(fresh, requested, 7)
        transcript.note("three topics", [sorted(one.error_code for one in answer.topics), answer.throttle_time_ms > 0])
        for version in (5, 6, 7):
            answer = quotas.ask(used, create(quotas.new_name()), version)
            note(f"create v{version}", answer, answer.topics)
        answer = quotas.ask(used, create(quotas.new_name(), validate_only=True), 7)
        note("create only to see", answer, answer.topics)
        answer = quotas.ask(used, create(topic), 7)
        note("create one that exists", answer, answer.topics)
        Topic = CreatePartitionsRequest.CreatePartitionsTopic
        for version, count in ((2, 3), (3, 4)):
            more = CreatePartitionsRequest(
                topics=[Topic(name=topic, count=count, assignments=None)], timeout_ms=10_000, validate_only=False
            )
            answer = quotas.ask(used, more, version)
            note(f"create partitions v{version}", answer, answer.results)
        for version in (5, 6):
            answer = quotas.ask(used, kafka_requests.delete_topics(topic, version=version), version)
            note(f"delete v{version}", answer, answer.responses)
        answer = quotas.ask(used, kafka_requests.delete_topics(topic, version=4), 4)
        note("delete v4", answer, answer.responses)

        # A client that asks for topics that do not exist creates none, another one does.
        refused, created = quotas.new_name(), quotas.new_name()

        def code(client_id: str, name: str) -> int:
            answer = quotas.ask(client_id, kafka_requests.metadata(name, auto_create=True), 9)
            assert answer.throttle_time_ms == 0
            return int(answer.topics[0].error_code)

        first = code(used, refused)
        until(lambda: code(quotas.new_name(), created) == 0)
        transcript.note("topics that do not exist", [first, code(used, refused)])

        # What is only to be seen takes tokens, too.
        seen = spent_by = quotas.new_name()
        quotas.set("controller_mutation_rate", {client(seen): 0.1})
        spent()
        quotas.ask(seen, create(quotas.new_name(), 20, validate_only=True), 7)
        answer = quotas.ask(spent_by, create(quotas.new_name()), 7)
        note("create after what was only to be seen", answer, answer.topics)

    same_throttling(script)
