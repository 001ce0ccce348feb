"""What partitions, log directories and producers are described as: we give the same answers as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
)
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from support.batches import Item, batch
from support.kafka_requests import fetch, init_producer_id, list_offsets, produce
from support.transcript import SameAnswers, Transcript


def test_offset_for_leader_epoch(same_answers: SameAnswers) -> None:
    Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    Partition = Topic.OffsetForLeaderPartition

    def asked(topic: str, *entries: tuple[int, int, int], replica_id: int = -1) -> Any:
        partitions = [Partition(partition=p, current_leader_epoch=c, leader_epoch=e) for p, c, e in entries]
        return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[Topic(topic=topic, partitions=partitions)])

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        transcript.ask("fill", produce(topic, batch([Item()] * 5)), 9)
        for version in (2, 3, 4):
            for epoch in (0, 1, -1, -2, 1000):
                transcript.ask(f"epoch {epoch}", asked(topic, (0, -1, epoch)), version)
            for current in (0, 1, -2):
                transcript.ask(f"current epoch {current}", asked(topic, (0, current, 0)), version)
            transcript.ask("an empty partition", asked(topic, (1, -1, 0)), version)
            transcript.ask("unknown partitions", asked(topic, (9, -1, 0), (-1, -1, 0)), version)
            transcript.ask("an unknown topic", asked(f"{topic}-absent", (0, -1, 0)), version)
            transcript.ask("an impossible topic", asked("a b", (0, -1, 0)), version)
            transcript.ask("the same twice", asked(topic, (0, -1, 0), (0, -1, 0)), version)
        for replica_id in (-2, 1):
            transcript.ask(f"as replica {replica_id}", asked(topic, (0, -1, 0), replica_id=replica_id), 4)

    same_answers(script)


def test_clients_with_another_idea_of_the_leader(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        transcript.ask("fill", produce(topic, batch([Item()] * 3)), 9)
        for epoch in (0, 1, -1, -2):
            transcript.ask(f"offsets, epoch {epoch}", list_offsets(topic, -1, epoch=epoch), 7)
            transcript.ask(f"fetch, epoch {epoch}", fetch(topic, 0, current_leader_epoch=epoch), 11)

    same_answers(script)


def test_describe_topic_partitions(same_answers: SameAnswers) -> None:
    Topic, Cursor = DescribeTopicPartitionsRequest.TopicRequest, DescribeTopicPartitionsRequest.Cursor

    def script(transcript: Transcript) -> None:
        two, three = transcript.create("-a", partitions=2), transcript.create("-b", partitions=3)
        absent = f"{transcript.topic}-absent"

        def ask(what: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
            at = cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1])
            topics = [Topic(name=name) for name in names]
            request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)
            transcript.ask(what, request, 0)

        ask("one", two)
        ask("two, one of them twice", three, two, three)
        ask("some are not there", absent, "a b", three)
        for limit in range(-1, 7):
            ask(f"a limit of {limit}", two, three, limit=limit)
            ask(f"a limit of {limit}, some are not there", two, absent, three, "a b", limit=limit)
        for number in (-1, 0, 1, 2, 3, 99):
            ask(f"from partition {number}", two, three, limit=3, cursor=(three, number))
            ask(f"from partition {number} of the first", two, three, limit=3, cursor=(two, number))
        ask("from an unknown topic", two, absent, three, cursor=(absent, 5))
        ask("from a topic that is not asked for", two, three, cursor=(absent, 0))
        ask("from behind all", two, cursor=("~", 0))
        ask("from behind all there are", cursor=("~", 0))
        ask("a negative partition, of all", cursor=(two, -1))

    same_answers(script)


def test_describe_log_dirs(same_answers: SameAnswers) -> None:
    Topic = DescribeLogDirsRequest.DescribableLogDirTopic

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        transcript.ask("fill", produce(topic, batch([Item()] * 5), partition=1), 9)

        def ask(what: str, *asked: tuple[str, list[int]], version: int = 5) -> None:
            wanted = [Topic(topic=name, partitions=numbers) for name, numbers in asked]
            transcript.ask(what, DescribeLogDirsRequest(topics=wanted), version)

        for version in range(1, 6):
            ask("a topic", (topic, [0, 1]), version=version)
            ask("nothing", version=version)
        ask("unknown partitions", (topic, [0, 9, -1]))
        ask("unknown topics", (f"{topic}-absent", [0]), ("a b", [0]), (topic, [1]))
        ask("twice", (topic, [0, 0]), (topic, [1]))
        ask("no partitions", (topic, []))

    same_answers(script)


def test_alter_replica_log_dirs(same_answers: SameAnswers) -> None:
    Dir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    Topic = Dir.AlterReplicaLogDirTopic

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        here = transcript.ask("the directory", DescribeLogDirsRequest(topics=[]), 5).results[0].log_dir

        def ask(what: str, *moves: tuple[str, str, list[int]], version: int = 2) -> None:
            dirs = [Dir(path=path, topics=[Topic(name=name, partitions=ps)]) for path, name, ps in moves]
            transcript.ask(what, AlterReplicaLogDirsRequest(dirs=dirs), version)

        for version in (1, 2):
            ask("to where it is", (here, topic, [0, 1]), version=version)
            ask("to nowhere", ("/nowhere", topic, [0, 9]), version=version)
        ask("what is unknown", (here, topic, [9, -1]), (here, f"{topic}-absent", [0]), (here, "a b", [0]))
        ask("what is unknown to nowhere", ("/nowhere", f"{topic}-absent", [0]))
        for path in ("", "relative", f"{here}/"):
            ask(f"to {path.removeprefix(here)!r}", (path, topic, [0]))
        ask("to two directories, the second is right", ("/nowhere", topic, [0]), (here, topic, [0]))
        ask("nothing")

    same_answers(script)


def test_describe_producers(same_answers: SameAnswers) -> None:
    Topic = DescribeProducersRequest.TopicRequest

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)
        transcript.wait_until_loaded(init_producer_id(), 4)
        producer_id = transcript.ask("a producer id", init_producer_id(), 4).producer_id
        for sequence in (0, 2):
            records = batch([Item()] * 2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            transcript.ask(f"write at {sequence}", produce(topic, records), 9)
        transcript.ask("write without an id", produce(topic, batch()), 9)

        def ask(what: str, *asked: tuple[str, list[int]]) -> None:
            wanted = [Topic(name=name, partition_indexes=numbers) for name, numbers in asked]
            transcript.ask(what, DescribeProducersRequest(topics=wanted), 0)

        ask("of a topic", (topic, [0, 1]))
        ask("twice", (topic, [0, 0]), (topic, [0]))
        ask("of what is unknown", (topic, [9, -1]), (f"{topic}-absent", [0]))
        ask("of impossible names", ("a b", [0, 1]), ("", [0]))
        ask("nothing")

    same_answers(script)
