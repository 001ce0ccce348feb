"""WriteShareGroupState (KIP-932). The states themselves are tested in `tests/broker/share_state/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from support.broker.share_readers import ShareReaders, ask_about

Topic = WriteShareGroupStateRequest.Topic
EXAMPLE = WriteShareGroupStateRequest(
    group_id="readers",
    topics=[
        Topic(
            topic_id=bytes(15) + b"1",
            partitions=[Topic.Partition(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[])],
        )
    ],
)


async def test_what_a_leader_writes_is_stored(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    await readers.initialize()
    partition = (await ask_about(readers, EXAMPLE, "g")).results[0].partitions[0]
    assert (partition.error_code, partition.error_message) == (0, None)
    assert readers.updates()[-1] == (0, -1, [])
