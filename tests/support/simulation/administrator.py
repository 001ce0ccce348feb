"""A client that creates one topic, writes to it, reads it, gives it partitions and deletes it, again and again, while
its cluster is in trouble. A topic shares its name with those before it, and nothing else."""

from __future__ import annotations

import time

from kmini.client.errors import check
from kmini.protocol.errors import (
    InvalidPartitions,
    KafkaError,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicId,
)
from kmini.protocol.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.simulation.actor import PATIENCE_MS, Actor
from support.simulation.world import Violation, World, has_rarities

MADE = "made"
MOST_PARTITIONS = 4


class Administrator(Actor):
    """Asks any broker, by the topic's id where the protocol has it."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._topic_id: bytes | None = None
        """Of the topic, if there is one."""
        self._deleted: set[bytes] = set()
        """The ids of topics whose deletion was acknowledged."""
        self._partitions = 0
        self._count = 0
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        """The values of the topic that is there, by partition and offset."""

    async def act(self) -> None:
        if self._topic_id is None:
            self._topic_id = await self.until_it_works("CreateTopics", self._create)
            self._partitions = self._count_partitions()
            self.world.history.say(
                f"{self.name}: topic {MADE} is {self._topic_id.hex()}, {self._partitions} partitions"
            )
            return
        chance = self.random.random()
        if chance < 0.05:
            await self._delete_topic(self._topic_id)
        elif chance < 0.15 and self._partitions < MOST_PARTITIONS:
            await self._grow()
        else:
            try:
                # Only the newest releases take records by a topic's id.
                writes = chance < 0.6 and self.world.cluster.configs[0].kmini_as_version != "4.0"
                await (self._write if writes else self._read)(self._topic_id)
            except KafkaError as error:
                self._leaders.clear()
                if not error.retriable and not isinstance(error, OffsetOutOfRange):
                    raise Violation(f"{self.name}: {error!r}") from error

    def _any_broker(self) -> int:
        return self.random.choice([*self.world.cluster.brokers] or [1])

    def _count_partitions(self) -> int:
        """Raises Violation if there are fewer than before."""
        topic = self.world.cluster.controller.topics.get(MADE)
        if topic is None or topic.id != self._topic_id:
            raise Violation(f"{self.name}: {MADE} was acknowledged, and is gone")
        if len(topic.partitions) < self._partitions:
            raise Violation(f"{self.name}: {MADE} had {self._partitions} partitions, and has {len(topic.partitions)}")
        return len(topic.partitions)

    async def _create(self) -> bytes:
        """The id of the topic, which a request of before may have created though its answer was lost."""
        Topic = CreateTopicsRequest.Topic
        topic = Topic(name=MADE, num_partitions=self.random.randint(1, 2), replication_factor=-1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=PATIENCE_MS)
        answer = (await self.ask(self._any_broker(), request)).topics[0]
        topic_id = answer.topic_id
        if answer.error_code == TopicAlreadyExists.code:
            topic_id = self.world.topic_id(MADE)
        else:
            check(answer.error_code, answer.error_message)
        if topic_id in self._deleted:
            raise Violation(f"{self.name}: {MADE} has the id of one that was deleted, {topic_id.hex()}")
        return bytes(topic_id)

    async def _delete_topic(self, topic_id: bytes) -> None:
        attempts = 0

        async def delete() -> None:
            nonlocal attempts
            attempts += 1
            topics = [DeleteTopicsRequest.Topic(name=None, topic_id=topic_id)]
            request = DeleteTopicsRequest(topics=topics, timeout_ms=PATIENCE_MS)
            answer = (await self.ask(self._any_broker(), request)).responses[0]
            if answer.error_code != UnknownTopicId.code or attempts == 1:  # the answer to one before was lost
                check(answer.error_code, answer.error_message)

        await self.until_it_works("DeleteTopics", delete)
        self.world.history.say(f"{self.name}: topic {MADE} {topic_id.hex()} is deleted")
        self._deleted.add(topic_id)
        self._topic_id, self._partitions = None, 0
        self._acknowledged.clear()
        self._leaders.clear()

    async def _grow(self) -> None:
        wanted = self._count_partitions() + 1

        async def grow() -> None:
            topics = [CreatePartitionsRequest.Topic(name=MADE, count=wanted, assignments=None)]
            request = CreatePartitionsRequest(topics=topics, timeout_ms=PATIENCE_MS)
            answer = (await self.ask(self._any_broker(), request)).results[0]
            if answer.error_code != InvalidPartitions.code or self._count_partitions() < wanted:
                check(answer.error_code, answer.error_message)

        await self.until_it_works("CreatePartitions", grow)
        self._partitions = self._count_partitions()
        if self._partitions < wanted:
            raise Violation(f"{self.name}: {MADE} was given {wanted} partitions, and has {self._partitions}")

    async def _write(self, topic_id: bytes) -> None:
        """Send a record once, so that it is there once or not at all."""
        partition = TopicPartition(MADE, self.random.randrange(self._partitions))
        self._count += 1
        value = f"{topic_id.hex()} {self._count}".encode()
        batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, value)])
        if has_rarities(self.world.seed) and self.random.random() < 0.3:
            await self._write_anywhere(partition, bytes(batch), topic_id)
            return
        base = await self.produce(partition, bytes(batch), topic_id=topic_id)
        self.world.history.say(f"{self.name}: {partition} from offset {base}: {self._count}")
        if self._acknowledged.setdefault((partition.partition, base), value) != value:
            raise Violation(f"{self.name}: {partition} offset {base} was acknowledged before")

    async def _write_anywhere(self, partition: TopicPartition, batch: bytes, topic_id: bytes) -> None:
        """Send a record, which may be lost, to a broker that may lead no more. Raises what the broker answers, and
        Violation."""
        node_id = self._any_broker()
        broker = self.world.cluster.brokers.get(node_id)
        log = None if broker is None else broker.logs.logs.get(partition)
        await self.produce(partition, batch, topic_id=topic_id, node_id=node_id, acks=1)
        if log is not None and log.topic_id != topic_id:
            raise Violation(
                f"{self.name}: {node_id} took a record of {topic_id.hex()} into the log {log.topic_id.hex()}"
            )

    async def _read(self, topic_id: bytes) -> None:
        partition = TopicPartition(MADE, self.random.randrange(self._partitions))
        replicas = self.world.cluster.state(partition).replicas
        node_id = self.leader(partition) if self.random.random() < 0.6 else self.random.choice(replicas)
        end = max([offset for number, offset in self._acknowledged if number == partition.partition], default=0)
        answer = await self.fetch(node_id, partition, self.random.randint(0, end), topic_id=topic_id)
        check(answer.error_code)
        self._take(partition, bytes(answer.records or b""))

    def _take(self, partition: TopicPartition, data: bytes) -> dict[int, bytes]:
        """The values by offset. Raises Violation if one is not of this topic, or not the acknowledged one."""
        assert self._topic_id is not None
        found = {}
        for position, header in iter_batches(data):
            for record in decode_records(data, position, header):
                value = bytes(record.value or b"")
                if not value.startswith(self._topic_id.hex().encode()):
                    raise Violation(f"{self.name}: {partition} offset {record.offset} is {value!r}, of another topic")
                known = self._acknowledged.get((partition.partition, record.offset), value)
                if known != value:
                    raise Violation(f"{self.name}: {partition} offset {record.offset} is {value!r}, not {known!r}")
                found[record.offset] = value
        return found

    def check(self) -> None:
        """What was acknowledged is on every replica. (`check_homes` sees logs of a topic before.) Raises Violation."""
        cluster = self.world.cluster
        if self._topic_id is None:
            if MADE in cluster.controller.topics and self.world.topic_id(MADE) in self._deleted:
                raise Violation(f"{self.name}: {MADE} was deleted, and is there")
            return
        self._count_partitions()
        for number, state in enumerate(cluster.controller.topics[MADE].partitions):
            partition = TopicPartition(MADE, number)
            for node_id in state.replicas:
                log = cluster.brokers[node_id].logs.logs[partition]
                found = self._take(partition, bytes(log.read(0, 1 << 24, limit_offset=log.log_end_offset)))
                for (where, offset), value in self._acknowledged.items():
                    if where == number and found.get(offset) != value:
                        raise Violation(f"{partition} offset {offset} on {node_id}: {value!r} was acknowledged")
