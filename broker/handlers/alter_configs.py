"""AlterConfigs, versions 0 to 2: replace all settings of topics, groups and of this broker (KIP-133).

A setting that the request does not name returns to its default; IncrementalAlterConfigs leaves such settings alone.
Loggers cannot be altered. `config_changes.py` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...protocol.errors import NONE, KafkaError
from ...protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ...protocol.messages.incremental_alter_configs import SET
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.config_changes import Alteration, Change, alter
from ..security.config_resources import config_resource_by_resource, on_each_config_resource
from ..security.resources import AclOperation

R = TypeVar("R")


@handles(
    AlterConfigsRequest, needs=on_each_config_resource(AclOperation.ALTER_CONFIGS), guard=config_resource_by_resource
)
async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Replace the settings of each resource; each has its own outcome."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    services = context.services
    outcomes = await alter(
        services.this_broker,
        services.controller,
        alterations,
        replaces=True,
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(responses=told(AlterConfigsResponse.Resource, alterations, outcomes))


def told(kind: Callable[..., R], alterations: Sequence[Alteration], outcomes: Sequence[KafkaError | None]) -> list[R]:
    """The outcome of each resource, as resources of the response."""
    return [
        kind(
            error_code=error.code if error else NONE,
            error_message=error.message if error else None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        for alteration, error in zip(alterations, outcomes, strict=True)
    ]
