"""AlterClientQuotas, versions 0 and 1 (KIP-546): set and remove quotas. They are in force at once, and stay so."""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import InvalidRequest
from ...protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.client_quotas import change_quotas, check_entity, name_of
from ..scheduler import Turn
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


def refused(request: AlterClientQuotasRequest, code: int) -> AlterClientQuotasResponse:
    """Refuse every entry."""
    Entry = AlterClientQuotasResponse.Entry
    entries = [
        Entry(
            error_code=code,
            entity=[Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
        )
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(entries=entries)


@handles(
    AlterClientQuotasRequest,
    needs=[whole(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)],
    guard=on_cluster(refused),
)
async def alter_client_quotas(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    """Change the quotas of every entity, or of none. An entity that the request names twice is refused, and answered
    once."""
    entries = {name_of(_entity(entry)): entry for entry in request.entries}
    times_named = Counter(name_of(_entity(entry)) for entry in request.entries)
    answers = []
    turn = Turn()
    for name in times_named:
        if turn.is_over:
            await turn.next()
        answers.append(_answer(context, entries[name], times_named[name], validate_only=request.validate_only))
    return AlterClientQuotasResponse(entries=answers)


def _entity(entry: AlterClientQuotasRequest.Entry) -> dict[str, str | None]:
    return {named.entity_type: named.entity_name for named in entry.entity}


def _answer(
    context: Context, entry: AlterClientQuotasRequest.Entry, times_named: int, *, validate_only: bool
) -> AlterClientQuotasResponse.Entry:
    entity = _entity(entry)
    answer = AlterClientQuotasResponse.Entry(
        entity=[AlterClientQuotasResponse.Entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    )
    try:
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        if times_named > 1 or len(changes) < len(entry.ops):
            raise InvalidRequest("the entity, or one of its quotas, is named twice")
        check_entity(entity)
        change_quotas(context.services.controller, entity, changes, validate_only=validate_only)
    except Exception as failure:
        error = kafka_error(failure, "a change of client quotas")
        answer.error_code, answer.error_message = error.code, error.message
    return answer
