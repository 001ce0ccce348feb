"""Every message we define, in every version that Apache Kafka 4.3 has, against the schemas inside its own classes.

Names, order, types, nullability and tags, field by field. (`test_against_kafka_python.py` compares the bytes.)
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Message, Struct, Type
from support import apache_kafka

BELOW_4_0 = {
    "AlterReplicaLogDirs": 1,
    "CreateAcls": 1,
    "CreateDelegationToken": 1,
    "CreateTopics": 2,
    "DeleteAcls": 1,
    "DeleteTopics": 1,
    "DescribeAcls": 1,
    "DescribeConfigs": 1,
    "DescribeDelegationToken": 1,
    "DescribeLogDirs": 1,
    "ExpireDelegationToken": 1,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "OffsetForLeaderEpoch": 2,
    "Produce": 3,
    "RenewDelegationToken": 1,
    "WriteTxnMarkers": 1,
}
"""The first version that Apache Kafka 4.3 still has (KIP-896); ours begin with those of 3.9."""

SIZED = {"string": "STRING", "bytes": "BYTES", "records": "RECORDS"}


def described(type_: Type, version: int, *, is_nullable: bool, is_flexible: bool) -> str:
    """A type as Kafka's classes print it."""
    if type_.element is not None:
        element = described(type_.element, version, is_nullable=False, is_flexible=is_flexible)
        return f"{'nullable ' if is_nullable else ''}array of {element}"
    if type_.struct is not None:
        return f"{'nullable ' if is_nullable else ''}struct"
    assert type_.wire is not None
    name = type_.wire.name
    if name not in SIZED:
        return name.upper()
    nullable = "NULLABLE_" if is_nullable else ""
    return f"{'nullable ' if is_nullable else ''}{'COMPACT_' if is_flexible else ''}{nullable}{SIZED[name]}"


def fields_of(cls: type[Struct], version: int, path: str, *, is_flexible: bool) -> Iterator[str]:
    tagged = []
    for field in cls.__fields__:
        if not field.exists_in(version):
            continue
        # A tagged struct that is None has its default values; Kafka's classes cannot hold a null there.
        is_nullable = field.is_nullable_in(version) and not (field.tag is not None and field.type.struct is not None)
        what = described(field.type, version, is_nullable=is_nullable, is_flexible=is_flexible)
        lines = [f"{'-' if field.tag is None else field.tag} {path}{field.name} {what}"]
        held = (field.type.element or field.type).struct
        if held is not None:
            lines += fields_of(held, version, f"{path}{field.name}.", is_flexible=is_flexible)
        if field.tag is None:
            yield from lines
        else:
            tagged.append((field.tag, lines))
    for _, lines in sorted(tagged):
        yield from lines


def our_fields(cls: type[Message], version: int) -> list[str]:
    return list(fields_of(cls, version, "", is_flexible=version >= cls.flexible_from))


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_every_field_is_the_one_in_apache_kafkas_classes() -> None:
    source = Path(__file__).with_name("KafkaSchemas.java")
    command = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    theirs: dict[tuple[str, int], list[str]] = {}
    for line in finished.stdout.splitlines():
        name, version, rest = line.split(" ", 2)
        theirs.setdefault((name, int(version)), []).append(rest)
    ours = {
        (cls.__name__, version): our_fields(cls, version)
        for request in REQUESTS.values()
        for cls in (request, request.response)
        for version in range(max(BELOW_4_0.get(request.name, 0), request.min_version), request.max_version + 1)
    }
    different = {at: (fields, theirs.get(at, [])) for at, fields in ours.items() if fields != theirs.get(at, [])}
    assert not different
    assert not ours.keys() - theirs.keys() - {at for at, fields in ours.items() if not fields}
