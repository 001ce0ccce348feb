"""Controllers without brokers: in memory, with topics, and on the files of a killed process."""

from __future__ import annotations

import shutil
from pathlib import Path

from kmini.broker.controller.controller import (
    BrokerRegistration,
    Controller,
    Topic,
)
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


def open_in_memory(filesystem: MemoryFileSystem, data_dir: str = "/data") -> Controller:
    controller = Controller.open(data_dir, node_ids=[1], filesystem=filesystem)
    controller.register(BrokerRegistration(1))
    return controller


def make(controller: Controller, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Topic:
    topic = controller.new_topic(name, controller.assign(partitions, 1), configs or {})
    controller.create_topics([topic])
    return topic


def as_after_a_kill(controller: Controller, data_dir: Path) -> Controller:
    """A controller on the files as a killed process leaves them: copied while they are in use."""
    killed = data_dir.parent / f"{data_dir.name}-killed"
    shutil.copytree(data_dir, killed)
    return Controller.open(str(killed), node_ids=[1])
