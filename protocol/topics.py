"""Names of topics and partitions."""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidTopic

MAX_TOPIC_NAME_LENGTH = 249
"""So that `<topic>-<partition>` with every suffix that Kafka adds still is a file name of at most 255 bytes."""

CONSUMER_OFFSETS = "__consumer_offsets"
"""What groups are and what they have committed."""

TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
"""Topics in which the broker keeps state of its own."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartition(NamedTuple):
    """One partition of a topic; equal to the plain tuple, so that either can be the key of a mapping."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopic, saying which rule `name` breaks, unless a topic may be called so.

    The rule is also what makes a topic's name safe as a part of a file name.
    """
    if not name:
        raise InvalidTopic("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopic(f"the topic name cannot be {name!r}")
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopic(f"the topic name has {len(name)} characters, at most {MAX_TOPIC_NAME_LENGTH} are allowed")
    if not _LEGAL.issuperset(name):
        raise InvalidTopic(f"the topic name {name!r} may hold ASCII letters, digits, '.', '_' and '-' only")


def is_internal(name: str) -> bool:
    """Whether the topic is the broker's own: clients may read it, and neither write to it nor delete from it."""
    return name in INTERNAL_TOPICS
