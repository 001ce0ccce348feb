"""What holds in the brokers at every moment, and in the end: the reasons why clients get what they were promised.

A history that breaks one of these would lose or invent something if more went wrong, so a fault is found long before
chance has brought that about.
"""

from __future__ import annotations

from kmini.broker.local_cluster import LocalCluster
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from support.simulation.world import Violation, World


def check_now(world: World) -> None:
    """What holds at every moment. Raises Violation."""
    _check_replicas_in_sync(world)
    _check_high_watermarks(world)
    _check_leader_epochs(world)
    _check_deletions(world)


def _check_replicas_in_sync(world: World) -> None:
    """Each replica in sync has all that was acknowledged: it may lead next."""
    for partition, last in world.promises.last_acknowledged.items():
        offsets = world.cluster.replica_offsets(partition)
        for node_id in world.cluster.state(partition).isr:
            if node_id in offsets and offsets[node_id].log_end_offset <= last:
                raise Violation(
                    f"{partition}: broker {node_id} is in sync and ends at offset {offsets[node_id].log_end_offset}, "
                    f"and offset {last} was acknowledged"
                )


def _check_high_watermarks(world: World) -> None:
    """While fewer replicas are in sync than min.insync.replicas, no high watermark passes what so many replicas have
    (KIP-966). A broker that does not run may have it."""
    before, world.high_watermarks = world.high_watermarks, {}
    for partition in world.promises.partitions:
        state = world.cluster.state(partition)
        broker = world.cluster.brokers.get(state.leader)
        led = None if broker is None else broker.replica_manager.partitions.get(partition)
        if led is None or led.state != state:
            continue
        high_watermark = led.log.high_watermark
        world.high_watermarks[partition] = high_watermark
        if not led.is_under_min_isr or high_watermark <= before.get(partition, high_watermark):
            continue
        offsets = world.cluster.replica_offsets(partition)
        lacking = [one for one in state.replicas if one in offsets and offsets[one].log_end_offset < high_watermark]
        if len(state.replicas) - len(lacking) < led.log.config.min_insync_replicas:
            raise Violation(f"{partition}: high watermark {high_watermark} with {state}, and {lacking} have less")


def _check_leader_epochs(world: World) -> None:
    """No leader epoch begins beyond the end of a log: what was truncated takes its epochs along (KIP-101)."""
    for node_id, broker in world.cluster.brokers.items():
        for partition in world.promises.partitions:
            log = broker.logs.logs.get(partition)
            latest = None if log is None else log.leader_epochs.latest_entry
            if log is not None and latest is not None and latest.start_offset > log.log_end_offset:
                raise Violation(f"{partition}: on {node_id} {latest} is beyond the end {log.log_end_offset}")


def _check_deletions(world: World) -> None:
    """No follower that serves consumers has anything that is deleted (KIP-107, KIP-392)."""
    for partition, low in world.promises.low_watermark.items():
        serving = set()
        for replica in world.live_replicas(partition):
            followed = world.cluster.brokers[replica[0]].replica_manager.fetcher_manager.followed.get(partition)
            if followed is not None and followed.knows_log_start:
                serving.add(replica)
        world.check_deleted(partition, low, serving)


def check_whole(world: World, node_id: int) -> None:
    """No log of a broker that has started misses records between others, but for a compacted one. Raises Violation."""
    for partition in world.promises.partitions:
        log = world.cluster.brokers[node_id].logs.logs.get(partition)
        if log is None:
            continue
        offset = None
        for _, header in iter_batches(log_bytes(log)):
            if offset is not None and header.base_offset != offset:
                raise Violation(f"{partition}: on {node_id} offset {header.base_offset} follows {offset - 1}")
            offset = header.next_offset


def check_homes(cluster: LocalCluster) -> None:
    """A broker has the logs of its replicas, and no other. Raises Violation."""
    hosted = {node_id: set[TopicPartition]() for node_id in cluster.brokers}
    for topic in cluster.controller.topics.values():
        for number, state in enumerate(topic.partitions):
            for node_id in state.replicas:
                hosted[node_id].add(TopicPartition(topic.name, number))
    for node_id, broker in cluster.brokers.items():
        there = {*broker.logs.logs}
        if there != hosted[node_id]:
            raise Violation(
                f"{node_id} has logs that are not of its replicas, or misses some: {there ^ hosted[node_id]}"
            )


def log_bytes(log: PartitionLog) -> bytes:
    """The bytes of a log from its log start offset on, with all of the batch that holds that."""
    found, offset = bytearray(), log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, limit_offset=log.log_end_offset)
        whole = 0
        for position, header in iter_batches(piece):
            whole, offset = position + header.size, header.next_offset
        assert whole
        found += piece[:whole]
    return bytes(found)


def check_last_sequences(cluster: LocalCluster, partition: TopicPartition) -> None:
    """A replica has the last sequence of each producer that it knows in its log too: compaction leaves it (KIP-98).
    Raises Violation."""
    for node_id in cluster.state(partition).replicas:
        log = cluster.brokers[node_id].logs.logs[partition]
        there = {(header.producer_id, header.last_sequence) for _, header in iter_batches(log_bytes(log))}
        for entry in log.producers.entries():
            if entry.last_sequence >= 0 and (entry.producer_id, entry.last_sequence) not in there:
                raise Violation(f"{partition}: the log of {node_id} has not the last sequence of {entry}")
