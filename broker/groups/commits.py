"""What OffsetCommit and TxnOffsetCommit have in common: offsets are gathered first, and written together afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import OffsetMetadataTooLarge, UnknownServerError
from ...protocol.topics import TopicPartition
from ..api.error_mapping import kafka_error
from .committed_offsets import CommittedOffset
from .group_store import OffsetChanges

if TYPE_CHECKING:
    from ..broker import Broker


class Answer(Protocol):
    """What is answered for a partition."""

    error_code: int


class Commit:
    """The offsets of one request for partitions that there are, and the answers for these.

    All that may take long is done in `add`, so that nothing has to wait between the checks of the group and the write.
    """

    def __init__(self, broker: Broker, group_id: str) -> None:
        self._metadata_limit = broker.config.offset_metadata_max_bytes
        self._changes = broker.groups.store.changes(group_id)
        self._excess: UnknownServerError | None = None
        """Why the changes, being too many, cannot be written."""
        self._answers: list[Answer] = []

    def add(self, topic_partition: TopicPartition, committed: CommittedOffset, answer: Answer) -> None:
        """Commit this, unless its metadata is too large: `answer` is told. It is also told later what becomes of
        all."""
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
        """What is to be written. Raises UnknownServerError if that is more than a batch can take."""
        if self._excess is not None:
            raise self._excess
        return self._changes

    async def settle(self, write: Callable[[], Awaitable[None]], what: str) -> None:
        """Have `write` check who commits, and write the changes. Where it fails every answer says so; the log may call
        it `what`. Without partitions nobody is asked."""
        if not self._answers:
            return
        try:
            await write()
        except Exception as failure:
            error = kafka_error(failure, what)
            for answer in self._answers:
                answer.error_code = error.code
