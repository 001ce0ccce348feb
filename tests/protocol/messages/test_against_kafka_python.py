"""Every message we define, in every version, against an independent reading: the tables of kafka-python.

Random values, seeded. Our bytes must be theirs, each side must read the other's, and no field may be on one side only.
Nothing here knows any message: both sides are walked along their own schemas.
"""

import importlib
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini.protocol.messages import REQUESTS, ApiVersionsResponse
from kmini.protocol.schema import Field, Message, Struct
from kmini.protocol.uuids import ZERO_UUID
from support.for_each import for_each
from support.message_versions import EVERY_VERSION

pytestmark = pytest.mark.deep

THEIR_MODULES = ("metadata", "producer", "consumer", "admin", "sasl")

NOT_IN_THEIR_TABLES = {
    "UnregisterBrokerRequest v0": "no command of theirs sends it; ClusterTool does (tests/oracle/test_admin_tools.py)",
    "UnregisterBrokerResponse v0": "no command of theirs sends it",
    **{
        f"ConsumerGroup{name}{kind} v{version}": "its consumers speak the classic protocol only"
        for name in ("Heartbeat", "Describe")
        for kind in ("Request", "Response")
        for version in (0, 1)
    },
    **{
        f"{name}DelegationToken{kind} v{version}": "it has no delegation tokens"
        for name, last in (("Create", 3), ("Renew", 2), ("Expire", 2), ("Describe", 3))
        for kind in ("Request", "Response")
        for version in range(last + 1)
    },
    **{
        f"StreamsGroup{name}{kind} v0": "it has no Kafka Streams"
        for name in ("Heartbeat", "Describe")
        for kind in ("Request", "Response")
    },
    **{
        f"{name}{kind} v{version}": "it has no share groups"
        for name, versions in (
            ("ShareGroupHeartbeat", (1,)),
            ("ShareGroupDescribe", (1,)),
            ("DescribeShareGroupOffsets", (0, 1)),
            ("AlterShareGroupOffsets", (0,)),
            ("DeleteShareGroupOffsets", (0,)),
            ("ShareFetch", (1, 2)),
            ("ShareAcknowledge", (1, 2)),
            ("InitializeShareGroupState", (0,)),
            ("ReadShareGroupState", (0,)),
            ("WriteShareGroupState", (0, 1)),
            ("DeleteShareGroupState", (0,)),
            ("ReadShareGroupStateSummary", (0, 1)),
        )
        for kind in ("Request", "Response")
        for version in versions
    },
}
"""Messages ("FetchRequest v19") that kafka-python 3.0 does not have, each with the reason."""

THEIR_NAMES = {
    ("MetadataResponse", "cluster_authorized_operations"): "authorized_operations",
    ("MetadataResponse.Topic", "topic_authorized_operations"): "authorized_operations",
    ("DescribeClusterResponse", "cluster_authorized_operations"): "authorized_operations",
}
"""Fields that kafka-python calls otherwise than Kafka does."""

ROUNDS = 12


def their_message(cls: type[Message], version: int) -> Any:
    reason = NOT_IN_THEIR_TABLES.get(f"{cls.__name__} v{version}")
    if reason is not None:
        pytest.skip(reason)
    for module in THEIR_MODULES:
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), cls.__name__, None)
        if found is not None:
            assert version <= found.max_version
            return found
    raise LookupError(cls.__name__)


def their_name(cls: type[Struct], field: Field) -> str:
    return THEIR_NAMES.get((cls.__qualname__, field.name), field.name)


# ---------------------------------------------------------------------------------------- ours to theirs and back


def to_theirs(ours: Struct, their_struct: Any, make: Any, version: int) -> Any:
    values = {}
    for field in type(ours).__fields__:
        value = getattr(ours, field.name)
        if not field.exists_in(version) or (field.tag is not None and value == field.default):
            continue
        name = their_name(type(ours), field)
        values[name] = value_to_theirs(value, their_struct.fields[name], version)
    return make(version=version, **values)


