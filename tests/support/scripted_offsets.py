"""Answers of scripted brokers to ListOffsets."""

from __future__ import annotations

from collections.abc import Callable

from kmini.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse


def offsets(*codes: int) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
    """Answers to ListOffsets with these error codes, one after the other, then with offset 7."""
    left = list(codes)

    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        code = left.pop(0) if left else 0
        Topic = ListOffsetsResponse.Topic
        return ListOffsetsResponse(
            topics=[
                Topic(
                    name=topic.name,
                    partitions=[
                        Topic.Partition(partition_index=p.partition_index, error_code=code, offset=7, leader_epoch=0)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer
