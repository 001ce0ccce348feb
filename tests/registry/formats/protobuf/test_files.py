"""A schema with what it imports: references, known files, circles and chains."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.known_files import known_file
from kmini.registry.formats.protobuf_format import ProtobufFormat
from kmini.registry.formats.schema_format import InvalidSchema, ResolvedReference

COMMON = ResolvedReference("common.proto", 'syntax = "proto3"; package c; message Money { int64 units = 1; }')
ORDER = 'syntax = "proto3"; package o; import "common.proto"; message Order { c.Money price = 1; }'


def read(text: str, *references: ResolvedReference) -> Any:
    return ProtobufFormat().read(text, references)


def test_an_import_is_the_reference_of_its_path() -> None:
    assert read(ORDER, COMMON).file.message_type[0].field[0].type_name == ".c.Money"


def test_references_of_references_are_found() -> None:
    middle = ResolvedReference(
        "order.proto",
        'syntax = "proto3"; package o; import "common.proto"; message Order { c.Money price = 1; }',
        (COMMON,),
    )
    schema = read('syntax = "proto3"; import "order.proto"; message M { o.Order order = 1; }', middle)
    assert (
        schema.descriptor.message_types_by_name["M"].fields[0].message_type.fields[0].message_type.full_name
        == "c.Money"
    )


def test_a_reference_may_be_a_serialized_descriptor() -> None:
    serialized = read(COMMON.text).formatted("serialized")
    schema = read(ORDER, ResolvedReference("common.proto", serialized))
    assert schema.text == read(ORDER, COMMON).text


def test_a_name_is_seen_through_a_public_import_alone() -> None:
    deep = ResolvedReference("deep.proto", 'syntax = "proto3"; message Deep {}')
    for word, told in (("public ", None), ("", 'names "Deep", which neither the schema nor its imports declare')):
        middle = ResolvedReference("middle.proto", f'syntax = "proto3"; import {word}"deep.proto";', (deep,))
        text = 'syntax = "proto3"; import "middle.proto"; message M { Deep d = 1; }'
        if told is None:
            assert read(text, middle).file.message_type[0].field[0].type_name == ".Deep"
        else:
            with pytest.raises(InvalidSchema, match=re.escape(told)):
                read(text, middle)


def test_the_outer_file_of_a_path_counts() -> None:
    """No schema can have two files of one path."""
    other = ResolvedReference("common.proto", 'syntax = "proto3"; package c; message Money { string text = 1; }')
    middle = ResolvedReference(
        "m.proto", 'syntax = "proto3"; import "common.proto"; message M { c.Money m = 1; }', (other,)
    )
    schema = read('syntax = "proto3"; import "m.proto"; import "common.proto"; message N { M m = 1; }', middle, COMMON)
    money = schema.descriptor.message_types_by_name["N"].fields[0].message_type.fields[0].message_type
    assert [field.name for field in money.fields] == ["units"]


def test_imports_in_a_circle_are_told() -> None:
    third = ResolvedReference("a.proto", 'syntax = "proto3"; import "b.proto";')
    second = ResolvedReference("b.proto", 'syntax = "proto3"; import "a.proto";', (third,))
    with pytest.raises(InvalidSchema) as refused:
        read('syntax = "proto3"; import "b.proto";', second)
    assert str(refused.value) == "The imports form a circle: b.proto → a.proto → b.proto."


def test_a_long_chain_of_imports_is_refused() -> None:
    reference = ResolvedReference("0.proto", 'syntax = "proto3";')
    for number in range(1, 150):
        text = f'syntax = "proto3"; import "{number - 1}.proto";'
        reference = ResolvedReference(f"{number}.proto", text, (reference,))
    with pytest.raises(InvalidSchema, match="A chain of imports is longer than 100 files"):
        read('syntax = "proto3"; import "149.proto";', reference)


def test_a_wrong_reference_is_named() -> None:
    with pytest.raises(InvalidSchema) as refused:
        read(ORDER, ResolvedReference("common.proto", "message {"))
    assert str(refused.value) == (
        'In the reference "common.proto": Expected the name of a message, found { (line 1, column 9).'
    )
    with pytest.raises(InvalidSchema) as refused:
        read(ORDER, ResolvedReference("common.proto", 'syntax = "proto3"; message M { Gone g = 1; }'))
    assert str(refused.value).startswith('In the import "common.proto": The field "M.g" names "Gone"')


def test_two_files_that_declare_one_name_are_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"duplicate symbol 'c.Money'"):
        read('syntax = "proto3"; package c; import "common.proto"; message Money {}', COMMON)


KNOWN = {
    "google/protobuf/timestamp.proto": "google.protobuf.Timestamp",
    "google/protobuf/any.proto": "google.protobuf.Any",
    "google/protobuf/descriptor.proto": "google.protobuf.FileOptions",
    "google/protobuf/api.proto": "google.protobuf.Api",
    "google/protobuf/compiler/plugin.proto": "google.protobuf.compiler.Version",
    "google/type/date.proto": "google.type.Date",
    "google/type/phone_number.proto": "google.type.PhoneNumber",
    "confluent/meta.proto": "confluent.Meta",
    "confluent/type/decimal.proto": "confluent.type.Decimal",
    "confluent/types/decimal.proto": "confluent.type.Decimal",
    "confluent/type/variant.proto": "confluent.type.Variant",
}


@pytest.mark.parametrize(("path", "name"), KNOWN.items())
def test_a_known_file_needs_no_reference(path: str, name: str) -> None:
    if path.startswith("google/type/"):
        pytest.importorskip("google.type.date_pb2", reason="needs googleapis-common-protos")
    schema = read(f'syntax = "proto3"; import "{path}"; message M {{ {name} known = 1; }}')
    assert schema.descriptor.message_types_by_name["M"].fields[0].message_type.full_name == name


def test_a_reference_comes_before_the_known_file_of_its_path() -> None:
    own = ResolvedReference("confluent/meta.proto", 'syntax = "proto3"; package confluent; message Mine {}')
    schema = read('syntax = "proto3"; import "confluent/meta.proto"; message M { confluent.Mine m = 1; }', own)
    assert schema.file.message_type[0].field[0].type_name == ".confluent.Mine"


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("confluent/meta.proto", "confluent.meta_pb2"),
        ("confluent/type/decimal.proto", "confluent.type.decimal_pb2"),
        ("confluent/type/variant.proto", "confluent.type.variant_pb2"),
        ("confluent/types/decimal.proto", "confluent.types.decimal_pb2"),
    ],
)
def test_the_files_of_confluent_say_what_its_client_says(path: str, module: str) -> None:
    theirs = pytest.importorskip(f"confluent_kafka.schema_registry.{module}").DESCRIPTOR
    expected, known = pb.FileDescriptorProto.FromString(theirs.serialized_pb), known_file(path)
    assert known is not None
    ours = pb.FileDescriptorProto.FromString(known.serialized)
    for file in (ours, expected):
        file.ClearField("options")
        for message in (*file.message_type, *(nested for outer in file.message_type for nested in outer.nested_type)):
            for field in message.field:
                field.ClearField("json_name")
        for extension in file.extension:
            extension.ClearField("json_name")
    assert ours == expected


@pytest.mark.parametrize("path", ["google/protobuf/../../os.proto", "google/protobuf/internal/api.proto", "os", ""])
def test_no_other_path_is_a_known_file(path: str) -> None:
    assert known_file(path) is None
