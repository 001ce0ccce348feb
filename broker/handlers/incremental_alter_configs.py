"""IncrementalAlterConfigs, versions 0 to 1: change single settings of topics, groups and of this broker, and levels of
loggers (KIP-339, KIP-412).

A broker's empty name stands for all brokers. Client metrics have no settings here. `config_changes.py` has
the rules.
"""

from __future__ import annotations

from ...protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.config_changes import Alteration, Change, alter
from ..security.config_resources import config_resource_by_resource, on_each_config_resource
from ..security.resources import AclOperation
from .alter_configs import told


@handles(
    IncrementalAlterConfigsRequest,
    needs=on_each_config_resource(AclOperation.ALTER_CONFIGS),
    guard=config_resource_by_resource,
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Change the settings of each resource; each has its own outcome."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    services = context.services
    outcomes = await alter(
        services.this_broker,
        services.controller,
        alterations,
        replaces=False,
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(
        responses=told(IncrementalAlterConfigsResponse.Resource, alterations, outcomes)
    )
