"""One member of a consumer group, as a process that can be killed: a library's consumer, which tells what it does.

Every line on stdout is a JSON list of a kind, the time in microseconds, and the rest: ["owned", time, partitions]
after each change, ["lost", time, partitions] with those that it keeps where the group has taken some without asking,
["commit failed", time, records, error] with those that it has handled and could not commit, and
["record", time, topic, partition, offset] for each record that it handles. It commits before it handles records
("once at most") or afterwards and before it gives partitions up ("once at least"), always itself and at once.
SIGTERM makes it leave in order; SIGUSR1 makes it say on stderr what its threads are doing.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import json
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

SESSION_MS = 6_000
HEARTBEAT_MS = 300

Place = tuple[str, int, int]
"""Topic, partition and offset."""


class Ending:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self.has_come = True


def tell(kind: str, *rest: object) -> None:
    print(json.dumps([kind, time.time_ns() // 1_000, *rest]), flush=True)


def tell_owned(partitions: Iterable[Any], kind: str = "owned") -> None:
    """Tell all partitions that the member owns now."""
    tell(kind, sorted([one.topic, one.partition] for one in partitions))


class Work:
    """Records that are handled before or after they are committed."""

    def __init__(self, *, commit_first: bool) -> None:
        self.commit_first = commit_first
        self._uncommitted: list[Place] = []

    @contextmanager
    def handling(self, records: list[Place]) -> Iterator[None]:
        """Handle records before or after the commit, which is what is done inside. One that the group refuses leaves
        the records to another member."""
        self._uncommitted += records
        if not self.commit_first:
            self._handle(records)
        try:
            yield
        except Exception as error:
            tell("commit failed", self._uncommitted, repr(error))
            return
        if self.commit_first:
            self._handle(records)
        self._uncommitted.clear()

    def giving_up(self) -> AbstractContextManager[None]:
        """Commit, inside, what has been handled and not been committed yet."""
        return self.handling([])

    def give_up(self, partitions: Iterable[Any]) -> None:
        """Forget about records of partitions that others have now."""
        gone = {(one.topic, one.partition) for one in partitions}
        self._uncommitted = [place for place in self._uncommitted if place[:2] not in gone]

    @staticmethod
    def _handle(records: list[Place]) -> None:
        for place in records:
            tell("record", *place)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What kafka-python and aiokafka are given alike."""
    return {
        "bootstrap_servers": options.servers,
        "group_id": options.group,
        "client_id": options.client_id,
        "group_instance_id": options.instance,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
    }


def places_of(batches: Mapping[Any, Any]) -> list[Place]:
    """The records that these two have got, by partition."""
    return [(record.topic, record.partition, record.offset) for batch in batches.values() for record in batch]


def kafka_python(options: argparse.Namespace, work: Work, ending: Ending) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaConnectionError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_owned(consumer.assignment())

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_owned(())  # in another thread, which cannot commit

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
            with work.handling(records):
                consumer.commit()
    consumer.close()


def confluent_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a member of either protocol; the broker sets the times of the new one."""
    settings: dict[str, Any] = {
        "bootstrap.servers": options.servers,
        "group.id": options.group,
        "client.id": options.client_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if options.instance:
        settings["group.instance.id"] = options.instance
    if options.protocol == "consumer":
        return settings | {"group.protocol": "consumer", "topic.metadata.refresh.interval.ms": 500}
    times = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    return settings | times | {"partition.assignment.strategy": options.assignor}


def confluent_kafka(options: argparse.Namespace, work: Work, ending: Ending) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(confluent_settings(options))
    is_incremental = options.protocol == "consumer" or options.assignor == "cooperative-sticky"
    owned: dict[tuple[str, int], Any] = {}
    uncommitted: dict[tuple[str, int], int] = {}

    def commit() -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in uncommitted.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)
            uncommitted.clear()

    def assigned(_: Any, partitions: Any) -> None:
        owned.update({(one.topic, one.partition): one for one in partitions})
        consumer.incremental_assign(partitions) if is_incremental else consumer.assign(partitions)
        tell_owned(owned.values())

    def give_up(partitions: Any, kind: str) -> None:
        for one in partitions:
            owned.pop((one.topic, one.partition), None)
            uncommitted.pop((one.topic, one.partition), None)
        work.give_up(partitions)
        tell_owned(owned.values(), kind)  # before the group learns of it, which gives them to another member at once
        consumer.incremental_unassign(partitions) if is_incremental else consumer.unassign()

    def revoked(_: Any, partitions: Any) -> None:
        if not work.commit_first:
            with work.giving_up():
                commit()
        give_up(partitions, "owned")

    def lost(_: Any, partitions: Any) -> None:
        give_up(partitions, "lost")

    subscription = [f"^{options.topic}"] if options.subscription == "expression" else [options.topic]
    consumer.subscribe(subscription, on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not ending.has_come:
        messages = [message for message in consumer.consume(100, 0.1) if message.error() is None]
        if messages:
            records = [(message.topic(), message.partition(), message.offset()) for message in messages]
            uncommitted.update({(topic, partition): offset + 1 for topic, partition, offset in records})
            with work.handling(records):
                commit()
    consumer.close()


async def aiokafka(options: argparse.Namespace, work: Work, ending: Ending) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell_owned(assigned)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            nonlocal steps_of_revocations
            steps_of_revocations += 1
            async with busy:
                if revoked and not work.commit_first:
                    with work.giving_up():
                        await consumer.commit()
                work.give_up(revoked)
                tell_owned(())
            steps_of_revocations += 1

    busy = asyncio.Lock()
    steps_of_revocations = 0
    assignors = [RangePartitionAssignor]  # as kafka-python has it: both may be in one group
    consumer = AIOKafkaConsumer(**settings_of(options), partition_assignment_strategy=assignors)
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    while not ending.has_come:
        # It rebalances beside us, not when we ask for records, and waits in getmany for the partitions to come:
        # with the lock held there, the revocation would wait for us and we for the assignment after it.
        records = places_of(await consumer.getmany(timeout_ms=100))
        steps = steps_of_revocations
        async with busy:
            if records and steps == steps_of_revocations:  # else the group has taken what these are of
                with work.handling(records):
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
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic", help="of the group")
    parser.add_argument("--subscription", choices=["topics", "expression"], default="topics", help="what the topic is")
    parser.add_argument("--client-id", default="readers")
    parser.add_argument("--commit-first", action="store_true")
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)
    work, ending = Work(commit_first=options.commit_first), Ending()
    if options.client == "aiokafka":
        asyncio.run(aiokafka(options, work, ending))
    else:
        (kafka_python if options.client == "kafka-python" else confluent_kafka)(options, work, ending)


if __name__ == "__main__":
    main()
