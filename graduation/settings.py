"""What becomes of settings that were made while brokers ran: Apache Kafka must be able to start with them.

A broker of Kafka refuses the whole metadata for one topic setting that it does not know or whose value breaks its rule.
Its table of topic settings is kmini's (`storage/log_config.py`) but for the keys that begin with `kmini.`, and for the
smallest segments: Kafka 4 asks for 1 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..storage.config_key import OWN_PREFIX

MIN_SEGMENT_BYTES = 1024 * 1024

_SEGMENT_BYTES = ("segment.bytes", "log.segment.bytes")


class ChangedSetting(NamedTuple):
    """A setting that is not taken over as it was."""

    resource: str
    """`topic orders`, `broker 1`, `all brokers`, or the name of a file."""
    name: str
    value: str
    becomes: str | None
    """None: left out."""
    reason: str


def for_kafka(resource: str, settings: Mapping[str, str]) -> tuple[dict[str, str], list[ChangedSetting]]:
    """The settings of a resource as Kafka can have them, and what is different."""
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
