"""The topics in which the broker keeps state of its own, and what they are made with.

They come to be when somebody asks for a coordinator, or for the topic itself by name. Everything else is as with any
topic, as in Apache Kafka: they are listed, described, read, altered and deleted like others. Only writing to them takes
the client id `__admin_client` (handlers/produce.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from ..broker import Broker


class Shape(NamedTuple):
    """What a topic is created with."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


def shape_of(broker: Broker, name: str) -> Shape | None:
    """The shape of the internal topic `name`; None for every other.

    Replicas and the in-sync minimum are capped at the number of brokers, so that one broker needs no settings. This
    broker counts before it has registered, as at a start that finds folders without a database.
    """
    config, brokers = broker.config, max(len(broker.controller.brokers), 1)
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
    return None
