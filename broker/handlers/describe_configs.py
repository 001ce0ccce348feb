"""DescribeConfigs, versions 0 to 4: list the settings of topics, of groups and of this broker, with their sources
(KIP-226).

An answer has every setting of the tables, from version 3 on with type and documentation, and the levels of this
process's loggers (KIP-412). Settings that Apache Kafka does not have (`kmini.…`) are listed only where they are set, or
asked for by name. A broker's empty name stands for the settings made for all brokers while they run. A group need not
exist. Client metrics have no settings here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from ...protocol.messages.describe_configs import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_LOGGER_CONFIG,
    GROUP,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from ...protocol.topics import validate_topic_name
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.config_changes import check_is_this_broker
from ..scheduler import Turn
from ..security.config_resources import config_resource_by_resource, on_each_config_resource
from ..security.resources import AclOperation
from ..settings.log_levels import levels
from ..settings.setting_descriptions import (
    Setting,
    broker_settings,
    group_settings,
    settings_for_all_brokers,
    topic_settings,
)

if TYPE_CHECKING:
    from ..services import Services

Config = DescribeConfigsResponse.Resource.Config


CONFIG_TYPE_CODES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""The number of each type of setting in responses, by `ConfigType.name` (KIP-569)."""
UNKNOWN_CONFIG_TYPE = 0


@handles(
    DescribeConfigsRequest,
    needs=on_each_config_resource(AclOperation.DESCRIBE_CONFIGS),
    guard=config_resource_by_resource,
)
async def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Describe each resource; each has its own outcome. A resource that is named twice is described once, because an
    answer is hundreds of times as large as the request."""
    resources = {
        (resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ())): resource
        for resource in request.resources
    }
    results = []
    turn = Turn()
    for resource in resources.values():
        if turn.is_over:
            await turn.next()
        results.append(_describe(resource, request, context.services))
    return DescribeConfigsResponse(results=results)


def _describe(
    resource: DescribeConfigsRequest.Resource, request: DescribeConfigsRequest, services: Services
) -> DescribeConfigsResponse.Resource:
    answer = DescribeConfigsResponse.Resource(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    wanted = set(resource.configuration_keys or ())
    try:
        if resource.resource_type == BROKER_LOGGER:
            check_is_this_broker(resource.resource_name, services.node_id)
            answer.configs = [
                _logger_entry(name, level) for name, level in levels().items() if not wanted or name in wanted
            ]
        else:
            answer.configs = [
                _entry(setting, request)
                for setting in _settings_of(resource, services)
                if (setting.name in wanted if wanted else setting.is_listed)
            ]
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


def _settings_of(resource: DescribeConfigsRequest.Resource, services: Services) -> Iterable[Setting]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        validate_topic_name(name)
        topic = services.controller.topic(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        return topic_settings(topic.configs, services.config.current)
    if resource.resource_type == BROKER:
        if not name:
            return settings_for_all_brokers(services.config.current)
        check_is_this_broker(name, services.node_id)
        return broker_settings(services.config.current)
    if resource.resource_type == GROUP:
        if not name:
            raise InvalidRequest("the name of a group was expected")
        return group_settings(services.controller.group_configs.get(name, {}), services.config.current)
    raise InvalidRequest(f"resource type {resource.resource_type} has no settings here")


def _entry(setting: Setting, request: DescribeConfigsRequest) -> Config:
    key = setting.key
    synonyms = setting.synonyms()
    source = synonyms[0].source if synonyms else DEFAULT_CONFIG
    return Config(
        name=setting.name,
        value=setting.value,
        read_only=setting.is_read_only,
        config_source=source,
        is_default=source == DEFAULT_CONFIG,
        is_sensitive=setting.is_sensitive,
        synonyms=[
            Config.Synonym(name=place.name, value=place.value, source=place.source)
            for place in (synonyms if request.include_synonyms else ())
        ],
        config_type=CONFIG_TYPE_CODES[key.type.name] if key else UNKNOWN_CONFIG_TYPE,
        documentation=key.doc if key and request.include_documentation else None,
    )


def _logger_entry(name: str, level: str) -> Config:
    return Config(name=name, value=level, config_source=DYNAMIC_BROKER_LOGGER_CONFIG)
