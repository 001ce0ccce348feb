"""The small files of a log directory: meta.properties, partition.metadata, and the clean-shutdown marker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ..protocol.uuids import ZERO_UUID, format_uuid, parse_uuid
from .filenames import CLEAN_SHUTDOWN, META_PROPERTIES, PARTITION_METADATA, path_in
from .filesystem import FileSystem, write_atomically


class CorruptMetadata(Exception):
    """The file lacks an entry, or has a wrong one. The message names the file and the fault."""


class LaterMetadata(CorruptMetadata):
    """The file has a later version than this program writes: another program wrote it on purpose."""


class MetaProperties(NamedTuple):
    """The owner of a log directory. A broker must not start on the directory of another broker or cluster."""

    node_id: int
    cluster_id: str
    directory_id: bytes = ZERO_UUID
    """All zeros in a directory of a broker before Kafka 3.7."""


def read_partition_metadata(filesystem: FileSystem, directory: str) -> bytes | None:
    """Return the topic id of the log in this directory; None if the file is missing (the log is older than topic
    ids)."""
    path = path_in(directory, PARTITION_METADATA)
    try:
        data = filesystem.read(path)
    except FileNotFoundError:
        return None
    try:
        return _topic_id_in(data)
    except CorruptMetadata as error:
        raise CorruptMetadata(f"{path}: {error}") from error


@lru_cache(maxsize=1)  # the partitions of a topic are loaded one after the other, and have equal files
def _topic_id_in(data: bytes) -> bytes:
    entries = _entries(data, separator=":")
    if entries.get("version") != "0":
        raise CorruptMetadata(f"version {entries.get('version')!r} is unknown")
    topic_id = _uuid("topic_id", entries)
    if topic_id == ZERO_UUID:
        raise CorruptMetadata("the topic id is zero")
    return topic_id


def write_partition_metadata(filesystem: FileSystem, directory: str, topic_id: bytes) -> None:
    """Write the file; it is on the disk when this returns. Blocks."""
    write_atomically(filesystem, os.path.join(directory, PARTITION_METADATA), encode_partition_metadata(topic_id))


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Return the content of the file, for a new partition, whose files are not synced before its first flush."""
    if topic_id == ZERO_UUID:
        raise ValueError("a topic cannot have the zero id")
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def read_meta_properties(filesystem: FileSystem, log_directory: str) -> MetaProperties | None:
    """Return the entries; None if the file is missing, as in a new directory. Reads version 1, and version 0 of brokers
    that used ZooKeeper.

    Raises LaterMetadata or CorruptMetadata for other files.
    """
    path = os.path.join(log_directory, META_PROPERTIES)
    try:
        return _meta_properties_in(filesystem.read(path))
    except FileNotFoundError:
        return None
    except CorruptMetadata as error:
        raise type(error)(f"{path}: {error}") from error


def _meta_properties_in(data: bytes) -> MetaProperties:
    entries = _entries(data, separator="=")
    version = entries.get("version", "")
    if version.isascii() and version.isdigit() and int(version) > 1:
        raise LaterMetadata(f"version {version} is a later one than 1")
    if version not in ("0", "1"):
        raise CorruptMetadata(f"version {version!r} is unknown")
    node_id = entries.get("node.id" if version == "1" else "broker.id", "")
    if not (node_id.isascii() and node_id.isdigit()):
        raise CorruptMetadata(f"{node_id[:40]!r} is no node id")
    if version == "1" and not entries.get("cluster.id"):
        raise CorruptMetadata("cluster.id is missing")
    directory_id = _uuid("directory.id", entries) if "directory.id" in entries else ZERO_UUID
    return MetaProperties(int(node_id), entries.get("cluster.id", ""), directory_id)


def write_meta_properties(filesystem: FileSystem, log_directory: str, meta: MetaProperties) -> None:
    """Write the file; it is on the disk when this returns. Blocks."""
    lines = ["version=1", f"node.id={meta.node_id}", f"cluster.id={meta.cluster_id}"]
    if meta.directory_id != ZERO_UUID:
        lines.append(f"directory.id={format_uuid(meta.directory_id)}")
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(filesystem, os.path.join(log_directory, META_PROPERTIES), text.encode())


def write_clean_shutdown(filesystem: FileSystem, log_directory: str, broker_epoch: int = -1) -> None:
    """Write the marker that every log was flushed and closed: the last write of a shutdown. Kafka's controller accepts
    it for the broker's epoch (KIP-966); kmini has none."""
    text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    write_atomically(filesystem, os.path.join(log_directory, CLEAN_SHUTDOWN), text.encode())


def take_clean_shutdown(filesystem: FileSystem, log_directory: str) -> bool:
    """Return whether the last shutdown was clean. Removes the marker, durably, before any other write.

    The marker counts whatever its content: older brokers wrote it empty.
    """
    try:
        filesystem.remove(os.path.join(log_directory, CLEAN_SHUTDOWN))
    except FileNotFoundError:
        return False
    filesystem.sync_directory(log_directory)
    return True


def _entries(data: bytes, separator: str) -> Mapping[str, str]:
    """`key<separator>value` lines; blank lines and comments are skipped."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptMetadata("not text") from error
    entries = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise CorruptMetadata(f"line {number} has no {separator!r}")
        entries[key.strip()] = value.strip()
    return entries


def _uuid(key: str, entries: Mapping[str, str]) -> bytes:
    try:
        return parse_uuid(entries.get(key, ""))
    except ValueError as error:
        raise CorruptMetadata(f"{key} {entries.get(key)!r} is no id") from error
