"""DescribeConfigs, versions 0 to 4: the settings of topics and of this broker, with their sources (KIP-226).

Everything in the two tables is told, with type and documentation from version 3 on. Loggers, client metrics and groups
have no settings here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from ...protocol.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_CONFIG,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from ...protocol.topics import validate_topic_name
from ..background import Turn
from ..context import Context
from ..registry import handles
from ..setting_descriptions import Setting, broker_settings, topic_settings

if TYPE_CHECKING:
    from ..broker import Broker


@handles(DescribeConfigsRequest)
async def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Describe each resource, or say why not. What is named again is described once: an answer is some hundred times as
    large as the question."""
    resources = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    results = []
    turn = Turn()
    for resource in resources.values():
        if turn.is_over:
            await turn.next()
        results.append(_describe(resource, request, context.broker))
    return DescribeConfigsResponse(results=results)


def _describe(
    resource: DescribeConfigsRequest.Resource, request: DescribeConfigsRequest, broker: Broker
) -> DescribeConfigsResponse.Resource:
    answer = DescribeConfigsResponse.Resource(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        settings = _settings_of(resource, broker)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    wanted = set(resource.configuration_keys or ())
    answer.configs = [_entry(setting, request) for setting in settings if not wanted or setting.name in wanted]
    return answer


def _settings_of(resource: DescribeConfigsRequest.Resource, broker: Broker) -> Iterable[Setting]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        validate_topic_name(name)
        topic = broker.controller.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        return topic_settings(topic.configs, broker.config)
    if resource.resource_type == BROKER:
        if not name:
            return ()  # settings for all brokers at once: none can be made yet
        _check_broker_id(name, broker)
        return broker_settings(broker.config)
    if resource.resource_type == BROKER_LOGGER:
        _check_broker_id(name, broker)
        return ()
    raise InvalidRequest(f"resource type {resource.resource_type} has no settings here")


def _check_broker_id(name: str, broker: Broker) -> None:
    if name != str(broker.config.node_id):
        raise InvalidRequest(f"this is broker {broker.config.node_id}; only it can be described here")


def _entry(setting: Setting, request: DescribeConfigsRequest) -> DescribeConfigsResponse.Resource.Config:
    key = setting.key
    return DescribeConfigsResponse.Resource.Config(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        config_source=setting.source,
        is_default=setting.source == DEFAULT_CONFIG,
        synonyms=[
            DescribeConfigsResponse.Resource.Config.Synonym(name=place.name, value=place.value, source=place.source)
            for place in (setting.places if request.include_synonyms else ())
        ],
        config_type=key.type.wire_code if key else 0,
        documentation=key.doc if key and request.include_documentation else None,
    )
