"""The common part of OffsetCommit and TxnOffsetCommit: a request's offsets are gathered, then written as one batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ...protocol.errors import OffsetMetadataTooLarge, UnknownServerError
from ...protocol.topics import TopicPartition
from ..api.error_mapping import kafka_error
from .committed_offsets import CommittedOffset
from .group_store import GroupStore, OffsetChanges


class Answer(Protocol):
    """The answer for one partition."""

    error_code: int


class Commit:
    """The offsets of one request for existing partitions, and the answers for these.

    `add` does everything that may take long, so that the write follows the checks of the group without a wait.
    """

    def __init__(self, store: GroupStore, group_id: str) -> None:
        self._metadata_limit = store.max_metadata_characters
        self._changes = store.changes(group_id)
        self._excess: UnknownServerError | None = None
        """The error if the changes are more than a batch can take."""
        self._answers: list[Answer] = []

    def add(self, topic_partition: TopicPartition, committed: CommittedOffset, answer: Answer) -> None:
        """Add an offset, unless its metadata is too large. `answer` gets that error here, and that of the write
        later."""
        self._answers.append(answer)
        if len(committed.metadata) > self._metadata_limit:
            answer.error_code = OffsetMetadataTooLarge.code
        elif self._excess is None:
            try:
                self._changes.set(topic_partition, committed)
            except UnknownServerError as error:
                self._excess = error

    @property
    def changes(self) -> OffsetChanges:
        """The changes to be written. Raises UnknownServerError if they are more than a batch can take."""
        if self._excess is not None:
            raise self._excess
        return self._changes

    async def settle(self, write: Callable[[], Awaitable[None]], what: str) -> None:
        """Run `write`, which checks the member and writes the changes; its error goes into every answer. Without
        answers `write` is not run. The log names an unexpected failure `what`."""
        if not self._answers:
            return
        try:
            await write()
        except Exception as failure:
            error = kafka_error(failure, what)
            for answer in self._answers:
                answer.error_code = error.code
