"""What the controller's database holds comes back from its entries."""

from __future__ import annotations

import json

import pytest

from kmini.broker.controller.database_entries import (
    CLUSTER_ID,
    Stored,
    deleted_topic_key,
    deleted_topics,
    entries_of,
    partition_key,
    stored_of,
    topic_entries,
)
from kmini.broker.controller.topology import NO_LEADER, PartitionState, Topic
from kmini.broker.security.acls import AclBinding
from kmini.broker.security.delegation_tokens import DelegationToken
from kmini.broker.security.resources import Principal
from kmini.protocol.scram import ScramCredential

IDS = [bytes([number] * 16) for number in range(4)]
STORED = Stored(
    cluster_id="cluster",
    topics=[
        Topic(
            "orders",
            IDS[1],
            (
                PartitionState((3, 1), (1,), 1, leader_epoch=4, partition_epoch=9, adding=(3,), removing=()),
                PartitionState((1, 2), (2, 1), NO_LEADER),
            ),
            {"cleanup.policy": "compact"},
        ),
        Topic("plain", IDS[2], (PartitionState((1,), (1,), 1),), {}),
    ],
    broker_configs={"": {"log.retention.ms": "1"}, "2": {"num.partitions": "3"}},
    group_configs={"billing": {"consumer.heartbeat.interval.ms": "500"}},
    client_quotas={'{"user": "ann"}': {"producer_byte_rate": "1024.0"}},
    acls=[AclBinding(2, "orders-", 4, "User:ann", "*", 3, 3), AclBinding(3, "g", 3, "User:*", "127.0.0.1", 3, 2)],
    scram_credentials={("ann", 1): ScramCredential(b"\x00salt", 4096, b"\xffstored", b"server")},
    feature_levels={"transaction.version": 2},
    features_epoch=7,
    next_producer_id=3000,
    deleted_topics={IDS[3]: "gone"},
    delegation_tokens={
        "token-1": DelegationToken(
            "token-1", Principal.user("ann"), Principal("", "bob:c"), (Principal.user("carol"),), 1000, 3000, 2000
        )
    },
)


def test_everything_comes_back_from_its_entries() -> None:
    assert stored_of(entries_of(STORED)) == STORED


def test_entries_are_lines_of_json() -> None:
    """The journal writes them so: tuples come back as lists, and no bytes may be among them."""
    written = {key: json.loads(json.dumps(value)) for key, value in entries_of(STORED).items()}
    assert {tuple(json.loads(json.dumps(key))): value for key, value in written.items()} == written
    assert stored_of(written) == STORED


def test_a_topic_has_an_entry_for_itself_for_each_partition_and_for_its_settings_if_it_has_any() -> None:
    orders, plain = STORED.topics
    assert [key[0] for key in topic_entries([orders])] == ["topic", "partition", "partition", "config"]
    assert [key[0] for key in topic_entries([plain])] == ["topic", "partition"]


def test_deleted_topics_are_found_among_other_keys() -> None:
    assert deleted_topics(entries_of(STORED)) == {IDS[3]: "gone"}


def test_of_topics_that_an_earlier_release_has_deleted_the_name_is_not_known() -> None:
    assert deleted_topics({deleted_topic_key(IDS[3]): True}) == {IDS[3]: ""}


@pytest.mark.parametrize("missing", [CLUSTER_ID, partition_key(IDS[1], 0)])
def test_entries_that_lack_one_are_refused(missing: tuple[str, ...]) -> None:
    entries = entries_of(STORED)
    del entries[missing]
    with pytest.raises((LookupError, ValueError, TypeError, AttributeError)):
        stored_of(entries)
