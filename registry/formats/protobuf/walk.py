"""The declarations of a FileDescriptorProto, each with the scope that names in it are looked up in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

TYPES = ("message", "enum")


class TypeName(NamedTuple):
    """A place where a declaration names a type."""

    owner: Any
    attribute: str
    scope: str
    accepted: tuple[str, ...]
    """What the name may stand for."""
    told: str
    """The declaration, for a sentence."""


class Declaration(NamedTuple):
    """A declaration that may have options."""

    proto: Any
    scope: str
    """Where names in its options are looked up."""
    told: str
    kind: str = ""
    """What its name stands for: message, enum, value, field, extension, oneof, service or method. Empty without one."""
    name: str = ""
    """The full name."""


def joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def each_message(file: Any) -> Iterator[tuple[str, Any]]:
    """The full name and the declaration of each message, outer ones first."""
    waiting = [(joined(file.package, message.name), message) for message in reversed(file.message_type)]
    while waiting:
        name, message = waiting.pop()
        yield name, message
        waiting += [(joined(name, nested.name), nested) for nested in reversed(message.nested_type)]


def each_enum(file: Any) -> Iterator[tuple[str, Any]]:
    """The full name and the declaration of each enum."""
    for scope, holder in _holders(file):
        for enum in holder.enum_type:
            yield joined(scope, enum.name), enum


def each_field(file: Any) -> Iterator[tuple[str, Any, bool]]:
    """The scope and the declaration of each field, and whether it is an extension."""
    for scope, holder in _holders(file):
        if holder is not file:
            for field in holder.field:
                yield scope, field, False
        for field in holder.extension:
            yield scope, field, True


def each_type_name(file: Any) -> Iterator[TypeName]:
    """The places where the file names types."""
    for scope, field, extends in each_field(file):
        told = f'The field "{joined(scope, field.name)}"'
        if extends:
            yield TypeName(field, "extendee", scope, ("message",), told)
        if field.type_name:
            yield TypeName(field, "type_name", scope, TYPES, told)
    for service in file.service:
        scope = joined(file.package, service.name)
        for method in service.method:
            told = f'The method "{joined(scope, method.name)}"'
            yield TypeName(method, "input_type", scope, ("message",), told)
            yield TypeName(method, "output_type", scope, ("message",), told)


def each_declaration(file: Any) -> Iterator[Declaration]:
    """Each declaration that may have options."""
    yield Declaration(file, file.package, "The file")
    for name, message in each_message(file):
        outer = name.rpartition(".")[0]
        yield Declaration(message, outer, f'The message "{name}"', "message", name)
        for oneof in message.oneof_decl:
            inner = joined(name, oneof.name)
            yield Declaration(oneof, name, f'The oneof "{inner}"', "oneof", inner)
        for extensions in message.extension_range:
            yield Declaration(extensions, outer, f'The extensions {extensions.start} and on of "{name}"')
    for scope, field, extends in each_field(file):
        name = joined(scope, field.name)
        yield Declaration(field, scope, f'The field "{name}"', "extension" if extends else "field", name)
    for name, enum in each_enum(file):
        outer = name.rpartition(".")[0]
        yield Declaration(enum, outer, f'The enum "{name}"', "enum", name)
        for value in enum.value:
            told = f'The value "{joined(name, value.name)}"'
            yield Declaration(value, outer, told, "value", joined(outer, value.name))
    for service in file.service:
        name = joined(file.package, service.name)
        yield Declaration(service, file.package, f'The service "{name}"', "service", name)
        for method in service.method:
            inner = joined(name, method.name)
            yield Declaration(method, name, f'The method "{inner}"', "method", inner)


def symbols_of(file: Any) -> dict[str, str]:
    """The full names that a file declares, with their kinds: those of `Declaration`, and package."""
    symbols = {}
    package = file.package
    while package:
        symbols[package] = "package"
        package = package.rpartition(".")[0]
    return symbols | {declared.name: declared.kind for declared in each_declaration(file) if declared.kind}


def _holders(file: Any) -> Iterator[tuple[str, Any]]:
    """The file and its messages, which hold enums and extensions."""
    yield file.package, file
    yield from each_message(file)
