"""Protobuf as a format of the registry: text and serialized descriptors, one spelling, normalisation, hostile input."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf_format import LONGEST_TEXT, ProtobufFormat
from kmini.registry.formats.schema_format import InvalidSchema

ORDER = """syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";

option go_package = "shop/v1";
option java_package = "com.shop";

message Order {
  reserved 9, 20 to 29;
  reserved "old";

  string id = 1 [(confluent.field_meta) = { tags: "PII" }, deprecated = true];
  optional int64 price = 2;
  map<string, Line> lines = 3;

  oneof paid {
    string card = 4;
    Line voucher = 5;
  }

  google.protobuf.Timestamp at = 6;

  message Line {
    repeated State states = 1;
  }

  enum State {
    NEW = 0;
    SENT = 1;
  }
}

service Orders {
  rpc Get (Order) returns (stream Order.Line);
}
"""

ORDER_SPELT_ANOTHER_WAY = """
// An order.
syntax='proto3'; package shop;
import "google/protobuf/timestamp.proto"; import "confluent/meta.proto";
option java_package = "com." "shop"; /* two strings */ option go_package = "shop/v1";
message Order { enum State { NEW = 0x0; SENT = 1; }
  string id = 1 [deprecated=true,(confluent.field_meta).tags="PII"]; optional int64 price = 2; // in cents
  map < string , Line > lines = 3; message Line { repeated State states = 1; }
  oneof paid { string card = 4; Line voucher = 5; }
  google.protobuf.Timestamp at = 6; reserved 9; reserved 20 to 29; reserved "old"; ; }
