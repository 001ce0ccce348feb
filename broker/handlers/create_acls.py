"""CreateAcls, versions 0 to 3: add access rules, each by itself (KIP-140, KIP-290).

A rule that exists is created again without effect. Without an authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from ...protocol.errors import InvalidRequest, KafkaError, PolicyViolation, SecurityDisabled
from ...protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.acls import AclBinding, check_can_be_created
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from .describe_acls import NO_AUTHORIZER, check_known

MAX_ACLS = 100_000
"""Access rules that a cluster may have. Apache Kafka sets no limit."""

Result = CreateAclsResponse.Result


def refused(request: CreateAclsRequest, code: int) -> CreateAclsResponse:
    """Refuse every rule."""
    return CreateAclsResponse(results=[Result(error_code=code)] * len(request.creations))


@handles(CreateAclsRequest, needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)], guard=on_cluster(refused))
async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    """Add the valid rules; each rule has its own outcome."""
    for rule in request.creations:
        check_known(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    if context.services.authorizer is None:
        refusal = Result(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
        return CreateAclsResponse(results=[refusal] * len(request.creations))
    controller = context.services.controller
    accepted: list[AclBinding] = []
    results: list[Result] = []
    for rule in request.creations:
        acl = AclBinding(
            rule.resource_type,
            rule.resource_pattern_type,
            rule.resource_name,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        try:
            _check(acl, len(controller.acls) + len(accepted))
        except KafkaError as error:
            results.append(Result(error_code=error.code, error_message=error.message))
        else:
            accepted.append(acl)
            results.append(Result())
    controller.create_acls(accepted)
    return CreateAclsResponse(results=results)


def _check(acl: AclBinding, count: int) -> None:
    try:
        check_can_be_created(acl)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    if count >= MAX_ACLS:
        raise PolicyViolation(f"there are {count} access rules, and no more can be kept")
