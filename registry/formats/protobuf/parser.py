"""A .proto text to its FileDescriptorProto, as its declarations stand there: names of types are as they were written,
and options are `uninterpreted_option`. linking.py and options.py give both their meaning.

The public library for this (proto-schema-parser 2.1) was tried: it writes the errors of a text to stderr and goes on,
takes a comment within a declaration for a part of a name, and drops the options of groups.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.message_parser import MessageParser
from kmini.registry.formats.protobuf.option_parser import parse_option_statement
from kmini.registry.formats.protobuf.tokens import Tokens
from kmini.registry.formats.schema_format import InvalidSchema

_EDITIONS = {"2023": pb.EDITION_2023, "2024": pb.Edition.Value("EDITION_2024")}
"""The editions whose rules are known; the library that builds the descriptors judges whether it serves one."""


def parse(text: str) -> pb.FileDescriptorProto:
    """The declarations of a text. Raises InvalidSchema, with line and column."""
    return _FileParser(Tokens(text)).parse()


class _FileParser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._file = pb.FileDescriptorProto()

    def parse(self) -> pb.FileDescriptorProto:
        self._syntax()
        messages = MessageParser(self._tokens, self._file.syntax or "proto2")
        while self._tokens.peek().kind != "end":
            self._declaration(messages)
        return self._file

    def _syntax(self) -> None:
        tokens = self._tokens
        if tokens.skips("syntax"):
            tokens.expect("=")
            syntax = tokens.text_string('"proto2" or "proto3"')
            if syntax not in ("proto2", "proto3"):
                raise InvalidSchema(f'The syntax is "{syntax[:60]}"; Protobuf has "proto2", "proto3" and editions.')
            if syntax == "proto3":  # descriptors leave proto2 out, as protoc does
                self._file.syntax = syntax
            tokens.expect(";")
        elif tokens.skips("edition"):
            tokens.expect("=")
            edition = tokens.text_string('an edition, such as "2023"')
            if edition not in _EDITIONS:
                raise InvalidSchema(f'The edition is "{edition[:60]}"; this registry reads {" and ".join(_EDITIONS)}.')
            self._file.syntax = "editions"
            self._file.edition = _EDITIONS[edition]
            tokens.expect(";")

    def _declaration(self, messages: MessageParser) -> None:
        tokens, file = self._tokens, self._file
        if tokens.skips(";"):
            return
        if tokens.skips("message"):
            messages.message(file.message_type.add())
        elif tokens.skips("enum"):
            messages.enum(file.enum_type.add())
        elif tokens.skips("extend"):
            messages.extend(file.extension, file.message_type)
        elif tokens.skips("service"):
            self._service()
        elif tokens.skips("import"):
            self._import()
        elif tokens.skips("option"):
            parse_option_statement(tokens, file.options)
        elif tokens.skips("package"):
            if file.HasField("package"):
                raise InvalidSchema("A .proto text has one package; this one has two.")
            file.package = tokens.type_name("the package").removeprefix(".")
            tokens.expect(";")
        else:
            raise tokens.unexpected("a declaration, such as message, enum, import, option or service")

    def _import(self) -> None:
        tokens, file = self._tokens, self._file
        place = len(file.dependency)
        if tokens.skips("public"):
            file.public_dependency.append(place)
        elif tokens.skips("weak"):
            file.weak_dependency.append(place)
        path = tokens.text_string("the path of an import")
        if path in file.dependency:
            raise InvalidSchema(f'The schema imports "{path}" twice.')
        file.dependency.append(path)
        tokens.expect(";")

    def _service(self) -> None:
        tokens = self._tokens
        service = self._file.service.add(name=tokens.identifier("the name of a service"))
        tokens.expect("{")
        while not tokens.skips("}"):
            if tokens.skips(";"):
                continue
            if tokens.skips("option"):
                parse_option_statement(tokens, service.options)
            elif tokens.skips("rpc"):
                self._method(service.method.add())
            else:
                raise tokens.unexpected("rpc, option or }")

    def _method(self, method: Any) -> None:
        tokens = self._tokens
        method.name = tokens.identifier("the name of a method")
        method.input_type, streams = self._method_type()
        if streams:
            method.client_streaming = True
        tokens.expect("returns")
        method.output_type, streams = self._method_type()
        if streams:
            method.server_streaming = True
        if tokens.skips(";"):
            return
        tokens.expect("{")
        while not tokens.skips("}"):
            if tokens.skips(";"):
                continue
            tokens.expect("option")
            parse_option_statement(tokens, method.options)

    def _method_type(self) -> tuple[str, bool]:
        tokens = self._tokens
        tokens.expect("(")
        streams = tokens.sees("stream") and tokens.peek(1).text != ")"
        if streams:
            tokens.take()
        name = tokens.type_name("the type of a message")
        tokens.expect(")")
        return name, streams
