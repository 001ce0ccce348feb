"""Elections, reassignments, features and the cluster itself: we give the same answers as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest

from support.transcript import SameAnswers, Transcript

METADATA_TOPIC = "__cluster_metadata"


def test_elect_leaders(same_answers: SameAnswers) -> None:
    TopicPartitions = ElectLeadersRequest.TopicPartitions

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)

        def request(*asked: tuple[str, list[int]], kind: int = 0, timeout_ms: int = 10_000) -> Any:
            wanted = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in asked]
            return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms)

        for version in range(3):
            transcript.ask("some are unknown", request((topic, [0, 1, 9]), (f"{topic}-absent", [0])), version)
        for kind in (1, 2, -1):
            transcript.ask(f"type {kind}", request((topic, [0, 9]), kind=kind), 2)
        for timeout_ms in (0, -1):
            transcript.ask(f"in {timeout_ms} ms", request((topic, [0]), timeout_ms=timeout_ms), 2)
        transcript.ask("type 7 in no time", request((topic, [0]), kind=7, timeout_ms=0), 2)
        transcript.ask("twice", request((topic, [0, 0]), (topic, [0])), 2)
        transcript.ask("an impossible name", request(("a b", [0])), 2)
        transcript.ask("no partitions", request((topic, [])), 2)
        transcript.ask("nothing", request(), 2)
        every = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        answer = transcript.ask_quietly(every, 2)
        ours = [result for result in answer.replica_election_results if result.topic == topic]
        transcript.note("all", [answer.error_code, [(r.topic, list(r.partition_result)) for r in ours]])

    same_answers(script)


def test_partition_reassignments(same_answers: SameAnswers) -> None:
    Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    Listed = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=2)

        def alter(what: str, *asked: tuple[str, int, list[int] | None], version: int = 1, **options: Any) -> None:
            topics = [
                Topic(name=name, partitions=[Topic.ReassignablePartition(partition_index=number, replicas=replicas)])
                for name, number, replicas in asked
            ]
            settings = {"timeout_ms": 10_000, "allow_replication_factor_change": True, **options}
            transcript.ask(what, AlterPartitionReassignmentsRequest(topics=topics, **settings), version)

        def ongoing(what: str, asked: list[tuple[str, list[int]]] | None) -> None:
            wanted = None if asked is None else [Listed(name=name, partition_indexes=ps) for name, ps in asked]
            transcript.ask(what, ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=wanted), 0)

        for version in (0, 1):
            alter("as it is", (topic, 0, [1]), version=version)
        alter("as it is, and no other number", (topic, 0, [1]), allow_replication_factor_change=False)
        alter("called off", (topic, 0, None), (topic, 9, None))
        for replicas in ([], [1, 1], [2], [-1], [1, 2]):
            alter(f"to {replicas}", (topic, 0, replicas), (topic, 1, [1]))
        alter("of what is unknown", (topic, 9, [1]), (topic, -1, [1]), (f"{topic}-absent", 0, [1]), ("a b", 0, None))
        alter("the same twice", (topic, 0, [1]), (topic, 0, [2]))
        for timeout_ms in (0, -1):
            alter(f"in {timeout_ms} ms", (topic, 0, [1]), timeout_ms=timeout_ms)
        alter("nothing")
        ongoing("all", None)
        ongoing("none", [])
        ongoing("some", [(topic, [0, 9]), (f"{topic}-absent", [0]), ("a b", [0])])

    same_answers(script)


def test_describe_quorum(same_answers: SameAnswers) -> None:
    Topic = DescribeQuorumRequest.TopicData

    def script(transcript: Transcript) -> None:
        def request(*asked: tuple[str, list[int]]) -> Any:
            return DescribeQuorumRequest(
                topics=[
                    Topic(topic_name=name, partitions=[Topic.PartitionData(partition_index=n) for n in numbers])
                    for name, numbers in asked
                ]
            )

        for version in range(3):
            answer = transcript.ask_quietly(request((METADATA_TOPIC, [0])), version).to_dict(json=False)
            (partition,) = answer["topics"][0]["partitions"]
            for entry, offset in ((partition, "high_watermark"), (partition["current_voters"][0], "log_end_offset")):
                entry[offset] = entry[offset] and "moving on"
            partition["leader_epoch"] = partition["leader_epoch"] > 0  # a busy machine makes Kafka elect itself again
            transcript.note(f"the quorum, v{version}", answer, api="DescribeQuorum")
            transcript.ask("another topic", request((transcript.topic, [0])), version)
            transcript.ask("another partition", request((METADATA_TOPIC, [1])), version)
            transcript.ask("another one too", request((METADATA_TOPIC, [0, 1])), version)
            transcript.ask("another topic too", request((METADATA_TOPIC, [0]), (transcript.topic, [0])), version)
            transcript.ask("nothing", request(), version)
            transcript.ask("no partitions", request((METADATA_TOPIC, [])), version)

    same_answers(script)


def test_update_features(same_answers: SameAnswers) -> None:
    Update = UpdateFeaturesRequest.FeatureUpdateKey

    def script(transcript: Transcript) -> None:
        def ask(what: str, *updates: tuple[str, int, int], version: int = 2, **options: Any) -> None:
            wanted = [
                Update(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind > 1)
                for name, level, kind in updates
            ]
            settings = {"timeout_ms": 10_000, "validate_only": True, **options}
            transcript.ask(what, UpdateFeaturesRequest(feature_updates=wanted, **settings), version)

        same = ("metadata.version", 30, 1)
        for version in range(3):
            ask("as it is", same, version=version)
            ask("lower, forbidden", ("metadata.version", 29, 1), version=version)
            ask("lower, allowed", ("metadata.version", 29, 2), version=version)
            ask("nothing", version=version)
        ask("as it is, not only to see", same, validate_only=False)
        for level in (29, 21, 7, 6, 0, -1, 31, 1000):
            for kind in range(-1, 5):
                ask(f"to {level}, upgrade type {kind}", ("metadata.version", level, kind))
        for kind in range(5):
            ask(f"as it is, upgrade type {kind}", ("metadata.version", 30, kind))
            ask(f"an unknown feature, upgrade type {kind}", ("no.such.feature", 1, kind))
            ask(f"an unknown feature to 0, upgrade type {kind}", ("no.such.feature", 0, kind))
        for level in (0, 1, 2, 3):
            for kind in (1, 2, 3):
                ask(f"transaction.version to {level}, upgrade type {kind}", ("transaction.version", level, kind))
        for level in (0, 1, 2, -1):
            for kind in (1, 2, 3):
                ask(f"group.version to {level}, upgrade type {kind}", ("group.version", level, kind))
        ask("without a name", ("", 1, 1))
        ask("twice", same, same)
        ask("one of two is wrong", same, ("no.such.feature", 1, 1), version=1)

    same_answers(script)


def test_features(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in (3, 4):
            request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
            answer = transcript.ask_quietly(request, version)
            told = {
                "supported": {f.name: [f.min_version, f.max_version] for f in answer.supported_features},
                "finalized": {f.name: f.max_version_level for f in answer.finalized_features},
            }
            transcript.note(f"features, v{version}", told, api="ApiVersions")

    same_answers(script)


def test_describe_cluster(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, version: int, *, operations: bool = False, kind: int = 1, fenced: bool = False) -> None:
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=operations, endpoint_type=kind, include_fenced_brokers=fenced
            )
            transcript.ask(what, request, version)

        for version in range(3):
            ask("plain", version)
            ask("with operations", version, operations=True)
        for kind in (0, 2, 9, -1):
            ask(f"endpoint type {kind}", 1, kind=kind)
            ask(f"endpoint type {kind}", 2, kind=kind)
        ask("with fenced brokers", 2, fenced=True)

    same_answers(script)
