"""ReadShareGroupStateSummary (KIP-932). The states themselves are tested in `tests/broker/share_state/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from support.broker.share_readers import ShareReaders, ask_about

Topic = ReadShareGroupStateSummaryRequest.Topic
EXAMPLE = ReadShareGroupStateSummaryRequest(
    group_id="readers",
    topics=[Topic(topic_id=bytes(15) + b"1", partitions=[Topic.Partition(partition=0, leader_epoch=0)])],
)


async def test_a_summary_has_no_batches_and_needs_no_state(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    await readers.initialize(start_offset=3)
    partition = (await ask_about(readers, EXAMPLE, "g")).results[0].partitions[0]
    assert (partition.state_epoch, partition.start_offset, partition.delivery_complete_count) == (1, 3, 0)
    partition = (await ask_about(readers, EXAMPLE, "h")).results[0].partitions[0]
    assert (partition.error_code, partition.start_offset, partition.delivery_complete_count) == (0, -1, -1)
