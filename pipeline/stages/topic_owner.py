"""One pipeline purges a topic: its owner, which is written where every pipeline of the cluster sees it.

Two pipelines that read a topic with checkpoints of their own would delete each other's records. So the owner of a
purged topic is the metadata of an offset: that of the topic's partition 0, committed by the group `OWNERS_GROUP`. Kafka
keeps it for `offsets.retention.minutes` (7 days) after the last commit.
"""

from __future__ import annotations

import json
import logging
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from ..admin import AdminError
from .locations import HAS_SCHEME

log = logging.getLogger("kmini.pipeline")

OWNERS_GROUP = "kmini.pipelines"
NOT_ALLOWED = ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")
COMMIT_EVERY_S = 6 * 3600.0
"""Seconds after which a running pipeline commits again that it owns its topics."""


class TopicOwnedError(Exception):
    """Another pipeline purges a topic."""


class KeepsMetadata(Protocol):
    """The part of `Admin` that owners need."""

    def offset_metadata(self, group: str, topics: Iterable[str]) -> dict[str, str]: ...

    def commit_metadata(self, group: str, metadata: Mapping[str, str]) -> None: ...


@dataclass(frozen=True)
class Owner:
    """A pipeline with its checkpoints."""

    id: str
    """An id that is in every checkpoint of the pipeline."""
    pipeline: str
    checkpoints: str
    """The folder of the checkpoints: a path on `host`, or a URI."""
    host: str = ""

    @classmethod
    def of(cls, pipeline: str, checkpoints: str, known_ids: Iterable[str]) -> Owner:
        """The owner that a pipeline is; its id is the first known one, or a new one."""
        host = "" if HAS_SCHEME.match(checkpoints) else socket.gethostname()
        return cls(next(iter(known_ids), "") or uuid.uuid4().hex, pipeline, checkpoints, host)

    @classmethod
    def read(cls, text: str) -> Owner | None:
        """The owner in an offset's metadata; None for another text. librdkafka writes a zero byte after the text, and
        leaves it out when it reads."""
        try:
            return cls(**json.loads(text.rstrip("\0")))
        except (TypeError, ValueError):
            return None

    def is_same(self, other: Owner) -> bool:
        """Whether both have the same checkpoints. Those that are in the place of others replace them, as after they
        were deleted to begin anew."""
        return self.id == other.id or (self.checkpoints, self.host) == (other.checkpoints, other.host)

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} (checkpoints {self.checkpoints}{f' on {self.host}' if self.host else ''})"


def read_owner(admin: KeepsMetadata, topic: str) -> Owner | None:
    """The owner of a topic; None if it has none."""
    return Owner.read(admin.offset_metadata(OWNERS_GROUP, [topic]).get(topic, ""))


class TopicOwnership:
    """What a pipeline knows of the owners of its purged topics, and writes.

    A cluster that does not let this pipeline read or write offsets of `OWNERS_GROUP` protects nothing: one line of the
    log says so.
    """

    def __init__(
        self, admin: KeepsMetadata, owner: Owner, topics: Iterable[str], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._owner = owner
        self._topics = [*topics]
        self._now = now
        self._committed_at: dict[str, float] = {}
        self._is_kept = True

    def claim(self, *, takes_over: bool = False) -> None:
        """Become the owner of the topics. Raises `TopicOwnedError` for the first one that has another owner, unless
        this pipeline `takes_over`."""
        for topic in self._topics:
            found = self._found(topic)
            if found is None or found.is_same(self._owner):
                continue
            if not takes_over:
                raise TopicOwnedError(
                    f"topic {topic!r} is purged by {found}, which would lose records to {self._owner}: "
                    "let one of them read topics of its own, or end the other one and take its topics over "
                    "(--take-over, take_over=True)"
                )
            log.warning("topic %s is taken over from %s", topic, found)
        self._commit(self._topics)

    def other_owner(self, topic: str) -> str:
        """The pipeline that owns a topic and is not this one, in words; empty if there is none. Commits again that this
        one is the owner, where that was lost or is long ago."""
        found = self._found(topic)
        if found is not None and not found.is_same(self._owner):
            return str(found)
        if found is None or self._now() - self._committed_at.get(topic, 0.0) > COMMIT_EVERY_S:
            self._commit([topic])
        return ""

    def _found(self, topic: str) -> Owner | None:
        if not self._is_kept:
            return None
        try:
            return read_owner(self._admin, topic)
        except AdminError as error:
            self._note_refusal(error)
            return None

    def _commit(self, topics: Sequence[str]) -> None:
        if self._is_kept and topics:
            try:
                self._admin.commit_metadata(OWNERS_GROUP, dict.fromkeys(topics, json.dumps(asdict(self._owner))))
            except AdminError as error:
                self._note_refusal(error)
            self._committed_at |= dict.fromkeys(topics, self._now())

    def _note_refusal(self, error: AdminError) -> None:
        """Go on without owners where they cannot be kept; an error of another kind may pass."""
        if error.name in NOT_ALLOWED:
            self._is_kept = False
            log.warning("no other pipeline is kept from purging the topics of this one: %s", error)
        else:
            raise error
