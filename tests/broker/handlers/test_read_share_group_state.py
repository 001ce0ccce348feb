"""ReadShareGroupState (KIP-932). The states themselves are tested in `tests/broker/share_state/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.protocol.errors import error_name
from kmini.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from support.broker.share_readers import ShareReaders, ask_about

Topic = ReadShareGroupStateRequest.Topic
EXAMPLE = ReadShareGroupStateRequest(
    group_id="readers",
    topics=[Topic(topic_id=bytes(15) + b"1", partitions=[Topic.Partition(partition=0, leader_epoch=0)])],
)


async def test_a_state_is_read_and_one_that_never_began_is_refused(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    await readers.initialize(start_offset=3)
    partition = (await ask_about(readers, EXAMPLE, "g")).results[0].partitions[0]
    assert (partition.error_code, partition.state_epoch, partition.start_offset) == (0, 1, 3)
    partition = (await ask_about(readers, EXAMPLE, "h")).results[0].partitions[0]
    assert error_name(partition.error_code) == "INVALID_REQUEST"
