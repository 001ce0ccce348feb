"""What a broker does at intervals: retention, expiry of producer ids and delegation tokens, shrinking of the in-sync
replicas, closing of idle files. The tasks of the coordinators are in `coordination.py`.

A task skips the runs in which it can have no effect, so a test may move the clock by a month.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from ..protocol.errors import KafkaStorageError
from ..storage import retention
from .clock import Clock
from .log_cleaner import LogCleaner
from .log_maintenance import LogMaintenance
from .replication.partition import Partition
from .replication.replica_manager import ReplicaManager
from .scheduler import Periodic

log = logging.getLogger("kmini.broker")

IDLE_FILE_MS = 60_000
"""Milliseconds between two looks for idle files: a file that is neither read nor written from one look to the next
gives its descriptor back."""


class Housekeeping:
    """The periodic tasks of a broker. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        maintenance: LogMaintenance,
        cleaner: LogCleaner,
    ) -> None:
        self._config = replica_manager.config
        self._clock = replica_manager.clock
        self._logs = replica_manager.logs
        self._maintenance = maintenance
        self._cleaner = cleaner
        self._replica_manager = replica_manager
        self._tasks: list[Periodic] = []

    def start(self) -> None:
        """Begin to run the tasks."""
        self._tasks = [*self._log_tasks(), *self._liveness_tasks()]
        self._maintenance.ask_for_deletion()

    def stop(self) -> None:
        """Run no task any more."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _log_tasks(self) -> list[Periodic]:
        config = self._config.current
        every = partial(
            Periodic,
            self._clock,
            delay_ms=config.log_initial_task_delay_ms,
            paused_tasks=self._maintenance.paused_tasks,
        )
        tasks = [
            every(
                "retention",
                self.apply_retention,
                interval_ms=config.log_retention_check_interval_ms,
                next_effect_ms=self._next_retention_ms,
            ),
            every(
                "expiry of producer ids",
                self._expire_producers,
                interval_ms=config.producer_id_expiration_check_interval_ms,
                next_effect_ms=self._next_producer_expiry_ms,
            ),
        ]
        if config.delegation_token_secret_key:
            from .security import delegation_tokens  # most brokers have none

            controller = self._replica_manager.controller
            tasks.append(
                Periodic(
                    self._clock,
                    "expiry of delegation tokens",
                    self._expire_tokens,
                    interval_ms=config.delegation_token_expiry_check_interval_ms,
                    next_effect_ms=lambda: delegation_tokens.next_expiry_ms(controller.delegation_tokens),
                    paused_tasks=controller.paused_tasks,
                )
            )
        return tasks

    def _liveness_tasks(self) -> list[Periodic]:
        config = self._config.current
        return [
            Periodic(
                self._clock,
                "shrinking of the replicas in sync",
                self._replica_manager.shrink_isrs,
                interval_ms=max(config.replica_lag_time_max_ms // 2, 1),
                liveness=True,
                next_effect_ms=self._replica_manager.next_shrink_ms,
                paused_tasks=self._maintenance.paused_tasks,
            ),
            # By the time of this process, which holds the descriptors: no test can move it.
            Periodic(Clock(), "closing of idle files", self._close_idle_files, interval_ms=IDLE_FILE_MS),
        ]

    async def apply_retention(self) -> None:
        """Delete the segments that are too old, too many, or below the log start offset."""
        for partition in list(self._replica_manager.partitions.values()):
            if not self._cleaner.may_touch(partition.topic_partition):
                continue  # a pass reads its segments; the next round deletes them
            try:
                deleted = self._replica_manager.retain(partition)
            except KafkaStorageError as error:
                log.error("retention: %s", error)
                continue
            if deleted:
                await asyncio.sleep(0)

    def _next_retention_ms(self) -> int | None:
        times = (self._next_retention_of(partition) for partition in self._replica_manager.partitions.values())
        return min((time for time in times if time is not None), default=None)

    def _next_retention_of(self, partition: Partition) -> int | None:
        time_ms = retention.next_retention_ms(partition.log)
        move = self._clock.move_of(partition.topic_partition)
        if time_ms is None or move is None or next(iter(partition.log.segments)).created_ms <= move.began_ms:
            return time_ms
        return max(time_ms, move.ends_ms)

    async def _expire_producers(self) -> None:
        for partition_log in list(self._logs.logs.values()):
            partition_log.producers.expire(self._clock.now_ms())

    def _next_producer_expiry_ms(self) -> int | None:
        times = (partition_log.producers.next_expiry_ms() for partition_log in self._logs.logs.values())
        return min((time for time in times if time is not None), default=None)

    async def _expire_tokens(self) -> None:
        from .security.delegation_tokens import expired

        controller = self._replica_manager.controller
        controller.remove_delegation_tokens(expired(controller.delegation_tokens, self._clock.now_ms()))

    async def _close_idle_files(self) -> None:
        self._logs.filesystem.close_idle()
