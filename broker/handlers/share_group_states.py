"""What the five requests about states of share partitions have in common: each partition has its own outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.errors import NONE
from ..api.error_mapping import kafka_error
from ..api.registry import Guard
from ..scheduler import Turn
from ..security.guarding import on_cluster
from ..share_state.persister import SharePartitionKey


async def answer(
    request: Any, response: Any, serve: Callable[[SharePartitionKey, Any], Awaitable[dict[str, Any] | None]]
) -> Any:
    """Serve a request partition by partition. `serve` is given the share partition and what is asked of it; it returns
    the fields of the answer beyond partition and error."""
    turn = Turn()
    results = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if turn.is_over:
                await turn.next()
            place = SharePartitionKey(request.group_id, topic.topic_id, asked.partition)
            try:
                fields = await serve(place, asked) or {}
                partitions.append(response.Result.Partition(partition=asked.partition, error_code=NONE, **fields))
            except Exception as failure:
                error = kafka_error(failure, f"the state of {place}")
                partitions.append(
                    response.Result.Partition(
                        partition=asked.partition, error_code=error.code, error_message=error.message
                    )
                )
        results.append(response.Result(topic_id=topic.topic_id, partitions=partitions))
    return response(results=results)


def brokers_only(response: Any) -> Guard:
    """The guard of requests that brokers send each other: without the permission each partition is refused."""

    def refused(request: Any, code: int) -> Any:
        return response(
            results=[
                response.Result(
                    topic_id=topic.topic_id,
                    partitions=[
                        response.Result.Partition(partition=asked.partition, error_code=code)
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return on_cluster(refused)
