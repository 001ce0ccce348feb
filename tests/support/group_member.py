"""One member of a consumer group, as a process that can be killed: a library's consumer, which tells what it does.

Every line on stdout is a JSON list: ["assigned", partitions], then ["record", partition, offset] for each record that
it handles. It commits before it handles what it was given ("once at most") or afterwards ("once at least"), always
itself and at once. SIGTERM makes it leave in order; SIGUSR1 makes it say on stderr what its threads are doing.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SESSION_MS = 2_000
HEARTBEAT_MS = 300

Place = tuple[int, int]
"""Partition and offset."""


class Ending:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self.has_come = True


def tell(*what: object) -> None:
    print(json.dumps(what), flush=True)


@contextmanager
def handling(records: list[Place], *, commit_first: bool) -> Iterator[None]:
    """Handle records before or after the commit, which is what is done inside. One that the group refuses leaves the
    records to another member."""
    if not commit_first:
        _handle(records)
    try:
        yield
    except Exception as error:
        tell("commit failed", repr(error))
        return
    if commit_first:
        _handle(records)


def _handle(records: list[Place]) -> None:
    for partition, offset in records:
        tell("record", partition, offset)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What kafka-python and aiokafka are given alike."""
    return {
        "bootstrap_servers": options.servers,
        "group_id": options.group,
        "group_instance_id": options.instance,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
    }


def places_of(batches: Mapping[Any, Any]) -> list[Place]:
    """The records that these two have got, by partition."""
    return [(record.partition, record.offset) for batch in batches.values() for record in batch]


def kafka_python(options: argparse.Namespace, ending: Ending) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaConnectionError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(one.partition for one in consumer.assignment()))

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked")

    consumer = KafkaConsumer(**settings_of(options), metadata_max_age_ms=2_000)
    consumer.subscribe([options.topic], listener=Listener())
    while not ending.has_come:
        try:
            # longer than its start takes: see docs/clients/kafka-python.md
            records = places_of(consumer.poll(timeout_ms=1_000))
        except KafkaConnectionError as error:  # that page again: the broker is being restarted
            tell("poll failed", repr(error))
            continue
        if records:
            with handling(records, commit_first=options.commit_first):
                consumer.commit()
    consumer.close()


def confluent_kafka(options: argparse.Namespace, ending: Ending) -> None:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": options.servers,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": options.assignor,
        "log_level": 0,
    }
    if options.instance:
        settings["group.instance.id"] = options.instance
    consumer = Consumer(settings)
    owned: set[int] = set()

    def assigned(_: Any, partitions: Any) -> None:
        owned.update(one.partition for one in partitions)
        if options.assignor == "cooperative-sticky":
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        tell("assigned", sorted(owned))

    def revoked(_: Any, partitions: Any) -> None:
        owned.difference_update(one.partition for one in partitions)
        if options.assignor == "cooperative-sticky":
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        tell("assigned", sorted(owned))

    consumer.subscribe([options.topic], on_assign=assigned, on_revoke=revoked)
    while not ending.has_come:
        messages = [message for message in consumer.consume(100, 0.1) if message.error() is None]
        if messages:
            records = [(message.partition(), message.offset()) for message in messages]
            with handling(records, commit_first=options.commit_first):
                consumer.commit(asynchronous=False)
    consumer.close()


async def aiokafka(options: argparse.Namespace, ending: Ending) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(one.partition for one in assigned))

        async def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked")
            async with busy:
                pass

    busy = asyncio.Lock()
    consumer = AIOKafkaConsumer(**settings_of(options))
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    while not ending.has_come:
        async with busy:  # it rebalances beside us, not when we ask for records
            records = places_of(await consumer.getmany(timeout_ms=100))
            if records:
                with handling(records, commit_first=options.commit_first):
                    await consumer.commit()
    await consumer.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=["kafka-python", "aiokafka", "confluent-kafka"])
    parser.add_argument("servers")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("--instance")
    parser.add_argument("--assignor", default="range")
    parser.add_argument("--commit-first", action="store_true")
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)
    ending = Ending()
    if options.client == "aiokafka":
        asyncio.run(aiokafka(options, ending))
    else:
        (kafka_python if options.client == "kafka-python" else confluent_kafka)(options, ending)


if __name__ == "__main__":
    main()
