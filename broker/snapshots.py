"""Snapshots: what brokers hold, saved in a directory, and brokers as they were when it was saved.

    DATA_DIR/snapshots/NAME/
        snapshot.json       the format, of which brokers it is, and how far the clock was ahead
        kmini.db            the controller's database
        broker-1/           the log directory of a broker, as a clean shutdown leaves it

Whole segments are linked, so a snapshot of a gigabyte takes no time and no room (`storage/log_snapshots.py`). To
restore one is a reset that ends with its data in the place of none (`reset.py`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import AnswerError, InvalidArgument
from ..storage import log_snapshots
from ..storage.filenames import DATABASE, broker_directory
from ..storage.filesystem import write_atomically
from .clock import MovableClock
from .scheduler import in_thread

if TYPE_CHECKING:
    from ..storage.background_work import BackgroundWork
    from .broker import BrokerServer

FORMAT = 1
"""The format of a snapshot. Another one is refused."""

_FOLDER = "snapshots"
_MANIFEST = "snapshot.json"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
_ROUNDS = 20
"""Times that the logs are sealed before a snapshot is given up, because a program in this process keeps writing."""


class SnapshotError(AnswerError):
    """A snapshot cannot be taken or restored; the message says why."""


class Snapshot(NamedTuple):
    """What brokers held at one moment."""

    name: str
    path: str
    """Its directory, which may be copied to other machines."""


class Saved(NamedTuple):
    """A snapshot that can be restored."""

    path: str
    clock_ahead_ms: int

    @property
    def database(self) -> str:
        return os.path.join(self.path, DATABASE)

    def logs_of(self, node_id: int) -> str:
        """The directory with the logs of a broker."""
        return os.path.join(self.path, broker_directory(node_id))


def directory_of(data_dir: str, name: str | None) -> str:
    """The directory of a snapshot that is taken; without a name the next number is free. Raises ValueError for a name
    that is none for a directory."""
    folder = os.path.join(data_dir, _FOLDER)
    if name is None:
        number = 1
        while os.path.exists(os.path.join(folder, f"snapshot-{number}")):
            number += 1
        name = f"snapshot-{number}"
    check_name("name", name)
    return os.path.join(folder, name)


def check_name(argument: str, name: str) -> None:
    """Raise ValueError for a name that is none for a directory."""
    if not re.fullmatch(_NAME, name):
        raise InvalidArgument(
            f"{argument}={name!r}: must be letters, digits, dots, dashes and underscores, at most 100"
        )


def names(data_dir: str) -> list[str]:
    """The names of the snapshots in a data directory, sorted."""
    folder = os.path.join(data_dir, _FOLDER)
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def check_exists(data_dir: str, name: str) -> None:
    """Raise SnapshotError if the data directory has no snapshot of this name."""
    if name not in names(data_dir):
        raise _no_such_snapshot(data_dir, name)


def delete(data_dir: str, name: str) -> None:
    """Delete a snapshot. Raises SnapshotError if there is none of this name, and OSError."""
    check_exists(data_dir, name)
    import shutil  # start-up time counts

    shutil.rmtree(os.path.join(data_dir, _FOLDER, name))


def find(data_dir: str, snapshot: Snapshot | str | os.PathLike[str], node_ids: Sequence[int]) -> Saved:
    """A snapshot of brokers of these numbers: one of `data_dir` by its name, or any by its path. Raises SnapshotError
    if it cannot be restored."""
    given = snapshot.path if isinstance(snapshot, Snapshot) else os.fspath(snapshot)
    named = os.path.join(data_dir, _FOLDER, given)
    path = named if os.path.isdir(named) else given
    try:
        with open(os.path.join(path, _MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        found, brokers, ahead_ms = int(manifest["format"]), list(manifest["brokers"]), int(manifest["clock_ahead_ms"])
    except FileNotFoundError:
        raise _no_such_snapshot(data_dir, given) from None
    except (ValueError, TypeError, KeyError) as error:
        raise SnapshotError(f"{path} is no snapshot, or damaged: {_MANIFEST} cannot be read") from error
    if found != FORMAT:
        raise SnapshotError(
            f"the snapshot {path} has format {found}, and this kmini reads format {FORMAT}: take it anew"
        )
    if brokers != sorted(node_ids):
        raise SnapshotError(f"the snapshot {path} is of the brokers {brokers}, and these are {sorted(node_ids)}")
    return Saved(path, ahead_ms)


def _no_such_snapshot(data_dir: str, name: str) -> SnapshotError:
    return SnapshotError(f"there is no snapshot {name}; there are: {', '.join(names(data_dir)) or 'none'}")


async def take(brokers: Sequence[BrokerServer], data_dir: str, name: str | None) -> Snapshot:
    """Save what these brokers hold, which are all of their cluster. No request is served meanwhile. A snapshot of the
    same name is replaced. Raises SnapshotError, ValueError for a name, KafkaStorageError and OSError."""
    path = directory_of(data_dir, name)
    paused = [broker.node_id for broker in brokers if broker.server.is_suspended]
    if paused:
        raise SnapshotError(f"broker {paused[0]} is paused: reconnect it before a snapshot")
    for broker in brokers:
        broker.server.is_suspended = True
    try:
        for _ in range(_ROUNDS):
            for broker in brokers:
                await _seal(broker)
            if all(log_snapshots.is_sealed(broker.logs) for broker in brokers):
                _save(brokers, path)
                return Snapshot(os.path.basename(path), path)
        raise SnapshotError("records keep arriving from this process: take the snapshot when it has written them")
    finally:
        for broker in brokers:
            broker.server.resume()


async def _seal(broker: BrokerServer) -> None:
    """Roll every log, and have the disk get what is sealed."""
    unsealed = [log for log in broker.logs.logs.values() if not log_snapshots.is_log_sealed(log)]
    for log in unsealed:
        log.roll(broker.clock.now_ms())
    await broker.maintenance.finish()
    await in_thread(
        partial(_run, work := [*broker.logs.take_background_work(), *(log.flush_work() for log in unsealed)])
    )
    for piece in work:
        piece.finish()


def _run(work: Sequence[BackgroundWork]) -> None:
    for piece in work:
        piece.run()


def _save(brokers: Sequence[BrokerServer], path: str) -> None:
    """Write a snapshot, in one turn of the loop, so that nothing changes meanwhile."""
    filesystem = brokers[0].logs.filesystem
    aside = f"{path}.new"
    filesystem.remove_tree(aside)
    filesystem.make_directory(aside)
    brokers[0].controller.save(filesystem, os.path.join(aside, DATABASE))
    for broker in brokers:
        log_snapshots.save(broker.logs, os.path.join(aside, broker_directory(broker.node_id)))
    clock = brokers[0].clock
    manifest = {
        "format": FORMAT,
        "brokers": sorted(broker.node_id for broker in brokers),
        "clock_ahead_ms": clock.ahead_ms if isinstance(clock, MovableClock) else 0,
    }
    write_atomically(filesystem, os.path.join(aside, _MANIFEST), json.dumps(manifest).encode())
    filesystem.remove_tree(path)
    filesystem.rename(aside, path)
