"""A .proto text means to kmini what it means to protoc, and its new text means the same again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.files import Files
from kmini.registry.formats.protobuf.options import in_pool
from kmini.registry.formats.protobuf.parser import SCALARS, parse
from kmini.registry.formats.protobuf.writing import write
from kmini.registry.formats.schema_format import InvalidSchema
from support.protoc import compiled

TEXTS = {
    "nothing but a package": 'syntax = "proto3"; package a.b.c;',
    "no syntax": "message M { optional string a = 1; }",
    "scalars": "message M {"
    + " ".join(
        f"optional {name} f_{name} = {number};"
        for number, name in enumerate(
            SCALARS,
            1,
        )
    )
    + "}",
    "labels": "message M { required int32 a = 1; optional int32 b = 2; repeated int32 c = 3 [packed = true]; }",
    "optional fields of proto3": """
        syntax = "proto3";
        message M { optional int32 a = 1; oneof o { string s = 2; } optional M _a = 3; int32 X_a = 4; string b = 5;
        }""",
    "maps": """
        syntax = "proto3";
        message M { map<string, int32> a_b = 1; map < sint64 , M > _c = 2; map<bool, E> D__e9f = 3; }
        enum E { ZERO = 0; }""",
    "maps between nested messages": """
        syntax = "proto3";
        message M {
          message Before { map<string, Inner> x = 1; message Inner {} }
          map<string, Before> a = 1; message Between {} Between b = 2; map<string, Between> c = 3; message After {}
          }""",
    "oneofs": """
        syntax = "proto3";
        message M { int32 a = 1; oneof first { int32 b = 2; M c = 3; } oneof second { string d = 4; } int32 e = 5; }""",
    "groups": """
        message M {
          message First {}
          repeated group Line = 1 { optional Line inner = 1; required group Deep = 2 [deprecated = true] {} }
          oneof o { group Choice = 2 { optional int32 x = 1; } string s = 3; }
          message Last {}
          extensions 100 to 200;
        }
        extend M { optional group Added = 100 { optional int32 y = 1; } }
        message After {}""",
    "names by scope": """
        syntax = "proto3";
        package a.b;
        message M {
          message M { message N {} N n = 1; M m = 2; .a.b.M o = 3; b.M p = 4; a.b.M.M q = 5; }
          M inner = 1; enum E { Z = 0; } E e = 2; M.N n = 3; Other other = 4; }
        message Other { M.E e = 1; }""",
    "a type of the name of a field": """
        syntax = "proto3"; message Kind {} message M { Kind Kind = 1; message Inner { Kind kind = 1; } }""",
    "words of the language as names": """
        syntax = "proto3";
        message message { string string = 1; optional int32 optional = 2; repeated bool package = 3; bytes map = 4;
        bool option = 5;
                          enum enum { rpc = 0; max = 1; } }
        service service { rpc rpc (message) returns (stream message); }""",
    "enums": """
        enum E { option allow_alias = true; A = 1; B = -5; C = 0x1F; D = 1 [deprecated = true]; E_OCT = 017;
                 reserved 40 to 50, -10 to -7, 100 to max; reserved "F", "G"; }""",
    "reserved": 'message M { reserved 1, 3 to 5, 1000 to max; reserved "a" "b", \'c\'; }',
    "extensions": """
        package p;
        message M { extensions 4, 10 to 20; extensions 1000 to max;
                    extend M { optional int32 nested = 4; } }
        extend M { optional string outer = 10; repeated M more = 11; }""",
    "a message set": """
        message M { option message_set_wire_format = true; extensions 4 to max; extend M { optional M item = 5; } }""",
    "defaults": r"""
        message M {
          optional int32 a = 1 [default = -0x10]; optional uint64 b = 2 [default = 18446744073709551615];
          optional int64 c = 3 [default = -9223372036854775808]; optional bool d = 4 [default = true];
          optional double e = 5 [default = 1.5e300]; optional double f = 6 [default = -inf];
          optional float g = 7 [default = nan]; optional float h = 8 [default = 0.1];
          optional float i = 9 [default = 7];
          optional double j = 10 [default = 0.1]; optional double k = 11 [default = 1e5];
          optional double l = 12 [default = 123456789.123456789]; optional float m = 13 [default = 1e10];
          optional string n = 14 [default = "a\"b\\c\n\t\x41\101é\u00e9"];
          optional bytes o = 15 [default = "\001\xff\"'é" 'more'];
          optional E p = 16 [default = TWO]; optional float q = 17 [default = 16777217];
          optional float r = 18 [default = 3.4028235e38]; optional float s = 19 [default = .5];
          optional double t = 20 [default = 1e-7]; optional sint32 u = 21 [default = 00];
          enum E { ONE = 1; TWO = 2; } }""",
    "names in JSON": """
        syntax = "proto3";
        message M { int32 foo_bar = 1; int32 _x = 2; int32 y_1z = 3; int32 a__b = 4;
        int32 named = 5 [json_name = "@n\\"" ];
                    int32 UPPER_case = 6; }""",
    "own options": """
        syntax = "proto3";
        option java_package = "a.b"; option java_multiple_files = true; option optimize_for = CODE_SIZE;
        option go_package = 'x/' "y"; option cc_enable_arenas = false;
        message M { option deprecated = true; repeated int32 a = 1 [packed = false, deprecated = true];
                    int64 b = 2 [jstype = JS_STRING, debug_redact = true, targets = TARGET_TYPE_FIELD,
                                  targets = TARGET_TYPE_FILE]; }""",
    "options of extensions": """
        syntax = "proto2";
        package my.pkg;
        import "google/protobuf/descriptor.proto";
        option (about).owner = "me"; option (about).level = 3; option (tags) = "a"; option (tags) = "b";
        message About { optional string owner = 1; optional int32 level = 2; repeated Part parts = 3;
                        map<string, Part> by_name = 4; extensions 100 to 110; }
        message Part { optional double weight = 1; optional Kind kind = 2; repeated bytes raw = 3;
        optional Part part = 4; }
        enum Kind { NONE = 0; SOME = 1; }
        extend About { optional string extra = 100; }
        extend google.protobuf.FileOptions { optional About about = 50000; repeated string tags = 50001; }
        extend google.protobuf.FieldOptions { optional About field_about = 50000; optional sfixed64 number = 50001;
          optional float ratio = 50002; optional bool flag = 50003; optional Kind kind = 50004;
          optional bytes raw = 50005;
          optional uint32 size = 50006; }
        extend google.protobuf.MessageOptions { repeated About notes = 50000; }
        extend google.protobuf.EnumOptions { optional string enum_note = 50000; }
        extend google.protobuf.EnumValueOptions { optional string value_note = 50000; }
        extend google.protobuf.OneofOptions { optional string oneof_note = 50000; }
        extend google.protobuf.ServiceOptions { optional string service_note = 50000; }
        extend google.protobuf.MethodOptions { optional About method_about = 50000; }
        message M {
          option (notes) = { owner: "x" parts { weight: 1.5 kind: SOME raw: "\\001" } parts: [{weight: -inf}, {}] };
          option (my.pkg.notes) = { by_name { key: "k" value < part { part { } } > } [my.pkg.extra]: "e" };
          optional int32 a = 1 [(field_about) = { owner: 'q' "r", level: -5; }, (number) = -7, (ratio) = 1,
                                (flag) = true, (kind) = SOME, (.my.pkg.raw) = "\\377\\000", (pkg.size) = 4];
          optional int32 b = 2 [(field_about).(extra) = "z", (field_about).owner = "o"];
          oneof o { option (oneof_note) = "one"; int32 c = 3; }
        }
        enum E { option (enum_note) = "e"; A = 0 [(value_note) = "v"]; }
        service S { option (service_note) = "s"; rpc R (M) returns (M) { option (method_about) = { level: 9 };
                    option idempotency_level = IDEMPOTENT; } }""",
    "services": """
        syntax = "proto3"; package p; message M {}
        service S { rpc A (M) returns (M); rpc B (stream .p.M) returns (stream p.M) { option deprecated = true; }; ;
        }""",
    "comments and empty statements": """
        /* before */ syntax /* in */ = "proto3" // after
        ; ; package /* x */ a . b ;
        message M { // {
          ; string /* "; */ a /**/ = /* 2 */ 1 [ /* ( */ deprecated = true // ]
          ] ; }
        // end without a line's end""",
    "Protobuf's own types": """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
        import "google/protobuf/struct.proto";
        message M { google.protobuf.Timestamp t = 1; .google.protobuf.Any a = 2; google.protobuf.Value v = 3; }""",
    "editions": """
        edition = "2023";
        option features.field_presence = IMPLICIT; option features.enum_type = CLOSED;
        message M { int32 a = 1; int32 b = 2 [features.field_presence = EXPLICIT, default = 5]; repeated int32 c = 3;
                    M d = 4 [features.message_encoding = DELIMITED]; reserved foo, bar; map<string, M> e = 5;
                    string f = 6 [features.field_presence = LEGACY_REQUIRED, features.utf8_validation = NONE]; }
        enum E { A = 5; reserved B; }""",
}


