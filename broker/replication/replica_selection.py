"""Which replica a consumer should read from: one in its own rack, if there is one that has what it asks for (KIP-392).

Of the leader, and the followers that are in sync and have the offset: those in the consumer's rack. The leader where it
is among them or there are none, else the follower with the most records; of equals, the one that caught up last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .partition import Partition, PartitionHost

LEADER = -1
"""In place of a follower's number: read on here."""


def preferred_replica(host: PartitionHost, partition: Partition, offset: int, rack: str) -> int:
    """The follower that a consumer in `rack` should read from `offset` on; LEADER for none."""
    if rack == host.config.current.broker_rack:
        return LEADER
    racks = {registered.node_id: registered.rack for registered in host.controller.brokers}
    near = [
        replica
        for replica in partition.replicas
        if racks.get(replica.node_id) == rack
        and replica.node_id in partition.state.isr
        and replica.log_start_offset <= offset <= replica.log_end_offset
    ]
    best = max(near, key=lambda one: (one.log_end_offset, one.caught_up_ms, one.node_id), default=None)
    return LEADER if best is None else best.node_id
