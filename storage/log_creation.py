"""The log of a new partition. (The log of a partition that has files: recovery.py.)"""

from __future__ import annotations

from ..protocol.topics import TopicPartition
from .flush import DiskState
from .leader_epochs import LeaderEpochs
from .log import PartitionLog
from .log_config import LogConfig
from .log_environment import LogEnvironment
from .producers.producer_state import ProducerStates
from .segment import Segment
from .segments import Segments


def create_log(
    environment: LogEnvironment, directory: str, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig
) -> PartitionLog:
    """Create the empty log of a new partition in its directory, which exists. OSError if the disk refuses."""
    filesystem, now_ms = environment.filesystem, environment.now_ms
    segment = Segment(filesystem, directory, 0, config, now_ms(), create=True)
    return PartitionLog(
        environment,
        directory,
        topic_partition,
        topic_id,
        config,
        segments=Segments(filesystem, environment.deletions, directory, [segment]),
        leader_epochs=LeaderEpochs(),
        producers=ProducerStates(filesystem, directory, expiration_ms=environment.producer_expiration_ms),
        log_start_offset=0,
        log_end_offset=0,
        disk=DiskState(filesystem, directory, now_ms),
    )
