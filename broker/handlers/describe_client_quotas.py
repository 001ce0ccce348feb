"""DescribeClientQuotas, versions 0 and 1 (KIP-546): list the quotas that AlterClientQuotas has set."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ...protocol.messages.describe_client_quotas import (
    ANY_NAME,
    DEFAULT_ENTITY,
    ENTITY_TYPES,
    EXACT_NAME,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.client_quotas import IP, Entity, stored_quotas
from ..scheduler import Turn
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

Component = DescribeClientQuotasRequest.Component


@handles(
    DescribeClientQuotasRequest,
    needs=[whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(DescribeClientQuotasResponse)),
)
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    """List the quotas whose entities every component of the filter matches; with `strict`, entities without other
    components."""
    try:
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = []
    turn = Turn()
    for entity, quotas in stored_quotas(context.services.controller):
        if turn.is_over:
            await turn.next()
        if request.strict and len(entity) != len(request.components):
            continue
        if all(_matches(component, entity) for component in request.components):
            entries.append(
                DescribeClientQuotasResponse.Entry(
                    entity=[
                        DescribeClientQuotasResponse.Entity(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    values=[DescribeClientQuotasResponse.Value(key=key, value=value) for key, value in quotas.items()],
                )
            )
    return DescribeClientQuotasResponse(entries=entries)


def _check(components: Sequence[Component]) -> None:
    """Raise InvalidRequest, or UnsupportedVersion for an entity type that is not known."""
    types = [component.entity_type for component in components]
    for number, component in enumerate(components):
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("an entity type is empty")
        if kind in types[:number]:
            raise InvalidRequest(f"the entity type {kind!r} is there twice")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersion(f"there is no entity type {kind!r}")
        if component.match_type not in (EXACT_NAME, DEFAULT_ENTITY, ANY_NAME):
            raise InvalidRequest(f"there is no match type {component.match_type}")
        if (component.match_type == EXACT_NAME) != (component.match is not None):
            raise InvalidRequest("a name goes with the match type for names, and with no other")
    if IP in types and len(types) > 1:
        raise InvalidRequest("an address cannot be combined with a user or a client id")


def _matches(component: Component, entity: Entity) -> bool:
    """A component that asks for the default has no name, and None stands for the default."""
    kind = component.entity_type
    return kind in entity and (component.match_type == ANY_NAME or entity[kind] == component.match)