def read(text: str, declared: dict[str, Any] | None = None) -> tuple[Any, Files]:
    files = Files(declared or {})
    return files.add("x.proto", parse(text)), files


def comparable(file: pb.FileDescriptorProto, files: Files) -> Any:
    """A descriptor with what its options mean, and without the empty options that braces of a method leave."""
    copy = pb.FileDescriptorProto()
    copy.CopyFrom(file)
    for service in copy.service:
        for method in service.method:
            if not method.options.ListFields():
                method.ClearField("options")
    return in_pool(copy, files.pool)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_means_what_it_means_to_protoc(text: str, tmp_path: Path) -> None:
    expected = compiled(tmp_path, {"x.proto": text}, of="x.proto")
    file, files = read(text)
    assert comparable(file, files) == comparable(expected, files)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_the_new_text_means_the_same_and_stays(text: str) -> None:
    file, files = read(text)
    written = write(file, files.pool)
    again, files_again = read(written)
    assert comparable(again, files_again) == in_pool_of(files_again, comparable(file, files))
    assert write(again, files_again.pool) == written


def in_pool_of(files: Files, message: Any) -> Any:
    return in_pool(message, files.pool)


def test_protoc_reads_the_new_text_of_each_as_the_same(tmp_path: Path) -> None:
    for number, text in enumerate(TEXTS.values()):
        file, files = read(text)
        folder = tmp_path / str(number)
        expected = compiled(folder, {"x.proto": write(file, files.pool)}, of="x.proto")
        assert comparable(file, files) == comparable(expected, files)


