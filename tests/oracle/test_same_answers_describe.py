"""What administrators and user interfaces ask: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest

from support.batches import Item, batch
from support.kafka_requests import fetch, init_producer_id, list_offsets, produce
from support.transcript import Transcript

SameAnswers = Callable[[Callable[[Transcript], None]], None]

METADATA_TOPIC = "__cluster_metadata"


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
        ask("group.version to 1", ("group.version", 1, 1))
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


def test_acls(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        anyone = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        any_of = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        rule = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
        named = {"resource_name": "t", "principal": "User:a", "host": "*"}

        def describe(**changed: int) -> Any:
            return DescribeAclsRequest(**anyone, **{**any_of, **changed})

        def create(*rules: dict[str, int]) -> Any:
            AclCreation = CreateAclsRequest.AclCreation
            return CreateAclsRequest(creations=[AclCreation(**named, **{**rule, **changed}) for changed in rules])

        def delete(*filters: dict[str, int]) -> Any:
            Filter = DeleteAclsRequest.DeleteAclsFilter
            return DeleteAclsRequest(filters=[Filter(**anyone, **{**any_of, **changed}) for changed in filters])

        for version in (2, 3):
            transcript.ask("describe", describe(), version)
            transcript.ask("create", create({}, {}), version)
            transcript.ask("create nothing", create(), version)
            transcript.ask("delete", delete({}, {}), version)
            transcript.ask("delete nothing", delete(), version)
        for field in any_of:
            transcript.ask(f"describe with an unknown {field}", describe(**{field: 0}), 3)
            transcript.ask(f"delete with an unknown {field}", delete({}, {field: 0}), 3)
        for field in rule:
            transcript.ask(f"create with an unknown {field}", create({field: 0}), 3)
        transcript.ask("describe a type of the future", describe(resource_type_filter=99), 3)

    same_answers(script)


def test_client_quotas(same_answers: SameAnswers) -> None:
    Entry = AlterClientQuotasRequest.EntryData
    Component = DescribeClientQuotasRequest.ComponentData

    def script(transcript: Transcript) -> None:
        bob, eve = f"{transcript.topic}-bob", f"{transcript.topic}-eve"

        def alter(what: str, *entries: Any, version: int = 1, validate_only: bool = False) -> None:
            """Each entry: an entity, and its quotas; None removes one."""
            wanted = [
                Entry(
                    entity=[Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[Entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas],
                )
                for entity, quotas in entries
            ]
            request = AlterClientQuotasRequest(entries=wanted, validate_only=validate_only)
            answer = transcript.ask_quietly(request, version)
            told = {tuple(sorted((e.entity_type, e.entity_name or "") for e in a.entity)): a for a in answer.entries}
            transcript.note(f"{what}, v{version}", [(name, told[name].error_code) for name in sorted(told)])

        def describe(what: str, *filters: tuple[str, int, str | None], version: int = 1, strict: bool = False) -> None:
            components = [Component(entity_type=kind, match_type=how, match=match) for kind, how, match in filters]
            request = DescribeClientQuotasRequest(components=components, strict=strict)
            answer = transcript.ask_quietly(request, version)
            told = [
                [
                    sorted((e.entity_type, e.entity_name or "") for e in entry.entity),
                    sorted((v.key, v.value) for v in entry.values),
                ]
                for entry in answer.entries or ()
            ]
            transcript.note(f"{what}, v{version}", [answer.error_code, answer.entries is None, sorted(told)])

        def wait_until_told(count: int) -> None:
            """Apache Kafka's broker hears of a change a moment after it was answered."""
            everything = DescribeClientQuotasRequest(components=[], strict=False)
            for _ in range(3_000):
                if len(transcript.ask_quietly(everything, 1).entries) == count:
                    return
                time.sleep(0.01)
            raise TimeoutError(f"there are not {count} quotas")

        rate = ("producer_byte_rate", 1024.0)
        user, both, anyone = [("user", bob)], [("user", bob), ("client-id", "c")], [("user", None)]
        for version in (0, 1):
            alter("only to see", (user, [rate]), version=version, validate_only=True)
            describe("nothing yet", version=version)
        alter(
            "set",
            (user, [rate, ("request_percentage", 12.5)]),
            (both, [("consumer_byte_rate", 2.0)]),
            (anyone, [rate]),
            ([("ip", "1.2.3.4")], [("connection_creation_rate", 7.0)]),
            ([("client-id", None), ("user", eve)], [("controller_mutation_rate", 0.5)]),
        )
        wait_until_told(5)
        for strict in (False, True):
            for what, *filters in (
                ("all",),
                ("any user", ("user", 2, None)),
                ("bob", ("user", 0, bob)),
                ("the default user", ("user", 1, None)),
                ("any client", ("client-id", 2, None)),
                ("bob as any client", ("user", 0, bob), ("client-id", 2, None)),
                ("eve as the default client", ("user", 0, eve), ("client-id", 1, None)),
                ("any address", ("ip", 2, None)),
            ):
                describe(f"{what}, strict {strict}", *filters, strict=strict)
        for what, *filters in (
            ("a name that is null", ("user", 0, None)),
            ("a default with a name", ("user", 1, "x")),
            ("any with a name", ("user", 2, "x")),
            ("match type 9", ("user", 9, None)),
            ("match type -1", ("user", -1, None)),
            ("an unknown type", ("foo", 2, None)),
            ("an empty type", ("", 2, None)),
            ("a type twice", ("user", 2, None), ("user", 1, None)),
            ("an address and a user", ("ip", 2, None), ("user", 2, None)),
        ):
            describe(what, *filters)
        for key, value in (
            ("no_such_key", 1.0),
            ("connection_creation_rate", 1.0),
            ("producer_byte_rate", 0.0),
            ("producer_byte_rate", -1.0),
            ("producer_byte_rate", 1.5),
            ("producer_byte_rate", 1e300),
            ("request_percentage", 0.0),
        ):
            alter(f"{key} {value}", (user, [(key, value), rate]), (anyone, [rate]))
        for entity in ([], [("foo", "x")], [("user", "")], [("ip", "x y")], [("ip", "1.2.3.4"), ("user", "x")]):
            alter(f"of {entity}", (entity, [("consumer_byte_rate", 1.0)]))
        alter("an address, too much", ([("ip", None)], [("connection_creation_rate", 1e12)]))
        alter("an entity twice", (user, [rate]), (user, [("consumer_byte_rate", 3.0)]))
        alter("a quota twice", (user, [rate, rate]))
        alter("one type twice", ([("user", bob), ("user", eve)], [rate]))
        alter("nothing of an entity", (user, []))
        alter("nothing")
        wait_until_told(6)
        describe("after all that")
        alter("remove an unknown key", (user, [("no_such_key", None)]))
        alter("remove some", (user, [("producer_byte_rate", None)]), (both, [("consumer_byte_rate", None)]))
        wait_until_told(5)
        describe("some are gone")
        alter(
            "remove the rest",
            (user, [("request_percentage", None)]),
            (anyone, [("producer_byte_rate", None)]),
            ([("user", eve)], [("producer_byte_rate", None)]),
            ([("ip", "1.2.3.4")], [("connection_creation_rate", None)]),
            ([("client-id", None), ("user", eve)], [("controller_mutation_rate", None)]),
        )
        wait_until_told(0)

    same_answers(script)


def test_describe_user_scram_credentials(same_answers: SameAnswers) -> None:
    User = DescribeUserScramCredentialsRequest.UserName

    def script(transcript: Transcript) -> None:
        for what, names in {"all": None, "none": [], "one": ["bob"], "some twice": ["bob", "", "bob"]}.items():
            users = None if names is None else [User(name=name) for name in names]
            transcript.ask(what, DescribeUserScramCredentialsRequest(users=users), 0)

    same_answers(script)
