"""The permissions of every API, and a request for each: about one topic, one group and one transactional id.

The requests stand beside the tests of each handler: as `EXAMPLE`, or as a function `example` of the kind of resource
and of the topic's id.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from kmini.broker.api.registry import loaded
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.permission_kinds import Permission
from kmini.broker.security.resources import CLUSTER_NAME, ResourceType
from kmini.protocol.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request, Struct

HANDLER_TESTS = Path(__file__).resolve().parents[2] / "broker" / "handlers"

TOPIC, GROUP, ID, OWNER = "orders", "readers", "payments", "User:bob"
NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: ID,
    ResourceType.DELEGATION_TOKEN: "no-such-token",
    ResourceType.USER: OWNER,
}
REFUSALS = {
    error.code
    for error in (
        TopicAuthorizationFailed,
        GroupAuthorizationFailed,
        ClusterAuthorizationFailed,
        TransactionalIdAuthorizationFailed,
        DelegationTokenAuthorizationFailed,
    )
}
ALTER_CONFIG_TYPES = {ResourceType.TOPIC: (2, TOPIC), ResourceType.GROUP: (32, GROUP), ResourceType.CLUSTER: (4, "1")}


class Need(NamedTuple):
    """A permission that an API's handler states."""

    api: str
    permission: Permission


NEEDS = [
    Need(handler.request.name, permission)
    for _, handler in sorted(loaded(HANDLERS).items())
    for permission in handler.needs
]
"""Every permission of every API, by API key and in the order in which guards ask."""


def permissions_of(api: str) -> tuple[Permission, ...]:
    """The permissions of one API."""
    return next(handler.needs for handler in loaded(HANDLERS).values() if handler.request.name == api)


def batch(*, transactional: bool = False) -> bytes:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return bytes(build_batch([Record(0, 1, None, b"v", ())], transactional=transactional, **producer))


def config_resource(resource: ResourceType) -> tuple[int, str]:
    """Type and name of the resource of a settings request that needs a permission on this kind of resource."""
    return ALTER_CONFIG_TYPES.get(resource, (2, TOPIC))


def request_for(api: str, resource: ResourceType, topic_id: bytes) -> Request:
    """The example of the API's test file that needs its permission on this kind of resource; `topic_id` is TOPIC's."""
    tests = _tests_of(api)
    if hasattr(tests, "EXAMPLE"):
        return copy.deepcopy(tests.EXAMPLE)
    example: Request = tests.example(resource, topic_id)
    return example


@cache
def _tests_of(api: str) -> ModuleType:
    """`tests/broker/handlers/test_<api>.py`, where the API's handler is in `broker/handlers/<api>.py`."""
    handler = next(handler for handler in loaded(HANDLERS).values() if handler.request.name == api)
    name = f"test_{handler.function.__module__.rpartition('.')[2]}"
    spec = importlib.util.spec_from_file_location(f"example_of_{name}", HANDLER_TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def codes(value: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(value, Struct):
        for field in type(value).__fields__:
            found = getattr(value, field.name)
            if field.name.endswith("error_code") and isinstance(found, int) and field.name != "topic_config_error_code":
                yield found
            else:
                yield from codes(found)
    elif isinstance(value, list):
        for element in value:
            yield from codes(element)
