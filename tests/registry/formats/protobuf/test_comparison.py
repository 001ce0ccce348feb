"""Which changes keep readers from reading, by Protobuf's rules and Confluent's names for them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kmini.registry.formats.protobuf_format import ProtobufFormat
from kmini.registry.formats.schema_format import ResolvedReference


def read(text: str, *references: ResolvedReference) -> Any:
    syntax = "" if text.lstrip().startswith("syntax") else 'syntax = "proto3"; '
    return ProtobufFormat().read(syntax + text, references)


def kinds(reader: str, writer: str) -> list[str]:
    return [difference.kind for difference in read(reader).differences(read(writer))]


def m(fields: str) -> str:
    return f"message M {{ {fields} }}"


COMPATIBLE = {
    # name: reader, writer
    "the same": (m("int32 a = 1;"), m("int32 a = 1;")),
    "a field was added": (m("int32 a = 1; string b = 2;"), m("int32 a = 1;")),
    "a field was removed": (m("int32 a = 1;"), m("int32 a = 1; string b = 2;")),
    "a removed field was reserved": (m("reserved 2; int32 a = 1;"), m("int32 a = 1; string b = 2;")),
    "messages have another order": (m("") + "message N {}", "message N {}" + m("")),
    "a field has another number": (m("int32 a = 2;"), m("int32 a = 1;")),
    "a type is named in full": (m("N n = 1; message N {}"), m(".M.N n = 1; message N {}")),
    "a field has another name": (m("int32 other = 1;"), m("int32 a = 1;")),
    "a message was added": (m("") + "message N {}", m("")),
    "a nested message was added": (m("message N {}"), m("")),
    "an enum was added": (m("") + "enum E { A = 0; }", m("")),
    "an enum was removed": (m("int32 a = 1;"), m("E a = 1;") + "enum E { A = 0; }"),
    "a value of an enum was added": (m("E e = 1;") + "enum E { A = 0; B = 1; }", m("E e = 1;") + "enum E { A = 0; }"),
    "a value of an enum was removed": (m("E e = 1;") + "enum E { A = 0; }", m("E e = 1;") + "enum E { A = 0; B = 1; }"),
    "a oneof was added": (m("oneof o { int32 b = 2; } int32 a = 1;"), m("int32 a = 1;")),
    "a field was added to a oneof": (m("oneof o { int32 a = 1; int32 b = 2; }"), m("oneof o { int32 a = 1; }")),
    "one field moved into a new oneof": (m("oneof o { int32 a = 1; }"), m("int32 a = 1;")),
    "one field moved into a new oneof with a new one": (m("oneof o { int32 a = 1; int32 b = 2; }"), m("int32 a = 1;")),
    "the fields of a oneof moved out of it": (
        m("int32 a = 1; int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
    ),
    "one field moved out of a oneof": (
        m("oneof o { int32 a = 1; } int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
    ),
    "a oneof has another name": (
        m("oneof p { int32 a = 1; int32 b = 2; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
    ),
    "a field became optional": (m("optional int32 a = 1;"), m("int32 a = 1;")),
    "two fields became optional": (m("optional int32 a = 1; optional int32 b = 2;"), m("int32 a = 1; int32 b = 2;")),
    "a string became repeated": (m("repeated string a = 1;"), m("string a = 1;")),
    "repeated bytes became one": (m("bytes a = 1;"), m("repeated bytes a = 1;")),
    "a message became repeated": (m("repeated M a = 1;"), m("M a = 1;")),
    "proto2 became proto3": (
        "syntax = 'proto3'; " + m("int32 a = 1;"),
        "syntax = 'proto2'; " + m("optional int32 a = 1;"),
    ),
    "required became optional": (
        "syntax = 'proto2'; " + m("optional int32 a = 1;"),
        "syntax = 'proto2'; " + m("required int32 a = 1;"),
    ),
    "a service changed": (
        m("") + "service S { rpc B (M) returns (M); }",
        m("") + "service S { rpc A (M) returns (M); }",
    ),
    "options changed": ("option java_package = 'a'; " + m("int32 a = 1 [deprecated = true];"), m("int32 a = 1;")),
    "a group became a message of its name": (
        "syntax = 'proto2'; " + m("optional G g = 1; message G { optional int32 a = 1; }"),
        "syntax = 'proto2'; " + m("optional group G = 1 { optional int32 a = 1; }"),
    ),
}

INCOMPATIBLE = {
    "the package changed": ("package b; " + m("M a = 1;"), "package a; " + m("M a = 1;"), ["PACKAGE_CHANGED"]),
    "a message was removed": (m(""), m("") + "message N {}", ["MESSAGE_REMOVED"]),
    "a nested message was removed": (m(""), m("message N {}"), ["MESSAGE_REMOVED"]),
    "a message has another name": ("message N { int32 a = 1; }", m("int32 a = 1;"), ["MESSAGE_REMOVED"]),
    "a scalar became a message": (m("M a = 1;"), m("int32 a = 1;"), ["FIELD_KIND_CHANGED"]),
    "a message became bytes": (m("bytes a = 1;"), m("M a = 1;"), ["FIELD_KIND_CHANGED"]),
    "a map became a message": (m("repeated M a = 1;"), m("map<int32, int32> a = 1;"), ["FIELD_KIND_CHANGED"]),
    "an int became a string": (m("string a = 1;"), m("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "an int became zigzag": (m("sint32 a = 1;"), m("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "an int became fixed": (m("fixed32 a = 1;"), m("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "4 bytes became 8": (m("fixed64 a = 1;"), m("fixed32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "a float became a double": (m("double a = 1;"), m("float a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "an enum became a string": (m("string a = 1;"), m("E a = 1; enum E { A = 0; }"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "the keys of a map changed": (m("map<string, M> a = 1;"), m("map<int32, M> a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    "a message became another one": (
        m("N a = 1;") + "message N {} message O {}",
        m("O a = 1;") + "message N {} message O {}",
        ["FIELD_NAMED_TYPE_CHANGED"],
    ),
    "a number became repeated": (m("repeated int32 a = 1;"), m("int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
    "a repeated enum became one": (
        m("E a = 1;") + "enum E { A = 0; }",
        m("repeated E a = 1;") + "enum E { A = 0; }",
        ["FIELD_NUMERIC_LABEL_CHANGED"],
    ),
    "a required field was added": (
        "syntax = 'proto2'; " + m("required int32 a = 1;"),
        "syntax = 'proto2'; " + m(""),
        ["REQUIRED_FIELD_ADDED"],
    ),
    "an optional field became required": (
        "syntax = 'proto2'; " + m("required int32 a = 1;"),
        "syntax = 'proto2'; " + m("optional int32 a = 1;"),
        ["REQUIRED_FIELD_ADDED"],
    ),
    "a required field was removed": (
        "syntax = 'proto2'; " + m(""),
        "syntax = 'proto2'; " + m("required int32 a = 1;"),
        ["REQUIRED_FIELD_REMOVED"],
    ),
    "a field of a oneof was removed": (
        m("oneof o { int32 a = 1; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["ONEOF_FIELD_REMOVED"],
    ),
    "two fields moved into a new oneof": (
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("int32 a = 1; int32 b = 2;"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
    ),
    "two optional fields moved into a new oneof": (
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("optional int32 a = 1; optional int32 b = 2;"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
    ),
    "a field moved into a oneof that was there": (
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("oneof o { int32 a = 1; } int32 b = 2;"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF"],
    ),
    "a field moved into a oneof that has another name": (
        m("oneof p { int32 a = 1; int32 b = 2; int32 c = 3; }"),
        m("int32 a = 1; oneof o { int32 b = 2; int32 c = 3; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF"],
    ),
    "a field in a message of a field changed": (
        m("N n = 1; message N { string a = 1; }"),
        m("N n = 1; message N { int32 a = 1; }"),
        ["FIELD_SCALAR_KIND_CHANGED"],
    ),
    "an extension changed": (
        "syntax = 'proto2'; " + m("extensions 1 to 9;") + "extend M { optional string x = 1; }",
        "syntax = 'proto2'; " + m("extensions 1 to 9;") + "extend M { optional int32 y = 1; }",
        ["FIELD_SCALAR_KIND_CHANGED"],
    ),
}

SAME_ON_THE_WIRE = [
    ("int32", "uint32", "int64", "uint64", "bool", "E"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
]


@pytest.mark.parametrize(("reader", "writer"), COMPATIBLE.values(), ids=COMPATIBLE.keys())
def test_readers_can_read_although(reader: str, writer: str) -> None:
    assert kinds(reader, writer) == []


@pytest.mark.parametrize(("reader", "writer", "expected"), INCOMPATIBLE.values(), ids=INCOMPATIBLE.keys())
def test_readers_cannot_read_where(reader: str, writer: str, expected: list[str]) -> None:
    assert kinds(reader, writer) == expected


def test_types_of_one_group_read_each_other_and_no_others() -> None:
    enum = "enum E { A = 0; }"
    for group in SAME_ON_THE_WIRE:
        for ours in group:
            for other in SAME_ON_THE_WIRE:
                for theirs in other:
                    expected = [] if group is other else ["FIELD_SCALAR_KIND_CHANGED"]
                    assert kinds(m(f"{ours} a = 1;") + enum, m(f"{theirs} a = 1;") + enum) == expected, (ours, theirs)


def test_a_difference_says_where_it_is_and_names_both_sides() -> None:
    (difference,) = read("package p; message Order { string price = 3; }").differences(
        read("package p; message Order { int32 price = 3; }")
    )
    assert difference.path == "#/Order/3"
    assert difference.told == (
        'The field "price" is of type string, bytes after their length in a record; the writer\'s is of type int32, a '
        "number of variable length."
    )


def test_messages_of_imports_are_compared_where_a_field_has_them() -> None:
    text = 'import "n.proto"; message M { N n = 1; map<string, N> by = 2; }'
    old, new = (
        read(text, ResolvedReference("n.proto", f'syntax = "proto3"; message N {{ {field} a = 1; }}'))
        for field in ("int32", "string")
    )
    assert [(d.kind, d.path) for d in new.differences(old)] == [("FIELD_SCALAR_KIND_CHANGED", "#/N/1")]


def imports(package: str, declared: str, named: str) -> Any:
    """A schema whose field has a type of a file that it imports."""
    file = ResolvedReference("n.proto", f'syntax = "proto3"; package {package}; {declared}')
    return read(f'import "n.proto"; message M {{ .{named} n = 1; }}', file)


HOME = "message Home { int32 a = 1; }"


def test_types_of_imports_are_the_same_by_their_names_within_their_packages() -> None:
    here = read(f"message M {{ Home n = 1; }} {HOME}")
    one, other = imports("a.one", HOME, "a.one.Home"), imports("a.other", HOME, "a.other.Home")
    nested = [imports(name, f"message Outer {{ {HOME} }}", f"{name}.Outer.Home") for name in ("a.one", "a.other")]
    in_package = imports("a.one.Outer", HOME, "a.one.Outer.Home")
    renamed = imports("a.one", HOME.replace("Home", "House"), "a.one.House")
    for reader, writer, expected in (
        (other, one, []),
        (nested[1], nested[0], []),
        (here, one, []),
        (one, here, ["MESSAGE_REMOVED"]),  # records of Home alone name their message by its place in the file
        (nested[0], one, ["FIELD_NAMED_TYPE_CHANGED"]),
        (renamed, one, ["FIELD_NAMED_TYPE_CHANGED"]),
        (in_package, nested[0], []),  # the same full name
    ):
        assert [difference.kind for difference in reader.differences(writer)] == expected


def test_messages_in_a_circle_end() -> None:
    text = "message M { N n = 1; } message N { M m = 1; repeated N n = 2; }"
    assert kinds(text, text) == []


# A record of the writer, read with the reader's schema: where there is no difference, what both know is equal.

_NUMBERS = ["int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "sfixed64", "bool", "double", "string"]
_TYPES = st.sampled_from([*_NUMBERS, "bytes", "E", "N", "map<string, int32>"])


@st.composite
def schemas(draw: st.DrawFn) -> str:
    numbers = draw(st.lists(st.integers(1, 5), unique=True, max_size=5))
    fields = []
    for number in numbers:
        kind = draw(_TYPES)
        label = "" if kind.startswith("map") else draw(st.sampled_from(["", "", "repeated ", "optional "]))
        fields.append((label, f"{kind} f{number} = {number};"))
    in_oneof = [field for label, field in fields if not label and "map" not in field and draw(st.booleans())]
    rest = [label + field for label, field in fields if label or field not in in_oneof]
    oneof = f"oneof o {{ {' '.join(in_oneof)} }}" if in_oneof else ""
    other = draw(st.sampled_from(["int32 x = 1;", "int64 x = 1;", "string x = 1;", ""]))
    return m(" ".join(rest) + oneof) + f"message N {{ {other} }} enum E {{ A = 0; B = 1; }}"


_VALUES: dict[int, Any] = {
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_BYTES: b"text",
    FieldDescriptor.TYPE_DOUBLE: 1.5,
    FieldDescriptor.TYPE_BOOL: True,
}


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def fill(message: Any) -> None:
    """Set every field to a value that each type of its group has: 1 for numbers of variable length."""
    for field in message.DESCRIPTOR.fields:
        holder = getattr(message, field.name)
        if is_map(field):
            holder["k"] = 1
        elif field.message_type is not None:
            member = holder.add() if field.is_repeated else holder
            member.SetInParent()
            fill(member)
        elif field.is_repeated:
            holder.append(_VALUES.get(field.type, 1))
        else:
            setattr(message, field.name, _VALUES.get(field.type, 1))


def seen(message: Any, known: Any) -> dict[int, Any]:
    """The values by number of the fields that the message `known` has, too: the last one of repeated ones, and text as
    its bytes, which is what a reader with another type of the group sees."""
    values: dict[int, Any] = {}
    for field, value in message.ListFields():
        counterpart = known.fields_by_number.get(field.number)
        if counterpart is None:
            continue
        if is_map(field):
            values[field.number] = dict(value)
            continue
        last = value[-1] if field.is_repeated else value
        if field.message_type is not None:
            values[field.number] = seen(last, counterpart.message_type)
        else:
            values[field.number] = last.encode() if isinstance(last, str) else last
    return values


@settings(max_examples=150, deadline=None)
@given(schemas(), schemas())
def test_where_nothing_differs_a_record_reads_as_it_was_written(ours: str, theirs: str) -> None:
    reader, writer = read(ours), read(theirs)
    assume(not reader.differences(writer))
    reading, writing = (
        message_factory.GetMessageClass(schema.descriptor.message_types_by_name["M"]) for schema in (reader, writer)
    )
    written = writing()
    fill(written)
    got = reading.FromString(written.SerializeToString())
    assert seen(got, writing.DESCRIPTOR) == seen(written, reading.DESCRIPTOR)