def test_imports_show_what_protoc_says_they_show(tmp_path: Path) -> None:
    texts = {
        "lib/deep.proto": 'syntax = "proto3"; package lib.deep; message D {}',
        "lib/middle.proto": """syntax = "proto3"; package lib;
            import public "lib/deep.proto"; message M { deep.D d = 1; }""",
        "x.proto": """syntax = "proto3"; package lib.x;
            import "lib/middle.proto"; message X { M m = 1; deep.D d = 2; }""",
    }
    expected = compiled(tmp_path, texts, of="x.proto")
    file, files = read(texts["x.proto"], {path: parse(text) for path, text in texts.items()})
    assert comparable(file, files) == comparable(expected, files)


# A text, and under it what is told of it.
_WRONG = r"""
message M { optional string a 1; }
    Expected "=", found 1 (line 1, column 31).
message M {\n  string a = 1;\n}
    Expected a label of the field ("required", "optional" or "repeated"), found string (line 2, column 3).
message M {;
    Expected a label of the field ("required", "optional" or "repeated"), found the end of the text (line 1, column 13).
syntax = "proto4";
    The syntax is "proto4"; Protobuf has "proto2", "proto3" and editions.
edition = "1999";
    The edition is "1999"; this registry reads 2023 and 2024.
message M { optional Missing m = 1; }
    The field "M.m" names "Missing", which neither the schema nor its imports declare; expected a message or enum.
package p; message M { optional p m = 1; }
    The field "p.M.m" names "p", which is a package; expected a message or enum.
message M { optional int32 a = 1; optional int32 b = 1; }
    The schema is no valid Protobuf: duplicate field number (1).
message M { optional int32 a = 0; }
    The number 0 is none that a field can have (line 1, column 32).
message M { optional int32 a = 19500; }
    The field "M.a" has the number 19500; 19000 to 19999 are Protobuf's own.
message M { reserved 1 to 5; optional int32 a = 3; }
    The field "M.a" has the number 3, which its message reserves.
message M { reserved "a"; optional int32 a = 3; }
    The field "M.a" has a name that its message reserves.
message M { extensions 3; optional int32 a = 3; }
    The field "M.a" has the number 3, which its message leaves to extensions.
message M { reserved 1 to 5, 4; }
    In "M" the ranges 1 to 5 and 4 to 4 overlap.
message M { reserved 5 to 1; }
    The range 5 to 1 is none of numbers up to 536870911, first to last (line 1, column 22).
enum E { A = 0; B = 0; }
    The value "B" of the enum "E" has the number of "A"; the option allow_alias = true would permit it.
syntax = "proto3"; enum E { A = 1; }
    The schema is no valid Protobuf: for open enums, the first value must be zero (E).
syntax = "proto3"; message M { required int32 a = 1; }
    The schema is no valid Protobuf: proto3 fields cannot be required (M.a).
syntax = "proto3"; message M {} extend M { int32 a = 1; }
    "a" extends "M": proto3 extends only the options of descriptor.proto.
message M { optional int32 a = 1 [default = 3000000000]; }
    The default of the field "a" is no number that fits its type.
message M { repeated int32 a = 1 [default = 3]; }
    The field "a" is repeated, and so has no default.
message M { optional M a = 1 [default = B]; }
    The field "M.a" has a message as its type, and so no default.
option java_packages = 'a';
    The file has the option "java_packages": there is no option "java_packages" here.
option java_package = 5;
    The file has the option "java_package": its value does not suit its type.
option java_package = 'a'; option java_package = 'b';
    The file has the option "java_package": it is given twice.
option (nowhere) = 'a';
    The file has the option "(nowhere)": neither the schema nor its imports declare the extension "nowhere".
import 'missing.proto';
    The schema imports "missing.proto", which is neither among its references nor a file that every schema may …
message M { optional string a = 1 [default = 'x]; }
    A string has no end on its line (line 1, column 46).
message M {} /* x
    A comment begins with /* and has no end (line 1, column 14).
message Mé {}
    The character 'é' has no place in a .proto text (line 1, column 10).
option java_package = '\q';
    The escape \q is none that Protobuf's strings have.
message M { optional int32 a = 089; }
    The number "089" begins with 0, so is octal, and has other digits (line 1, column 32).
package a; package b;
    A .proto text has one package; this one has two.
syntax = "proto3"; message M { oneof o { map<string, string> m = 1; } }
    The oneof "o" holds a map, which no oneof may.
"""


@pytest.mark.parametrize("pair", re.findall(r"^(\S.*)\n    (.*)$", _WRONG, re.MULTILINE))
def test_a_wrong_text_is_told_with_its_place(pair: tuple[str, str]) -> None:
    text, told = pair
    with pytest.raises(InvalidSchema) as refused:
        read(text.replace("\\n", "\n"))
    if told.endswith(" …"):
        assert str(refused.value).startswith(told.removesuffix("…"))
    else:
        assert str(refused.value) == told
