"""Keys and values of `_schemas`, byte by byte.

The texts are what Confluent's registry 7.4.0 wrote, as the project robot-head/crabka recorded it from the image
cp-schema-registry (crates/schema-registry/tests/fixtures, `admin/records.json` and `references/records.json`).
"""

from __future__ import annotations

import pytest

from kmini.registry.schema_content import Reference, SchemaContent
from kmini.registry.schemas_topic import (
    Change,
    ConfigSet,
    ModeSet,
    NotOurs,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionStored,
    read,
    written,
)

RECORD_A = '{"type":"record","name":"A","fields":[]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
PROTO = 'syntax = "proto3";\n\nmessage User {\n  int32 id = 1;\n}\n'


def stored(subject: str, version: int, number: int, content: SchemaContent, *, is_deleted: bool = False) -> Change:
    return VersionStored(subject, version, SchemaVersion(subject, version, number, content, is_deleted))


RECORDED: list[tuple[str, str | None, Change]] = [
    (
        '{"keytype":"CONFIG","subject":"t","magic":0}',
        '{"subject":"t","compatibilityLevel":"NONE"}',
        ConfigSet("t", {"compatibilityLevel": "NONE"}),
    ),
    (
        '{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
        r'{"subject":"t","version":1,"id":1,"schema":"{\"type\":\"record\",\"name\":\"A\",\"fields\":[]}",'
        r'"deleted":false}',
        stored("t", 1, 1, SchemaContent("AVRO", RECORD_A)),
    ),
    (
        '{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
        r'{"subject":"t","version":1,"id":1,"schema":"{\"type\":\"record\",\"name\":\"A\",\"fields\":[]}",'
        r'"deleted":true}',
        stored("t", 1, 1, SchemaContent("AVRO", RECORD_A), is_deleted=True),
    ),
    ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', None, VersionStored("t", 1, None)),
    (
        '{"keytype":"SCHEMA","subject":"av_order","version":1,"magic":1}',
        r'{"subject":"av_order","version":1,"id":2,"references":[{"name":"Money","subject":"av_money","version":1}],'
        r'"schema":"{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"price\",\"type\":\"Money\"}]}",'
        r'"deleted":false}',
        stored("av_order", 1, 2, SchemaContent("AVRO", ORDER, (Reference("Money", "av_money", 1),))),
    ),
    (
        '{"keytype":"SCHEMA","subject":"pb-value","version":1,"magic":1}',
        r'{"subject":"pb-value","version":1,"id":2,"schemaType":"PROTOBUF","schema":"syntax = \"proto3\";\n\n'
        r'message User {\n  int32 id = 1;\n}\n","deleted":false}',
        stored("pb-value", 1, 2, SchemaContent("PROTOBUF", PROTO)),
    ),
    (
        '{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}',
        '{"subject":"d","version":1}',
        SubjectDeleted("d", 1),
    ),
    ('{"keytype":"MODE","subject":"r","magic":0}', '{"subject":"r","mode":"READONLY"}', ModeSet("r", "READONLY")),
    ('{"keytype":"MODE","subject":"r","magic":0}', None, ModeSet("r", None)),
    ('{"keytype":"CLEAR_SUBJECT","subject":"i","magic":0}', '{"subject":"i"}', SubjectCleared("i")),
    (
        '{"keytype":"CONFIG","subject":null,"magic":0}',  # this one as Karapace's tests have it
        '{"compatibilityLevel":"BACKWARD"}',
        ConfigSet(None, {"compatibilityLevel": "BACKWARD"}),
    ),
]


@pytest.mark.parametrize(("key", "value", "change"), RECORDED)
def test_a_change_is_written_as_confluents_registry_writes_it(key: str, value: str | None, change: Change) -> None:
    assert written(change) == (key.encode(), None if value is None else value.encode())


@pytest.mark.parametrize(("key", "value", "change"), RECORDED)
def test_a_record_of_confluents_registry_is_read(key: str, value: str | None, change: Change) -> None:
    assert read(key.encode(), None if value is None else value.encode()) == change


@pytest.mark.parametrize(
    ("key", "value", "change"),
    [
        ('{"subject":"t","magic":0,"keytype":"CONFIG"}', '{"compatibilityLevel":"FULL"}', RECORDED[0][2]),
        (
            '{"subject":"t","version":1,"magic":1,"keytype":"SCHEMA"}',
            '{"deleted":false,"id":1,"new":[],"schema":"x","subject":"t","version":1}',
            stored("t", 1, 1, SchemaContent("AVRO", "x")),
        ),
        ('{"subject":"t","version":1,"magic":1,"keytype":"SCHEMA"}', "", VersionStored("t", 1, None)),
    ],
)
def test_another_order_of_properties_and_unknown_ones_mean_the_same(key: str, value: str, change: Change) -> None:
    found = read(key.encode(), value.encode())
    expected = ConfigSet("t", {"compatibilityLevel": "FULL"}) if isinstance(change, ConfigSet) else change
    assert found == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ('{"keytype":"NOOP","magic":0}', None),
        ('{"keytype":"NOOP","subject":"t","magic":0}', '{"nextVersion":3}'),
        ('{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', '{"tenant":"default","context":".c"}'),
        ('{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}', None),
        ('{"keytype":"CLEAR_SUBJECT","subject":"d","magic":0}', None),
    ],
)
def test_records_without_meaning_say_nothing(key: str, value: str | None) -> None:
    assert read(key.encode(), None if value is None else value.encode()) is None


SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}'


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (None, b"{}", "it has no key"),
        (b"orders", b"{}", "its key is no JSON"),
        (b"\xff\xfe", b"{}", "its key is no JSON"),
        (b"[" * 100_000, b"{}", "its key is no JSON"),
        (b"[]", b"{}", "its key is no JSON object"),
        (b"{}", b"{}", "its keytype is 'None'"),
        (b'{"keytype":"OTHER","subject":"s"}', b"{}", "its keytype is 'OTHER'"),
        (b'{"keytype":"SCHEMA","version":1}', b"{}", "the key has no subject"),
        (b'{"keytype":"SCHEMA","subject":1,"version":1}', b"{}", "the subject of the key is no text"),
        (b'{"keytype":"SCHEMA","subject":"s","version":0}', b"{}", "its version is no whole number from 1 on"),
        (b'{"keytype":"SCHEMA","subject":"s","version":true}', b"{}", "its version is no whole number from 1 on"),
        (SCHEMA_KEY, b"no", "its value is no JSON"),
        (SCHEMA_KEY, b"{}", "its schema is no text"),
        (SCHEMA_KEY, b'{"schema":"x"}', "its id is no whole number from 0 on"),
        (SCHEMA_KEY, b'{"schema":"x","id":1,"schemaType":7}', "its schemaType is no text"),
        (SCHEMA_KEY, b'{"schema":"x","id":1,"references":[1]}', "a reference must have a name"),
        (b'{"keytype":"MODE","subject":"s"}', b"{}", "its mode is no text"),
        (b'{"keytype":"CONFIG","subject":"s"}', b'{"compatibilityLevel":1}', "its compatibilityLevel is no text"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b'{"version":"1"}', "its version is no whole number"),
    ],
)
def test_a_record_that_is_none_of_a_registrys_is_told_apart(key: bytes | None, value: bytes, says: str) -> None:
    with pytest.raises(NotOurs, match=says):
        read(key, value)
