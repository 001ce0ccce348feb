"""The contents of a graduated directory, checked without Apache Kafka.

These tests also hold graduation/partition_files.py and graduation/metadata_log.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini import Broker
from kmini.broker.controller.controller import Controller
from kmini.broker.controller.database_entries import NEXT_PRODUCER_ID
from kmini.broker.security.acls import AclBinding
from kmini.broker.security.delegation_tokens import DelegationToken
from kmini.broker.security.resources import Principal
from kmini.graduation.graduate import Report, graduate
from kmini.graduation.kafka_settings import ChangedSetting
from kmini.protocol.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode_framed,
)
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.scram import ScramCredential
from kmini.protocol.topics import TopicPartition
from kmini.records import tombstone
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.journal import Journal
from kmini.storage.log_dir_files import read_meta_properties
from kmini.storage.offset_checkpoint_file import read_offsets
from kmini.testkit.cluster import Cluster
from support.sqlite_databases import FORMATS, write_sqlite_database

pytestmark = pytest.mark.sockets

NOW_MS = 1_767_225_600_000
Graduate = Callable[..., Report]


def metadata_of(out: Path) -> list[MetadataRecord]:
    records = _all_records(out / "bootstrap.checkpoint")
    return [decode_framed(value) for value in records]


def _all_records(path: Path) -> list[bytes]:
    return [record.value or b"" for record in decode_all(path.read_bytes())]


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def small_segments(data_dir: Path, **settings: str) -> None:
    """A topic with several sealed segments and an active one."""
    configs = {"segment.bytes": "300", **{name.replace("_", "."): value for name, value in settings.items()}}
    with Broker(data_dir=data_dir) as broker:
        broker.create_topic("small", config=configs)
        for number in range(12):
            broker.produce("small", b"." * 100, key=b"%d" % number)


def test_nothing_in_the_data_directory_is_changed(data_dir: Path, run: Graduate) -> None:
    before = files_of(data_dir)
    run()
    assert files_of(data_dir) == before


def test_the_logs_are_the_same_files(data_dir: Path, out: Path, run: Graduate) -> None:
    run()
    for folder in ("orders-0", "orders-1", "empty-0"):
        before, after = files_of(data_dir / "broker-1" / folder), files_of(out / folder)
        assert before.items() <= after.items()
        assert not any(after[name] for name in after.keys() - before.keys())  # empty indexes of empty logs
        for name in before:
            assert os.stat(out / folder / name).st_ino != os.stat(data_dir / "broker-1" / folder / name).st_ino


def test_every_log_has_indexes(out: Path, run: Graduate) -> None:
    run()
    for log in out.rglob("*-*/*.log"):
        assert log.with_suffix(".index").exists()
        assert log.with_suffix(".timeindex").exists()


def test_checkpoints_say_where_logs_begin_and_end(out: Path, run: Graduate) -> None:
    run()
    orders = [TopicPartition("orders", number) for number in range(2)]
    names = [path.name for path in out.iterdir() if path.name.endswith("-checkpoint")]
    read = {name: read_offsets(OsFileSystem(), str(out / name)) for name in names}
    ends = {orders[0]: 5, orders[1]: 5, TopicPartition("empty", 0): 0}
    assert read == {
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends,
        "log-start-offset-checkpoint": {orders[1]: 2},
        "cleaner-offset-checkpoint": {},
    }


def test_the_directory_says_whose_it_is(data_dir: Path, out: Path, run: Graduate) -> None:
    report = run(node_id=7)
    meta = read_meta_properties(OsFileSystem(), str(out))
    ours = read_meta_properties(OsFileSystem(), str(data_dir / "broker-1"))
    assert meta is not None
    assert ours is not None
    assert (meta.node_id, meta.cluster_id) == (7, ours.cluster_id) == (report.node_id, report.cluster_id)
    assert meta.directory_id not in (bytes(16), ours.directory_id)
    assert (out / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":0}'
    quorum = (out / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").read_bytes()
    assert meta.directory_id in quorum
    assert (out / "bootstrap.checkpoint").stat().st_mode & 0o077 == 0


def test_the_one_node_is_every_partitions_only_eligible_replica(data_dir: Path, out: Path, run: Graduate) -> None:
    run(node_id=7)
    meta = read_meta_properties(OsFileSystem(), str(out))
    assert meta is not None
    records = metadata_of(out)
    topics = {record.topic_id: record.name for record in records if isinstance(record, TopicRecord)}
    partitions = [record for record in records if isinstance(record, PartitionRecord)]
    assert sorted((topics[one.topic_id], one.partition_id) for one in partitions) == [
        ("empty", 0),
        ("orders", 0),
        ("orders", 1),
    ]
    for one in partitions:
        assert (one.replicas, one.isr, one.leader, one.eligible_leader_replicas) == ([7], [], -1, [7])
        assert one.directories == [meta.directory_id]
    (node,) = [record for record in records if isinstance(record, RegisterBrokerRecord)]
    assert (node.broker_id, node.broker_epoch, node.fenced, node.log_dirs) == (7, 0, True, [meta.directory_id])
    controller = Controller.open(str(data_dir))
    try:
        assert {name: topic.id for name, topic in controller.topics.items()} == {
            name: topic_id for topic_id, name in topics.items()
        }
    finally:
        controller.close()


def test_leader_epochs_are_not_below_those_in_the_batches(data_dir: Path, out: Path, run: Graduate) -> None:
    for _ in range(3):
        with Broker(data_dir=data_dir) as broker:
            broker.produce("orders", b"in a later epoch")
    run()
    names = {record.topic_id: record.name for record in metadata_of(out) if isinstance(record, TopicRecord)}
    for record in metadata_of(out):
        if isinstance(record, PartitionRecord) and names[record.topic_id] == "orders":
            assert record.leader_epoch == 3


def test_users_rules_quotas_and_settings_are_in_the_metadata(data_dir: Path, out: Path, run: Graduate) -> None:
    acl = AclBinding(2, 3, "orders", "User:alice", "*", 3, 3)
    credential = ScramCredential(b"salt", 4096, b"stored", b"server")
    controller = Controller.open(str(data_dir))
    controller.create_acls([acl])
    controller.alter_scram_credentials({("alice", 2): credential}, [])
    controller.set_client_quotas('{"client-id": null, "user": "alice"}', {"consumer_byte_rate": "0.5"})
    controller.set_broker_configs("", {"log.cleaner.threads": "2", "kmini.as.version": "3.9"})
    controller.set_broker_configs("1", {"log.segment.bytes": "1000"})
    controller.set_broker_configs("2", {"num.io.threads": "3"})
    controller.set_group_configs(
        "billing", {"consumer.session.timeout.ms": "50000", "streams.num.standby.replicas": "1"}
    )
    topic = controller.topic("orders")
    assert topic is not None
    controller.set_topic_configs(topic, {"retention.ms": "5", "segment.bytes": "14", "internal.segment.bytes": "77"})
    controller.close()

    report = run()

    records = metadata_of(out)
    rules = [record for record in records if isinstance(record, AccessControlEntryRecord)]
    assert [AclBinding(*(getattr(rule, name) for name in AclBinding._fields)) for rule in rules] == [acl]
    assert [record for record in records if isinstance(record, UserScramCredentialRecord)] == [
        UserScramCredentialRecord(name="alice", mechanism=2, **credential._asdict())
    ]
    Entity = ClientQuotaRecord.Entity
    assert [record for record in records if isinstance(record, ClientQuotaRecord)] == [
        ClientQuotaRecord(
            entity=[
                Entity(entity_type="client-id", entity_name=None),
                Entity(entity_type="user", entity_name="alice"),
            ],
            key="consumer_byte_rate",
            value=0.5,
        )
    ]
    settings = [record for record in records if isinstance(record, ConfigRecord)]
    assert [(one.resource_type, one.resource_name, one.name, one.value) for one in settings] == [
        (2, "orders", "internal.segment.bytes", "77"),
        (2, "orders", "retention.ms", "5"),
        (2, "orders", "segment.bytes", "1048576"),
        (4, "", "log.cleaner.threads", "2"),
        (4, "1", "log.segment.bytes", "1048576"),
        (32, "billing", "consumer.session.timeout.ms", "50000"),
        (32, "billing", "streams.num.standby.replicas", "1"),
    ]
    too_small = "Apache Kafka asks for at least 1 MiB"
    assert report.changed_settings == [
        ChangedSetting("topic orders", "segment.bytes", "14", "1048576", too_small),
        ChangedSetting("all brokers", "kmini.as.version", "3.9", None, "Apache Kafka does not have it"),
        ChangedSetting("broker 1", "log.segment.bytes", "1000", "1048576", too_small),
        ChangedSetting("broker 2", "num.io.threads", "3", None, "the new cluster has no such broker"),
    ]
    assert (report.acls, report.scram_credentials, report.quotas) == (1, 1, 1)


def test_delegation_tokens_go_along_where_the_settings_have_their_key(
    data_dir: Path, out: Path, tmp_path: Path, run: Graduate
) -> None:
    alice, bob = Principal.user("alice"), Principal.user("bob")
    controller = Controller.open(str(data_dir))
    controller.put_delegation_token(DelegationToken("token", alice, bob, (bob,), 1000, 3000, 2000))
    controller.close()
    assert run().delegation_tokens == 0
    assert not [record for record in metadata_of(out) if isinstance(record, DelegationTokenRecord)]
    keyed = tmp_path / "keyed"
    report = graduate(
        str(data_dir), str(keyed), now_ms=NOW_MS, configured={"delegation.token.secret.key": "the-key-of-all-tokens"}
    )
    assert report.delegation_tokens == 1
    assert [record for record in metadata_of(keyed) if isinstance(record, DelegationTokenRecord)] == [
        DelegationTokenRecord(
            owner="User:alice",
            requester="User:bob",
            renewers=["User:bob"],
            issue_timestamp=1000,
            max_timestamp=3000,
            expiration_timestamp=2000,
            token_id="token",
        )
    ]
    properties = keyed / "server.properties"
    assert "delegation.token.secret.key=the-key-of-all-tokens" in properties.read_text()
    assert properties.stat().st_mode & 0o077 == 0


@pytest.mark.sockets
def test_producer_ids_go_on_above_all_that_were_given_out(
    data_dir: Path, out: Path, run: Graduate, leaky_clients: None
) -> None:
    with Broker(data_dir=data_dir) as broker:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)  # idempotent, as by default
        producer.send("orders", b"x").get(30)
        producer.close()
    journal = Journal.open(OsFileSystem(), str(data_dir / "kmini.db"))
    assert journal.entries[NEXT_PRODUCER_ID] > 0
    journal.change({NEXT_PRODUCER_ID: 0})  # as if an older file had come back
    journal.close()
    run()
    (record,) = [one for one in metadata_of(out) if isinstance(one, ProducerIdsRecord)]
    assert record.next_producer_id == 1  # the logs know of producer 0


def test_the_report_counts(run: Graduate, data_dir: Path) -> None:
    report = run()
    by_name = {one.name: one for one in report.topics}
    assert (by_name["orders"].partitions, by_name["orders"].offsets) == (2, 8)
    size = sum(path.stat().st_size for path in data_dir.glob("broker-1/orders-*/*.log"))
    assert (by_name["orders"].copied_bytes, by_name["orders"].linked_bytes) == (size, 0)
    assert by_name["empty"].copied_bytes == 0
    assert not report.left_behind
    assert not report.open_transactions


def test_what_is_in_the_internal_topics_is_counted(
    data_dir: Path, out: Path, run: Graduate, leaky_clients: None
) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    with Broker(data_dir=data_dir) as broker:
        for group in ("billing", "audit"):
            consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
            places = [Place("orders", number, 1 + number) for number in range(2 if group == "audit" else 1)]
            consumer.commit(offsets=places, asynchronous=False)
            consumer.close()
    report = run()
    assert (report.groups, report.committed_offsets, report.transactional_ids) == (2, 3, 0)
    for path in (data_dir / "broker-1").glob("__consumer_offsets-*/*.log"):  # counting has changed nothing
        assert (out / path.parent.name / path.name).read_bytes() == path.read_bytes()


def test_with_link_sealed_segments_are_second_names_and_nothing_else_is(tmp_path: Path, out: Path) -> None:
    small_segments(tmp_path / "small")
    report = graduate(str(tmp_path / "small"), str(out), now_ms=NOW_MS, link=True)
    source = tmp_path / "small" / "broker-1" / "small-0"
    *sealed, active = sorted(path.name for path in source.glob("*.log"))
    assert len(sealed) > 2
    for path in source.iterdir():
        is_same = os.stat(path).st_ino == os.stat(out / "small-0" / path.name).st_ino
        assert is_same == (path.name in sealed), path.name
    (topic,) = report.topics
    assert topic.copied_bytes == (source / active).stat().st_size
    assert topic.linked_bytes == sum((source / name).stat().st_size for name in sealed)


def test_copies_are_as_old_as_what_they_are_of(tmp_path: Path, out: Path) -> None:
    small_segments(tmp_path / "small")
    source = tmp_path / "small" / "broker-1" / "small-0"
    for path in source.glob("*.log"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    graduate(str(tmp_path / "small"), str(out), now_ms=NOW_MS)
    assert {path.stat().st_mtime for path in (out / "small-0").glob("*.log")} == {1_000_000_000}


@pytest.mark.parametrize("link", [False, True], ids=["copied", "linked"])
def test_only_segments_with_flagged_values_are_written_anew(tmp_path: Path, out: Path, link: bool) -> None:
    data_dir = tmp_path / "flagged"
    configs = {"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true", "segment.bytes": "300"}
    with Broker(data_dir=data_dir) as broker:
        broker.create_topic("profiles", config=configs)
        for number in range(12):
            if number in (4, 5, 11):
                broker.produce("profiles", **tombstone(b"%d" % number, b"." * 60, headers={"by": "support"}))
            else:
                broker.produce("profiles", b"." * 100, key=b"%d" % number)
        before = broker.records("profiles")
    report = graduate(str(data_dir), str(out), now_ms=NOW_MS, link=link)
    assert [one.tombstones for one in report.topics] == [3]
    assert [one.name for one in report.changed_settings] == ["kmini.tombstone.flag.enable", "segment.bytes"]

    shutil.rmtree(data_dir / "broker-1" / "profiles-0")  # and back again, which shows that files and indexes agree
    shutil.copytree(out / "profiles-0", data_dir / "broker-1" / "profiles-0")
    with Broker(data_dir=data_dir) as broker:
        after = broker.records("profiles")
        assert [one.value for one in after] == [None if n in (4, 5, 11) else b"." * 100 for n in range(12)]
        for one, other in zip(after, before, strict=True):
            assert one._replace(value=None) == other._replace(value=None)


@pytest.mark.sockets
def test_of_a_cluster_the_leaders_logs_are_taken(tmp_path: Path, out: Path, leaky_clients: None) -> None:
    data_dir = tmp_path / "cluster"
    with Cluster(3, data_dir=data_dir) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        leader = cluster.leader("orders")
        followers = [number for number in (1, 2, 3) if number != leader]
        cluster.stop_broker(followers[0])
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","))
        for number in range(5):
            producer.send("orders", b"%d" % number).get(30)
        producer.close()
        cluster.stop_broker(leader)
        assert cluster.leader("orders") == followers[1]
    report = graduate(str(data_dir), str(out), now_ms=NOW_MS)
    assert [one.offsets for one in report.topics if one.name == "orders"] == [5]
    assert len(_all_records(next((out / "orders-0").glob("*.log")))) == 5
    assert not report.from_followers


def test_without_the_leaders_log_the_one_in_sync_that_has_come_furthest_is_taken(tmp_path: Path, out: Path) -> None:
    data_dir = tmp_path / "cluster"
    with Cluster(3, data_dir=data_dir) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        leader = cluster.leader("orders")
    shutil.rmtree(data_dir / f"broker-{leader}")
    report = graduate(str(data_dir), str(out), now_ms=NOW_MS)
    assert report.from_followers == [TopicPartition("orders", 0)]


def test_folders_that_no_topic_has_are_left_behind_and_named(data_dir: Path, out: Path, run: Graduate) -> None:
    stray = data_dir / "broker-1" / "forgotten-0"
    shutil.copytree(data_dir / "broker-1" / "orders-0", stray)
    (data_dir / "broker-1" / f"gone-0.{'0' * 32}-delete").mkdir()
    assert run().left_behind == [str(stray)]
    assert not (out / "forgotten-0").exists()
    assert not list(out.glob("gone*"))


@pytest.mark.parametrize("version", FORMATS)
def test_an_older_database_is_read_and_stays_as_it_is(data_dir: Path, out: Path, run: Graduate, version: int) -> None:
    controller = Controller.open(str(data_dir))
    topics, cluster_id = tuple(controller.topics.values()), controller.cluster_id
    controller.close()
    for path in [data_dir / "kmini.db", data_dir / ".lock"]:
        path.unlink()
    write_sqlite_database(data_dir / "kmini.db", version, cluster_id=cluster_id, topics=topics)
    before = {path.name: path.read_bytes() for path in data_dir.glob("kmini.db*")}
    run()
    assert {path.name: path.read_bytes() for path in data_dir.glob("kmini.db*")} == before
    assert not (data_dir / ".lock").exists()
    assert any(isinstance(record, TopicRecord) for record in metadata_of(out))


def test_progress_ends_at_its_end(run: Graduate) -> None:
    heard = []
    run(on_progress=heard.append)
    assert heard[-1].done == heard[-1].total > 0
    assert sorted(one.done for one in heard) == [one.done for one in heard]
