"""Rules about the disk, seen by requests."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from kmini import Broker, KafkaError
from kmini.testing import Wire
from support.fault_rules import codes_of, fetch, produce

pytestmark = pytest.mark.sockets

STORAGE_ERROR = 56


@pytest.mark.parametrize("fault", ["full", "read_only", "fail"])
def test_a_disk_that_cannot_be_written_fails_the_topics_that_are_meant(broker: Broker, wire: Wire, fault: str) -> None:
    rule = getattr(broker.faults.on("disk", topic="orders"), fault)()
    assert codes_of(wire.ask(produce("orders", "other"), 9)) == {"orders": STORAGE_ERROR, "other": 0}
    rule.assert_hit()
    broker.faults.clear()
    assert codes_of(wire.ask(produce("orders", "other"), 9)) == {"orders": 0, "other": 0}


def test_a_full_disk_can_be_read_and_a_broken_one_cannot(broker: Broker, wire: Wire) -> None:
    wire.ask(produce("orders"), 9)
    broker.topic("orders").roll()
    for fault, code in (("full", 0), ("fail", STORAGE_ERROR)):
        with getattr(broker.faults.on("disk", topic="orders", name=fault), fault)():
            assert wire.ask(fetch(), 12).responses[0].partitions[0].error_code == code


def test_only_the_first_operations_fail_if_the_rule_says_so(broker: Broker, wire: Wire) -> None:
    broker.faults.on("disk", topic="orders").times(1).full()
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": STORAGE_ERROR}
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}


def test_of_two_rules_that_mean_an_operation_one_acts(broker: Broker, wire: Wire) -> None:
    for name in ("older", "newer"):
        broker.faults.on("disk", topic="orders", name=name).times(1).full()
    codes = [codes_of(wire.ask(produce("orders"), 9))["orders"] for _ in range(3)]
    assert codes == [STORAGE_ERROR, STORAGE_ERROR, 0]


def test_a_rule_about_a_disk_means_a_topic_with_hyphens_alone(broker: Broker, wire: Wire) -> None:
    broker.create_topic("orders-of-1999")
    broker.faults.on("disk", topic="orders-of-1999").full()
    codes = codes_of(wire.ask(produce("orders-of-1999", "orders"), 9))
    assert codes == {"orders-of-1999": STORAGE_ERROR, "orders": 0}


def test_a_wait_for_a_rule_ends_with_the_operation_that_fails(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("disk", topic="orders").full()
    waiting = threading.Thread(target=rule.wait_hit, kwargs={"timeout_ms": 60_000})
    waiting.start()
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": STORAGE_ERROR}
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_sync_that_fails_is_told_by_a_flush(tmp_path: Any) -> None:
    config = {"log.flush.interval.messages": 1}
    with Broker(topics=["orders"], data_dir=tmp_path, config=config) as broker, Wire(broker.bootstrap_servers) as wire:
        rule = broker.faults.on("disk", topic="orders").once().fail_fsync()
        assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": STORAGE_ERROR}
        rule.assert_hit(times=1)


def test_a_slow_sync_is_met_by_syncs_alone(tmp_path: Any) -> None:
    config = {"log.flush.interval.messages": 1}
    with Broker(topics=["orders", "other"], data_dir=tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        rule = broker.faults.on("disk", topic="orders").slow_fsync("1ms")
        assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
        assert rule.hits == 0
    with Broker(topics=["orders"], config=config) as broker, Wire(broker.bootstrap_servers) as wire:
        rule = broker.faults.on("disk", topic="orders").slow_fsync("1ms")
        assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
        rule.assert_hit()


def test_a_full_disk_has_no_room_for_a_new_topic(broker: Broker) -> None:
    with broker.faults.disk_full(), pytest.raises(KafkaError):
        broker.create_topic("new", 1)
    assert os.path.isdir(os.path.join(str(broker.data_dir), "broker-1", "orders-0"))


def test_a_rule_about_one_broker_leaves_the_disks_of_others_alone() -> None:
    from kmini import Cluster

    with Cluster(brokers=2, topics={"orders": {"partitions": 1, "replication_factor": 1}}) as cluster:
        leader = cluster.leader("orders")
        other = cluster.faults.on("disk", broker=3 - leader, name="other").full()
        with Wire(cluster.address_of(leader)) as wire:
            assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": 0}
            cluster.faults.on("disk", broker=leader).full()
            assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": STORAGE_ERROR}
        assert other.hits == 0
