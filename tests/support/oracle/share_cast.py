"""A share group (KIP-932) whose members play a script to two servers.

The members' ids are the script's own, so both servers have the same. Topics have the script's names with the group's in
front, on both servers alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kmini.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kmini.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kmini.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kmini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kmini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.oracle.config_requests import GROUP, SET, change
from support.oracle.consumer_cast import JOINS, LEAVES, ConsumerCast
from support.transcript import Transcript


class ShareCast(ConsumerCast):
    """The members of one share group. Each is a name and what it was last told."""

    def _settle_metadata(self) -> None:
        settings = {"share.heartbeat.interval.ms": self._pace.heartbeat_ms}
        settings |= {"share.session.timeout.ms": self._pace.session_ms}
        settings |= {"share.assignment.interval.ms": self._interval_ms}
        pairs = [(name, SET, str(value)) for name, value in settings.items()]
        (answer,) = self.transcript.ask_quietly(change((GROUP, self.group, pairs)), 1).responses
        assert answer.error_code == 0, answer
        super()._settle_metadata()

    # --- heartbeats

    def beat(  # type: ignore[override]
        self,
        what: str,
        member: str,
        epoch: int | None = None,
        *,
        names: Collection[str] | None = None,
        changes: int = 0,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat, by default with the epoch that the member was last told, and note the answer; then wait
        until so many records have come since the last look, because states are initialized after the answer."""
        request = ShareGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": member,
                "member_epoch": self.epochs.get(member, JOINS) if epoch is None else epoch,
                "subscribed_topic_names": None if names is None else [self.full(name) for name in names],
                **fields,
            }
        )
        answer = self.wire.ask(request, 1)
        if answer.error_code == 0 and answer.member_epoch > 0:
            self.epochs[member] = answer.member_epoch
        self.note(what, answer)
        if changes:
            self.log.wait_for_records(changes)
        return answer

    def join(self, what: str, member: str, *names: str, **fields: Any) -> Any:
        return self.beat(what, member, JOINS, names=names, **fields)

    def leave(self, what: str, member: str, epoch: int = LEAVES, **fields: Any) -> Any:
        return self.beat(what, member, epoch, **fields)

    # --- other requests

    def _description(self, operations: bool = False) -> Any:
        return ShareGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=operations)

    def describe_offsets(self, what: str, topics: Mapping[str, Collection[int]] | None, version: int = 1) -> None:
        Group = DescribeShareGroupOffsetsRequest.Group
        asked = None
        if topics is not None:
            asked = [Group.Topic(topic_name=self.full(name), partitions=[*each]) for name, each in topics.items()]
        request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id=self.group, topics=asked)])
        self._noted(what, request, version)

    def alter_offsets(self, what: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        Topic = AlterShareGroupOffsetsRequest.Topic
        topics = [
            Topic(
                topic_name=self.full(name),
                partitions=[
                    Topic.Partition(partition_index=number, start_offset=offset) for number, offset in each.items()
                ],
            )
            for name, each in offsets.items()
        ]
        self._noted(what, AlterShareGroupOffsetsRequest(group_id=self.group, topics=topics), 0)

    def delete_offsets(self, what: str, *names: str) -> None:
        topics = [DeleteShareGroupOffsetsRequest.Topic(topic_name=self.full(name)) for name in names]
        self._noted(what, DeleteShareGroupOffsetsRequest(group_id=self.group, topics=topics), 0)


@contextmanager
def share_cast(transcript: Transcript, suffix: str = "", *, interval_ms: int = 0, **topics: int) -> Iterator[ShareCast]:
    """A group, and topics with so many partitions."""
    cast = ShareCast(transcript, suffix, interval_ms, topics)
    try:
        yield cast
    finally:
        cast.close()
