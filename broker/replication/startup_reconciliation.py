"""Bringing the folders of a log directory and the controller's database together, at start-up. The database is right.

A topic is in the database before its folders exist, and leaves the database before they go: a kill leaves folders of
deleted topics, folders without their files, and partitions without a folder.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID, random_uuid
from ...storage.log import PartitionLog
from ..controller.topic_plans import MAX_NEW_PARTITIONS
from ..controller.topics import log_config
from ..controller.topology import PartitionState, Topic
from ..coordinators import internal_topics
from .replica_manager import ReplicaManager

log = logging.getLogger("kmini.topics")


def reconcile(replica_manager: ReplicaManager) -> None:
    """Hold every replica that the database gives to this broker, and no other.

    Folders of deleted topics, of partitions that other brokers have now, and half-created ones of no topic go;
    partitions without a folder get one. A topic whose folders are there and that the database never had is entered into
    it, so that a log directory without its database still serves its records. A folder that contradicts the database is
    left alone and not served.
    """
    controller, logs = replica_manager.controller, replica_manager.logs
    kept = replica_manager.drop_deleted()
    unknown: dict[str, list[PartitionLog]] = {}
    for topic_partition, partition_log in list(logs.logs.items()):
        topic = controller.topic(topic_partition.topic)
        try:
            if topic is not None:
                if _is_stray(partition_log, topic, replica_manager.node_id):
                    replica_manager.drop(topic_partition)
            elif partition_log.topic_id == ZERO_UUID and not partition_log.size_bytes:
                logs.remove(topic_partition)
            elif topic_partition not in kept:
                unknown.setdefault(topic_partition.topic, []).append(partition_log)
        except (KafkaError, OSError) as error:  # the next start tries again
            log.error("the folder of %s, which has no place here, cannot be put away: %s", topic_partition, error)
    for name, topic_logs in unknown.items():
        _adopt(replica_manager, name, topic_logs)
    for topic in controller.topics.values():
        _host(replica_manager, topic)


def _is_stray(partition_log: PartitionLog, topic: Topic, node_id: int) -> bool:
    """Whether the partition was given to other brokers while this one was away; or is not the topic's, and holds
    nothing: a CreatePartitions failed on another broker, and the removal here was lost with the power."""
    number, topic_id = partition_log.topic_partition.partition, partition_log.topic_id
    exists = number < len(topic.partitions)
    if exists and node_id in topic.partitions[number].replicas:
        return False
    if exists and topic_id == topic.id:
        return True
    return not partition_log.size_bytes and topic_id in (topic.id, ZERO_UUID)


def _adopt(replica_manager: ReplicaManager, name: str, topic_logs: Sequence[PartitionLog]) -> None:
    """Enter a topic into the database from its folders, with a new leader epoch after the last of its logs."""
    if max(partition_log.topic_partition.partition for partition_log in topic_logs) >= MAX_NEW_PARTITIONS:
        log.warning("topic %s is not in the database, and its folders count too high: left alone", name)
        return
    topic_id = max(partition_log.topic_id for partition_log in topic_logs)  # any that is not zero
    epochs = {
        partition_log.topic_partition.partition: max(partition_log.leader_epochs.latest_epoch, 0)
        for partition_log in topic_logs
    }
    node_id, controller, config = (
        replica_manager.node_id,
        replica_manager.controller,
        replica_manager.config.current,
    )
    partitions = tuple(
        PartitionState((node_id,), (node_id,), node_id, epochs.get(number, 0) + 1) for number in range(max(epochs) + 1)
    )
    # The records of an internal topic must not fall to the retention of ordinary topics.
    shape = internal_topics.shape_of(name, config, len(controller.registered))
    configs = {} if shape is None else shape.configs
    topic = Topic(name, random_uuid() if topic_id == ZERO_UUID else topic_id, partitions, configs)
    if controller.topic_by_id(topic.id) is None:
        controller.create_topics([topic])
        for partition_log in topic_logs:  # without a topic, they were loaded with the defaults
            partition_log.config = log_config(topic, config.log_config)
        log.warning("took in topic %s, %d partitions: folders unknown to the database", name, len(partitions))


def _host(replica_manager: ReplicaManager, topic: Topic) -> None:
    """Hold the replicas of a topic that are this broker's. A replica that cannot be held is logged, and left."""
    config = log_config(topic, replica_manager.config.current.log_config)
    for number, state in enumerate(topic.partitions):
        if replica_manager.node_id in state.replicas:
            try:
                replica_manager.host(TopicPartition(topic.name, number), topic.id, config, state)
            except KafkaError as error:
                log.error("%s-%d cannot be held: %s", topic.name, number, error.message)
