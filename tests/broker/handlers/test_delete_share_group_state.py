"""DeleteShareGroupState (KIP-932). The states themselves are tested in `tests/broker/share_state/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from support.broker.share_readers import ShareReaders, ask_about

Topic = DeleteShareGroupStateRequest.Topic
EXAMPLE = DeleteShareGroupStateRequest(
    group_id="readers",
    topics=[Topic(topic_id=bytes(15) + b"1", partitions=[Topic.Partition(partition=0)])],
)


async def test_a_state_is_deleted_once_and_its_absence_is_no_error(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    await readers.initialize()
    for _ in range(2):
        partition = (await ask_about(readers, EXAMPLE, "g")).results[0].partitions[0]
        assert partition.error_code == 0
    assert readers.stored()[1:] == [None]
