"""Names of topics and partitions."""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidTopic

MAX_TOPIC_NAME_LENGTH = 249
"""Characters of a topic name at most: `<topic>-<partition>` with any suffix of Kafka fits a file name of 255 bytes."""

CONSUMER_OFFSETS = "__consumer_offsets"
"""The topic in which coordinators keep groups and committed offsets."""

TRANSACTION_STATE = "__transaction_state"
"""The topic in which coordinators keep transactions."""

SHARE_GROUP_STATE = "__share_group_state"
"""The topic in which coordinators keep what share groups have done with records."""

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""Topics in which the broker keeps state of its own."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartition(NamedTuple):
    """One partition of a topic. It equals the plain tuple, so either can be the key of a mapping."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopic, with the rule that it breaks, for a name that no topic may have.

    A name that keeps the rules is also safe as a part of a file name.
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
    """Whether clients may only read the topic: the broker alone writes to it and deletes from it."""
    return name in INTERNAL_TOPICS
