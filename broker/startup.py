"""Opening what a broker has on its disk: the controller's database, and the logs."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from ..storage import filenames
from ..storage.filesystem import FileSystem
from ..storage.log_manager import LogManager
from .clock import Clock
from .controller import topics
from .controller.controller import Controller
from .scheduler import in_thread
from .settings.broker_config import BrokerConfig


def open_controller(config: BrokerConfig, data_dir: str, filesystem: FileSystem, cluster_id: str) -> Controller:
    """The controller of a broker by itself. Raises what `Controller.open` does, and KafkaStorageError."""
    controller = Controller.open(data_dir, node_ids=[config.node_id], cluster_id=cluster_id, filesystem=filesystem)
    try:
        controller.begin_leader_epochs(controller.node_ids)
    except BaseException:
        controller.close()
        raise
    return controller


async def recover_logs(
    config: BrokerConfig, data_dir: str, filesystem: FileSystem, controller: Controller, clock: Clock
) -> LogManager:
    """Open the logs: in a thread, except in a new directory, where nothing can be recovered. If this is cancelled
    meanwhile, it closes them before it ends: a thread cannot be stopped."""
    directory = os.path.join(data_dir, filenames.broker_directory(config.node_id))

    def open_logs() -> LogManager:
        return LogManager.open(
            filesystem,
            directory,
            node_id=config.node_id,
            cluster_id=controller.cluster_id,
            config_of=lambda topic: topics.log_config(controller.topic(topic), config.log_config),
            now_ms=clock.now_ms,
            recovery_threads=config.num_recovery_threads_per_data_dir,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )

    if not filesystem.is_directory(directory):
        return open_logs()
    opening = asyncio.ensure_future(in_thread(open_logs))
    try:
        await asyncio.wait([opening])
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        if opening.exception() is None:
            await in_thread(partial(opening.result().close, clean=False))
        raise
    return opening.result()
