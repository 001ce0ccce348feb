"""Settings in the client: the broker that gets each request, and the meaning of answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kmini.client import ConfigResource
from kmini.protocol.errors import BrokerNotAvailable, InvalidConfig, NotController, UnknownTopicOrPartition
from kmini.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
)

TOPIC = ConfigResource.topic("t")


def alters(*codes: int) -> Callable[[IncrementalAlterConfigsRequest], IncrementalAlterConfigsResponse]:
    """Answers with these codes, one after the other, the last for ever."""
    left = list(codes)
    Resource = IncrementalAlterConfigsResponse.Resource

    def answer(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        code = left.pop(0) if len(left) > 1 else left[0]
        (asked,) = request.resources
        return IncrementalAlterConfigsResponse(
            responses=[
                Resource(
                    error_code=code,
                    error_message="because" if code else None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                )
            ]
        )

    return answer


def describes(code: int = 0, *configs: DescribeConfigsResponse.Config):
    Resource = DescribeConfigsResponse.Resource
    return lambda request: DescribeConfigsResponse(
        results=[
            Resource(
                error_code=code,
                resource_type=request.resources[0].resource_type,
                resource_name=request.resources[0].resource_name,
                configs=list(configs),
            )
        ]
    )


async def test_values_come_by_name_with_their_source(cluster, client) -> None:
    Config = DescribeConfigsResponse.Config
    cluster[1].answers[DescribeConfigsRequest] = describes(
        0,
        Config(name="retention.ms", value="5", config_source=1),
        Config(name="password", value=None, config_source=4, is_sensitive=True, read_only=True),
    )
    entries = await client.describe_configs(TOPIC)
    assert [tuple(entry) for entry in entries] == [
        ("password", None, "static-broker", True, True),
        ("retention.ms", "5", "dynamic-topic", False, False),
    ]


async def test_a_missing_topic_is_an_error_at_once(cluster, client) -> None:
    cluster[1].answers[DescribeConfigsRequest] = describes(UnknownTopicOrPartition.code)
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic t"):
        await client.describe_configs(TOPIC)
    assert len(cluster[1].asked(DescribeConfigsRequest)) == 1


async def test_what_is_a_brokers_own_is_asked_of_that_broker(cluster, client) -> None:
    cluster[3].answers[DescribeConfigsRequest] = describes()
    cluster[3].answers[IncrementalAlterConfigsRequest] = alters(0)
    assert await client.describe_configs(ConfigResource.broker(3)) == []
    assert await client.alter_configs({ConfigResource.broker(3): {"a": "b"}}) == {ConfigResource.broker(3): None}
    assert cluster[3].asked(DescribeConfigsRequest)[0].resources[0].resource_name == "3"


async def test_the_default_of_all_brokers_is_the_controllers(cluster, client) -> None:
    cluster[1].answers[IncrementalAlterConfigsRequest] = alters(0)
    await client.alter_configs({ConfigResource.broker(None): {"a": "b"}}, validate_only=True)
    (request,) = cluster[1].asked(IncrementalAlterConfigsRequest)
    assert (request.resources[0].resource_name, request.validate_only) == ("", True)


async def test_a_missing_broker_is_an_error_at_once(cluster, client) -> None:
    with pytest.raises(BrokerNotAvailable, match="there is no broker 7"):
        await client.describe_configs(ConfigResource.broker(7))
    assert cluster.metadata_asked == 1


async def test_settings_are_set_and_taken_back_and_each_resource_has_its_own_outcome(cluster, client) -> None:
    cluster[1].answers[IncrementalAlterConfigsRequest] = alters(0, InvalidConfig.code)
    other = ConfigResource.topic("other")
    outcomes = await client.alter_configs({TOPIC: {"a": "b", "c": None}, other: {"d": "e"}})
    assert outcomes[TOPIC] is None
    assert isinstance(outcomes[other], InvalidConfig)
    first, _ = cluster[1].asked(IncrementalAlterConfigsRequest)
    assert [(c.name, c.config_operation, c.value) for c in first.resources[0].configs] == [
        ("a", 0, "b"),
        ("c", 1, None),
    ]


async def test_a_controller_that_is_none_any_more_is_looked_for_again(cluster, client) -> None:
    cluster[1].answers[IncrementalAlterConfigsRequest] = alters(NotController.code, 0)
    assert await client.alter_configs({TOPIC: {"a": "b"}}) == {TOPIC: None}
    assert len(cluster[1].asked(MetadataRequest)) == 2