service Orders { rpc Get(Order) returns(stream Order.Line) {} }"""


def read(text: str) -> Any:
    return ProtobufFormat().read(text)


def serialized(file: pb.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_the_canonical_text_is_the_registrys_spelling() -> None:
    assert read(ORDER).text == ORDER


def test_white_space_comments_and_the_order_of_options_make_no_other_schema() -> None:
    assert read(ORDER_SPELT_ANOTHER_WAY).text.replace("reserved 9;\n  reserved 20", "reserved 9, 20") == ORDER


@pytest.mark.parametrize(
    "other",
    [
        ORDER.replace("string id", "bytes id"),
        ORDER.replace("string id", "string name"),
        ORDER.replace("price = 2", "price = 7"),
        ORDER.replace("optional ", ""),
        ORDER.replace("com.shop", "com.store"),
        ORDER.replace("SENT = 1", "SENT = 2"),
        ORDER.replace("PII", "PUBLIC"),
        ORDER.replace("stream ", ""),
        ORDER.replace("reserved 9, ", "reserved "),
    ],
)
def test_what_has_a_meaning_makes_another_schema(other: str) -> None:
    assert other != ORDER
    assert read(other).text != read(ORDER).text


def test_normalisation_spells_names_in_full_and_sorts_imports() -> None:
    normal = read(ORDER).normalized().text
    assert "map<string, .shop.Order.Line> lines = 3;" in normal
    assert "rpc Get (.shop.Order) returns (stream .shop.Order.Line);" in normal
    assert normal.index("confluent/meta") < normal.index("google/protobuf/timestamp")
    imports = ORDER.replace(
        'import "google/protobuf/timestamp.proto";\nimport "confluent/meta.proto";',
        'import "confluent/meta.proto";\nimport "google/protobuf/timestamp.proto";',
    )
    spelt_in_full = imports.replace(" Line voucher", " .shop.Order.Line voucher").replace(
        "repeated State", "repeated Order.State"
    )
    assert read(spelt_in_full).text != read(ORDER).text
    assert read(spelt_in_full).normalized().text == normal
    assert read(normal).normalized().text == read(normal).text == normal


def test_a_serialized_descriptor_is_read_and_given_back() -> None:
    given = pb.FileDescriptorProto.FromString(base64.b64decode(read(ORDER).formatted("serialized")))
    assert [message.name for message in given.message_type] == ["Order"]
    schema = read(serialized(given))
    assert schema.text == read(ORDER).normalized().text.replace(
        'import "confluent/meta.proto";\nimport "google/protobuf/timestamp.proto";',
        'import "google/protobuf/timestamp.proto";\nimport "confluent/meta.proto";',
    )
    assert pb.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized"))) == given
    assert read(schema.text).formatted("serialized") == schema.formatted("serialized")


def test_what_confluents_python_client_registers_comes_back_to_it() -> None:
    common = pytest.importorskip("confluent_kafka.schema_registry.common.protobuf")
    date_pb2 = pytest.importorskip("google.type.date_pb2")
    registered = pb.FileDescriptorProto()
    date_pb2.DESCRIPTOR.CopyToProto(registered)
    stored = read(common._proto_to_str(registered)).text
    answered = common._str_to_proto("google/type/date.proto", read(stored).formatted("serialized"))
    for field in answered.message_type[0].field:
        field.ClearField("json_name")
    assert answered == registered


def test_an_unknown_spelling_is_the_text() -> None:
    schema = read(ORDER)
    assert [schema.formatted(spelling) for spelling in ("", "resolved", "ignore_extensions")] == [ORDER] * 3


def test_differences_are_of_reader_and_writer() -> None:
    reader, writer = read(ORDER.replace("string id", "int32 id")), read(ORDER)
    assert [difference.kind for difference in reader.differences(writer)] == ["FIELD_SCALAR_KIND_CHANGED"]
    assert read(ORDER).differences(read(ORDER_SPELT_ANOTHER_WAY)) == []


def test_order_of_messages_stays_for_the_indexes_in_records() -> None:
    text = 'syntax = "proto3";\n\nmessage B {}\n\nmessage A {\n  message Z {}\n\n  message Y {}\n}\n'
    assert read(text).text == read(text).normalized().text == text


# Hostile input.

HOSTILE = {
    "nothing": ("", "The schema is empty"),
    "blanks": (" \n\t ", "The schema is empty"),
    "a word": ("hello", "The schema is neither .proto text nor base64 of a serialized FileDescriptorProto."),
    "wrong base64": ("QUJD=", "The schema is neither .proto text nor base64"),
    "base64 of something else": (
        base64.b64encode(b"\xff" * 30).decode(),
        "The schema is neither .proto text nor base64",
    ),
    "JSON": ('{"type": "string"}', "Expected a declaration"),
    "a long text": (
        "//" + "x" * 5_000_000,
        f"The schema has 5,000,002 characters; this registry reads at most {LONGEST_TEXT:,}.",
    ),
    "deep messages": ("message A {" * 40_000, "Messages nest deeper than 32 levels"),
    "a deep value": ("option (x) = " + "{a:" * 100_000, "The value of an option nests deeper than 32 levels"),
    "a long name": ("package " + "a." * 200_000 + "a;", "A name has more than 100 parts"),
    "a long number": (
        "message A { optional int32 a = " + "9" * 500_000 + "; }",
        "The number 99999999999999999999… has too many",
    ),
    "a lone surrogate": ('option java_package = "\ud800";', "its value is not UTF-8"),
    "an endless comment": ("/* " + "x" * 100_000, "A comment begins with /* and has no end"),
    "a NUL": ("message A {\0}", r"The character '\x00' has no place"),
}


@pytest.mark.parametrize(("text", "told"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_with_a_sentence(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        read(text)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_descriptor_cannot_smuggle_declarations_into_the_text() -> None:
    evil = "x; } message Evil { int32 y = 1; } message Z { reserved z"
    files = [pb.FileDescriptorProto(syntax="proto3") for _ in range(4)]
    files[0].package = evil
    files[1].message_type.add(name=evil)
    files[2].message_type.add(name="M").field.add(name=evil, number=1, type=5)
    files[3].message_type.add(name="M").reserved_name.append(f'"; {evil}')
    files[3].syntax, files[3].edition = "editions", pb.EDITION_2023
    for file in files:
        with pytest.raises(InvalidSchema):
            read(serialized(file))


def test_a_descriptor_that_no_text_can_say_is_refused() -> None:
    file = pb.FileDescriptorProto(syntax="proto3")
    message = file.message_type.add(name="M")
    message.nested_type.add(name="WrongEntry").options.map_entry = True
    message.field.add(name="x", number=1, label=3, type=11, type_name=".M.WrongEntry")
    with pytest.raises(InvalidSchema):
        read(serialized(file))


def test_no_damage_to_a_schema_raises_anything_but_invalid_schema() -> None:
    """And what is read of it is stable. The damage is another one in each run; its seed is in the message."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    raw = base64.b64decode(read(ORDER).formatted("serialized"))
    words = ORDER.split(" ")
    for _ in range(150):
        data = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        damaged = list(words)
        damaged[rng.randrange(len(words))] = rng.choice(
            [*words, "", "{", "}", "[", "-", "to max", "group", "map<int32,"]
        )
        for text in (base64.b64encode(data).decode(), " ".join(damaged)):
            try:
                schema = read(text)
            except InvalidSchema:
                continue
            assert read(schema.text).text == schema.text, seed
            assert read(schema.formatted("serialized")).normalized().text == schema.normalized().text, seed
