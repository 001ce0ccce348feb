"""Topics from outside: made and deleted at the controller, each with its own outcome."""

from __future__ import annotations

from kmini.client import NewTopic
from kmini.protocol.errors import (
    NotController,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kmini.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


async def test_topics_are_created_and_deleted_at_the_controller(cluster, client) -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        codes = {"a": 0, "b": TopicAlreadyExists.code}
        return CreateTopicsResponse(
            topics=[CreateTopicsResponse.Topic(name=t.name, error_code=codes[t.name]) for t in request.topics]
        )

    cluster[1].answers[CreateTopicsRequest] = create
    cluster[1].answers[DeleteTopicsRequest] = lambda request: DeleteTopicsResponse(
        responses=[DeleteTopicsResponse.Topic(name=topic.name) for topic in request.topics]
    )
    outcomes = await client.create_topics({"a": NewTopic(3, configs={"cleanup.policy": "compact"}), "b": NewTopic()})
    assert outcomes["a"] is None
    assert isinstance(outcomes["b"], TopicAlreadyExists)
    (request,) = cluster[1].asked(CreateTopicsRequest)
    assert [(topic.num_partitions, topic.replication_factor) for topic in request.topics] == [(3, -1), (-1, -1)]
    assert [(config.name, config.value) for config in request.topics[0].configs] == [("cleanup.policy", "compact")]
    assert await client.delete_topics(["a"]) == {"a": None}


async def test_after_not_controller_the_controller_is_looked_up_again(cluster, client) -> None:
    codes = [NotController.code, 0]
    cluster[1].answers[CreateTopicsRequest] = lambda request: CreateTopicsResponse(
        topics=[CreateTopicsResponse.Topic(name="a", error_code=codes.pop(0))]
    )
    assert await client.create_topics({"a": NewTopic()}) == {"a": None}
    assert not codes


async def test_partitions_are_asked_of_the_controller_with_an_outcome_each(cluster, client) -> None:
    Topic = CreatePartitionsResponse.Topic
    cluster[1].answers[CreatePartitionsRequest] = lambda request: CreatePartitionsResponse(
        results=[Topic(name=topic.name, error_code=3 if topic.name == "nowhere" else 0) for topic in request.topics]
    )
    outcomes = await client.create_partitions({"t": 3, "nowhere": 1}, validate_only=True)
    assert outcomes["t"] is None
    assert isinstance(outcomes["nowhere"], UnknownTopicOrPartition)
    (request,) = cluster[1].asked(CreatePartitionsRequest)
    assert (request.topics[0].count, request.topics[0].assignments, request.validate_only) == (3, None, True)
