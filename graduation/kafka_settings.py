"""Convert dynamic settings so that Apache Kafka can start with them.

A broker of Kafka refuses the whole metadata for one topic setting that is unknown or has an invalid value. Kafka's
topic settings are kmini's (`storage/log_config.py`) without the keys that begin with `kmini.`, and with larger smallest
segments: Kafka 4 requires 1 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..storage.config_key import OWN_PREFIX

MIN_SEGMENT_BYTES = 1024 * 1024
"""Bytes of the smallest segment that Kafka 4 allows."""

_SEGMENT_BYTES = ("segment.bytes", "log.segment.bytes")


class ChangedSetting(NamedTuple):
    """A setting that is changed or left out."""

    resource: str
    """`topic orders`, `broker 1`, `all brokers`, or the name of a file."""
    name: str
    value: str
    becomes: str | None
    """The new value; None: left out."""
    reason: str


def for_kafka(resource: str, settings: Mapping[str, str]) -> tuple[dict[str, str], list[ChangedSetting]]:
    """Convert the settings of a resource for Kafka; return them and the differences."""
    kept, changed = {}, []
    for name, value in settings.items():
        if name.startswith(OWN_PREFIX):
            changed.append(ChangedSetting(resource, name, value, None, "Apache Kafka does not have it"))
        elif name in _SEGMENT_BYTES and int(value) < MIN_SEGMENT_BYTES:
            kept[name] = str(MIN_SEGMENT_BYTES)
            changed.append(ChangedSetting(resource, name, value, kept[name], "Apache Kafka asks for at least 1 MiB"))
        else:
            kept[name] = value
    return kept, changed