def value_to_theirs(value: Any, their_field: Any, version: int) -> Any:
    if value is None:
        return None
    if their_field.is_struct_array():
        return [to_theirs(item, their_field, their_field, version) for item in value]
    if their_field.is_struct():
        return to_theirs(value, their_field, their_field, version)
    kind = their_field._json["type"]
    if kind == "uuid":
        return uuid.UUID(bytes=value)
    if kind == "bitfield":
        return {bit for bit in range(32) if value >> bit & 1}
    return value


def from_theirs(theirs: Any, cls: type[Struct], their_struct: Any, version: int) -> Any:
    values = {}
    for field in cls.__fields__:
        if not field.exists_in(version):
            values[field.name] = [] if field.default == [] else field.default
            continue
        name = their_name(cls, field)
        values[field.name] = value_from_theirs(getattr(theirs, name), field, their_struct.fields[name], version)
    return cls(**values)


def value_from_theirs(value: Any, field: Field, their_field: Any, version: int) -> Any:
    if field.tag is not None and (value is None or (value == "" and field.type.element is not None)):
        return [] if field.default == [] else field.default
    kind = their_field._json["type"]
    if kind == "bitfield":
        bits = sum(1 << bit for bit in ({31} if value is None else value))
        return bits - (1 << 32) if bits >> 31 else bits
    if kind == "uuid":
        return ZERO_UUID if value is None else value.bytes
    if value is None:
        return None
    held = (field.type.element or field.type).struct
    if their_field.is_struct_array():
        assert held is not None
        return [from_theirs(item, held, their_field, version) for item in value]
    if their_field.is_struct():
        assert held is not None
        return from_theirs(value, held, their_field, version)
    return bytes(value) if isinstance(value, memoryview) else value


# ---------------------------------------------------------------------------------------------------- the claims


@for_each("message_class, version", EVERY_VERSION)
def test_bytes_are_those_of_kafka_python(
    message_class: type[Message], version: int, random_message: Callable[..., Any]
) -> None:
    cls, theirs = message_class, their_message(message_class, version)
    dice = random.Random(f"{cls.__name__} {version}")
    for _ in range(ROUNDS):
        message = random_message(cls, version, dice)
        if cls is ApiVersionsResponse:
            message.error_code = 0  # kafka-python reads any answer with an error as one of version 0
        our_bytes = b"".join(message.encode(version))
        assert our_bytes == to_theirs(message, theirs._struct, theirs, version).encode(version=version)
        assert cls.decode(our_bytes, version) == message
        assert from_theirs(theirs.decode(our_bytes, version=version), cls, theirs._struct, version) == message


def fields_in(cls: type[Struct], version: int, path: str = "") -> Iterator[tuple[str, int | None]]:
    for field in cls.__fields__:
        if field.exists_in(version):
            yield f"{path}{their_name(cls, field)}", field.tag
            held = (field.type.element or field.type).struct
            if held is not None:
                yield from fields_in(held, version, f"{path}{field.name}.")


def their_fields_in(struct: Any, version: int, path: str = "") -> Iterator[tuple[str, int | None]]:
    for name, field in struct.fields.items():
        if field.for_version_q(version):
            yield f"{path}{name}", field.tag
            if field.is_struct() or field.is_struct_array():
                yield from their_fields_in(field, version, f"{path}{name}.")


@for_each("message_class, version", EVERY_VERSION)
def test_fields_and_tags_are_those_of_kafka_python(message_class: type[Message], version: int) -> None:
    theirs = their_message(message_class, version)
    assert list(fields_in(message_class, version)) == list(their_fields_in(theirs._struct, version))


def test_api_keys_and_flexible_versions_are_those_of_kafka_python() -> None:
    for request in REQUESTS.values():
        for cls in (request, request.response):
            if f"{cls.__name__} v{cls.max_version}" in NOT_IN_THEIR_TABLES:
                continue
            theirs = their_message(cls, cls.max_version)
            assert cls.api_key == theirs.API_KEY
            for version in range(cls.max_version + 1):
                assert (version >= cls.flexible_from) == theirs.flexible_version_q(version)
