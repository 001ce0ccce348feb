"""AlterConfigs, versions 0 to 2: the settings of topics and of this broker, each as a whole (KIP-133).

A setting that is not named goes back to its default; IncrementalAlterConfigs takes the others as they are. Loggers have
no part in it. The rules are in `config_changes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...protocol.errors import NONE, KafkaError
from ...protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ...protocol.messages.incremental_alter_configs import SET
from ..api.registry import handles
from ..api.request_context import Context
from ..security.config_resources import config_resource_by_resource, on_each_config_resource
from ..security.resources import AclOperation
from ..settings.config_changes import Alteration, Change, alter

R = TypeVar("R")


@handles(
    AlterConfigsRequest, needs=on_each_config_resource(AclOperation.ALTER_CONFIGS), guard=config_resource_by_resource
)
async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Replace the settings of each resource, or say why not."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    outcomes = await alter(context.broker, alterations, replaces=True, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=told(AlterConfigsResponse.Resource, alterations, outcomes))


def told(kind: Callable[..., R], alterations: Sequence[Alteration], outcomes: Sequence[KafkaError | None]) -> list[R]:
    """What became of each resource, as the `kind` of an answer that tells it."""
    return [
        kind(
            error_code=error.code if error else NONE,
            error_message=error.message if error else None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        for alteration, error in zip(alterations, outcomes, strict=True)
    ]
