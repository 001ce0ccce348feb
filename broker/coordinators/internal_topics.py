"""The internal topics, in which coordinators store their state: partitions, replicas and configs.

FindCoordinator, or a request for the topic by name, creates them. Otherwise they are like any topic, as in Apache
Kafka: they are listed, described, read, altered and deleted. Only appends of clients require the client id
`__admin_client` (`handlers/produce.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from ..settings.broker_config import BrokerConfig


class Shape(NamedTuple):
    """The arguments with which a topic is created."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


def shape_of(name: str, config: BrokerConfig, live_brokers: int) -> Shape | None:
    """The shape of the internal topic `name`; None for any other topic.

    Replicas and `min.insync.replicas` are capped at the number of brokers, so that a single broker needs no settings.
    `live_brokers` counts as 1 at least: a starting broker has not registered yet.
    """
    brokers = max(live_brokers, 1)
    if name == CONSUMER_OFFSETS:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        replicas = min(config.offsets_topic_replication_factor, brokers)
        if replicas > 1:
            configs["min.insync.replicas"] = "2"
        return Shape(config.offsets_topic_num_partitions, replicas, configs)
    if name == TRANSACTION_STATE:
        replicas = min(config.transaction_state_log_replication_factor, brokers)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
        }
        return Shape(config.transaction_state_log_num_partitions, replicas, configs)
    if name == SHARE_GROUP_STATE:
        replicas = min(config.share_coordinator_state_topic_replication_factor, brokers)
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "retention.ms": "-1",
            "min.insync.replicas": str(min(config.share_coordinator_state_topic_min_isr, replicas)),
        }
        return Shape(config.share_coordinator_state_topic_num_partitions, replicas, configs)
    return None
