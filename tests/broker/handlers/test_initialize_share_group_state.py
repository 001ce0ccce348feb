"""InitializeShareGroupState (KIP-932). The states themselves are tested in `tests/broker/share_state/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from support.broker.share_readers import ShareReaders

Topic = InitializeShareGroupStateRequest.Topic
EXAMPLE = InitializeShareGroupStateRequest(
    group_id="readers",
    topics=[Topic(topic_id=bytes(15) + b"1", partitions=[Topic.Partition(partition=0, state_epoch=1, start_offset=0)])],
)


async def test_a_state_begins_anew_at_a_later_epoch_only(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    assert await readers.initialize(state_epoch=2) == "NONE"
    assert await readers.initialize(state_epoch=1) == "FENCED_STATE_EPOCH"
