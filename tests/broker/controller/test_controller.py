"""What the controller knows: topics, brokers and producer ids, and what of it survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini.broker.controller.controller import (
    PRODUCER_ID_BLOCK,
    BrokerRegistration,
    Controller,
    PartitionState,
    Topic,
)
from kmini.protocol.errors import InvalidReplicationFactor, KafkaStorageError
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.broker.controllers import as_after_a_kill, make, open_in_memory

# --- what survives


def test_everything_is_there_again_after_closing(controller: Controller, tmp_path: Path) -> None:
    made = make(controller, "orders", 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    controller.close()
    again = Controller.open(str(tmp_path))
    assert again.topics == {"orders": made}
    assert again.topic_by_id(made.id) == made
    assert again.cluster_id == controller.cluster_id
    again.close()


def test_everything_is_there_again_after_a_kill(controller: Controller, tmp_path: Path) -> None:
    kept = make(controller, "kept", 2, {"retention.ms": "5"})
    gone = make(controller, "gone")
    controller.delete_topics([gone])
    last_id = controller.next_producer_id()
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"kept": kept}
    assert again.deleted_topics(1) == {gone.id: gone.name}
    assert again.next_producer_id() > last_id
    again.close()


def test_leaders_and_replicas_survive_as_they_are(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path))
    states = (PartitionState((2, 3), (3,), 3, 7, 9), PartitionState((3, 2), (), -1, 1, 2))
    topic = Topic("t", b"i" * 16, states, {})
    controller.create_topics([topic])
    controller.close()
    again = Controller.open(str(tmp_path))
    assert again.topics == {"t": topic}
    again.close()


def test_an_unsynced_database_survives_a_kill_too(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path / ""), node_ids=[1], filesystem=OsFileSystem(synced=False))
    controller.register(BrokerRegistration(1))
    made = make(controller, "t")
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": made}
    again.close()
    controller.close()


# --- topics


def test_topics_of_one_request_are_made_all_or_none(filesystem: MemoryFileSystem) -> None:
    controller = open_in_memory(filesystem)
    make(controller, "there")
    new = [controller.new_topic(name, [(1,)], {"retention.ms": "5"}) for name in ("new", "other")]
    filesystem.faults = Faults(fail_at=1)
    with pytest.raises(KafkaStorageError):
        controller.create_topics(new)
    assert set(controller.topics) == {"there"}
    controller.create_topics(new)
    assert set(controller.topics) == {"there", "new", "other"}


def test_a_deleted_topic_is_remembered_until_its_folders_are_gone(controller: Controller) -> None:
    topic = make(controller, "t")
    controller.delete_topics([topic])
    assert controller.topic("t") is None
    assert controller.topic_by_id(topic.id) is None
    assert controller.is_leaving("t")
    assert controller.deleted_topics(1) == {topic.id: topic.name}
    controller.gone_from(1, [topic.id])
    controller.release_names([topic.id])
    assert not controller.is_leaving("t")
    assert controller.deleted_topics(1) == {}


def test_a_name_can_be_used_again_with_its_settings_forgotten(controller: Controller, tmp_path: Path) -> None:
    first = make(controller, "t", configs={"retention.ms": "5"})
    controller.delete_topics([first])
    second = make(controller, "t")
    assert second.id != first.id
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": second}
    again.close()


def test_changed_settings_and_new_partitions_are_there_again_after_a_kill(
    controller: Controller, tmp_path: Path
) -> None:
    topic = make(controller, "t", 2, {"retention.ms": "5", "segment.bytes": "6"})
    controller.set_topic_configs(topic, {"retention.ms": "7"})
    grown = controller.add_partitions(controller.topics["t"], [(1,), (1,)])
    controller.set_broker_configs("", {"log.retention.ms": "8", "gone": "1"})
    controller.set_broker_configs("", {"log.retention.ms": "9"})
    controller.set_broker_configs("1", {"log.roll.ms": "10"})
    controller.set_group_configs("g", {"consumer.heartbeat.interval.ms": "500"})
    controller.set_group_configs("h", {"consumer.heartbeat.interval.ms": "500"})
    controller.set_group_configs("h", {})
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == controller.topics == {"t": grown}
    assert again.group_configs == controller.group_configs == {"g": {"consumer.heartbeat.interval.ms": "500"}}
    assert (len(grown.partitions), grown.configs) == (4, {"retention.ms": "7"})
    assert again.broker_configs("") == {"log.retention.ms": "9"}
    assert again.broker_configs("1") == {"log.roll.ms": "10"}
    assert again.broker_configs("2") == {}
    again.close()


def test_partitions_that_could_not_be_made_are_taken_back(controller: Controller, tmp_path: Path) -> None:
    topic = make(controller, "t", 2)
    grown = controller.add_partitions(topic, [(1,)])
    controller.take_back_partitions(grown, 2)
    assert controller.topics == {"t": topic}
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == {"t": topic}
    again.close()


def test_names_collide_when_only_dots_and_underscores_differ(controller: Controller) -> None:
    topic = make(controller, "a.b_c")
    assert controller.colliding_topic("a_b.c") == "a.b_c"
    assert controller.colliding_topic("a.b_c") is None
    assert controller.colliding_topic("a-b-c") is None
    controller.delete_topics([topic])
    assert controller.colliding_topic("a_b.c") is None


def test_replicas_are_spread_over_the_registered_brokers_and_live_ones_lead(controller: Controller) -> None:
    for node_id in (2, 3):
        controller.register(BrokerRegistration(node_id))
    assignment = controller.assign(6, 2)
    assert sorted(replicas[0] for replicas in assignment) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(replicas)) == 2 for replicas in assignment)
    controller.fence(2)
    assert [replicas[0] for replicas in controller.assign(4, 3)] == [1, 3, 1, 3]
    topic = controller.new_topic("t", [(1, 3, 2)], {})
    assert (topic.partitions[0].isr, topic.partitions[0].leader) == ((1, 3), 1)
    controller.unregister(2)
    assert {node for replicas in controller.assign(6, 2) for node in replicas} == {1, 3}


def test_the_first_replica_leads_and_all_are_in_sync(controller: Controller) -> None:
    controller.register(BrokerRegistration(3))
    topic = controller.new_topic("t", [(3, 1), (1, 3)], {})
    assert [(state.leader, state.isr) for state in topic.partitions] == [(3, (3, 1)), (1, (1, 3))]
    assert {(state.leader_epoch, state.partition_epoch) for state in topic.partitions} == {(0, 0)}
    assert topic.replication_factor == 2


def test_an_assignment_to_fewer_brokers_is_refused(controller: Controller) -> None:
    with pytest.raises(InvalidReplicationFactor):
        controller.assign(1, 2)


@pytest.mark.sockets
def test_a_thousand_topics_and_a_thousand_partitions_are_one_transaction_each(
    controller: Controller, tmp_path: Path
) -> None:
    assignment = controller.assign(1, 1)
    controller.create_topics([controller.new_topic(f"t{number}", assignment, {}) for number in range(1000)])
    make(controller, "wide", 1000)
    again = as_after_a_kill(controller, tmp_path)
    assert again.topics == controller.topics
    again.close()


# --- brokers


def test_the_live_brokers_are_told_in_order_and_the_first_takes_administrative_requests(tmp_path: Path) -> None:
    controller = Controller.open(str(tmp_path))
    assert (controller.brokers, controller.controller_id) == ([], -1)
    for node_id in (5, 2):
        controller.register(BrokerRegistration(node_id))
    assert [broker.node_id for broker in controller.brokers] == [2, 5]
    assert controller.controller_id == 2
    assert controller.is_live(5)
    controller.fence(2)
    assert controller.controller_id == 5
    assert not controller.is_live(2)
    controller.close()


# --- producer ids


def test_producer_ids_are_never_given_out_twice(controller: Controller, tmp_path: Path) -> None:
    ids = [controller.next_producer_id() for _ in range(2 * PRODUCER_ID_BLOCK + 1)]
    again = as_after_a_kill(controller, tmp_path)
    ids += [again.next_producer_id() for _ in range(10)]
    assert len(set(ids)) == len(ids)
    assert ids[: 2 * PRODUCER_ID_BLOCK] == list(range(2 * PRODUCER_ID_BLOCK))
    again.close()
