"""Following: a broker's replicas of partitions that others lead fetch from them, over the wire, as consumers do.

    follower                                            leader
    fetch: offset = log end, epoch of the last    --->  the follower has what is below that offset: the high watermark
           record, log start, leader epoch              may move, the ISR may grow, a deletion may be done
    append, then high watermark, then log start  <---   records, high watermark, log start; or: where the logs part

One fetcher for each leader, over one connection, with a fetch session (KIP-227). What goes wrong with one partition
delays that one (`replica.fetch.backoff.ms`), a lost connection all of them. A log that diverges from its leader's is
cut back to where they agree (KIP-101, KIP-595); one that the leader cannot continue begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.topics import TopicPartition
from ..clock import Clock
from ..controller.controller import Controller
from ..controller.peers import Peers
from ..controller.topology import NO_LEADER
from ..log_cleaner import LogCleaner
from ..log_maintenance import LogMaintenance
from ..settings.dynamic_config import DynamicBrokerConfig
from .partition import check_leader_epoch

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ...storage.log import PartitionLog
    from ..metrics import Metrics
    from .fetcher import Fetcher


class FollowedPartition:
    """A partition that this broker follows."""

    def __init__(self, log: PartitionLog, leader: int, leader_epoch: int) -> None:
        self.log = log
        self.topic_partition = log.topic_partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_served = True
        """Whether the broker still follows it, in this epoch: like that of `Partition`."""
        self.named: FetchRequest.Topic.Partition | None = None
        """As the session last named it to the leader; None before that."""
        self.knows_log_start = log.log_start_offset == log.log_end_offset
        """Whether its log start is known to be the leader's (KIP-107): the log is empty, or a leader has told it since
        it came back. Until then no consumer reads from it."""
        self.lag = 0
        """How many records it lacked below the leader's high watermark after its last fetch."""
        self.paused_until_ms = 0
        """After an error, by the clock of liveness."""

    def check_leader_epoch(self, epoch: int) -> None:
        """As of the `Partition` that a leader has: consumers may read here too (KIP-392)."""
        check_leader_epoch(epoch, self.leader_epoch)


class FetcherManager:
    """The partitions that one broker follows, and a fetcher for each of their leaders."""

    def __init__(
        self,
        config: DynamicBrokerConfig,
        clock: Clock,
        controller: Controller,
        peers: Peers,
        cleaner: LogCleaner,
        maintenance: LogMaintenance,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.controller = controller
        self.peers = peers
        self.cleaner = cleaner
        self.maintenance = maintenance
        self.metrics = metrics
        self.followed: dict[TopicPartition, FollowedPartition] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._is_running = False
        self.is_held = False
        """Whether it stands still, between `hold` and `release`."""
        self.max_fetch_version: int | None = None
        self.broker_epoch = controller.begin_broker_epoch(config.current.node_id)
        """That of this start, which the leaders are told."""

    def start(self) -> None:
        """Begin to fetch: the leaders can be reached from now on."""
        self._is_running = True
        for followed in self.followed.values():
            self._begin(followed)

    async def stop(self) -> None:
        """Fetch no more."""
        self._is_running = False
        await self._end_fetchers()
        for followed in self.followed.values():
            followed.is_served = False
        self.followed.clear()

    async def _end_fetchers(self) -> None:
        fetchers, self._fetchers = [*self._fetchers.values()], {}
        for fetcher in fetchers:
            fetcher.cancel()
        for fetcher in fetchers:
            await fetcher.stop()

    async def limit_fetch_version(self, version: int | None) -> None:
        """Fetch as a follower of an older release does, or again as this one. For tests of mixed clusters."""
        self.max_fetch_version = version
        await self.hang_up()

    async def hang_up(self, leader: int | None = None) -> None:
        """Break the connection to one leader, or all of them, if there is any."""
        for node_id, fetcher in list(self._fetchers.items()):
            if leader in (None, node_id):
                await fetcher.hang_up()

    async def hold(self) -> None:
        """Stand still until `release`, as a follower that lags does. For tests."""
        self.is_held = True
        await self._end_fetchers()

    def release(self) -> None:
        """Go on after `hold`."""
        self.is_held = False
        if self._is_running:
            self.start()

    def follow(
        self, partition_log: PartitionLog, leader: int, leader_epoch: int, *, knows_log_start: bool = False
    ) -> None:
        """Fetch a partition from this leader from now on; from none if it is NO_LEADER.

        A replica that `knows_log_start` is live, and has led the partition until now.
        """
        known = self.followed.get(partition_log.topic_partition)
        if known is not None and (known.log, known.leader, known.leader_epoch) == (partition_log, leader, leader_epoch):
            known.paused_until_ms = 0  # whatever went wrong may be over
            if leader in self._fetchers:
                self._fetchers[leader].retry_now()
            return
        self.unfollow(partition_log.topic_partition)
        followed = FollowedPartition(partition_log, leader, leader_epoch)
        followed.knows_log_start |= knows_log_start or (known is not None and known.knows_log_start)
        self.followed[followed.topic_partition] = followed
        self._begin(followed)

    def forget_log_starts(self) -> None:
        """Records may have been deleted while the broker did not count as live: serve no consumer from a followed
        partition until its leader has told where its log starts (KIP-107)."""
        for followed in self.followed.values():
            followed.knows_log_start = False

    def _begin(self, followed: FollowedPartition) -> None:
        if self._is_running and not self.is_held and followed.leader != NO_LEADER:
            if followed.leader not in self._fetchers:
                from .fetcher import Fetcher  # see there

                self._fetchers[followed.leader] = Fetcher(self, followed.leader)
            self._fetchers[followed.leader].add(followed)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch a partition no more, if it was."""
        followed = self.followed.pop(topic_partition, None)
        if followed is None:
            return
        followed.is_served = False
        fetcher = self._fetchers.get(followed.leader)
        if fetcher is not None:
            fetcher.remove(topic_partition)
