"""Options between their spelling in a .proto text and the message that descriptors keep them in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from kmini.registry.formats.protobuf.field_defaults import (
    FLOATS,
    INTEGERS,
    c_escaped,
    integer_of,
    number_of,
    quoted,
    spelt_float,
)
from kmini.registry.formats.protobuf.linking import KindOf
from kmini.registry.formats.protobuf.names import resolve
from kmini.registry.formats.protobuf.walk import Declaration, each_declaration
from kmini.registry.formats.schema_format import InvalidSchema

_Field = descriptor.FieldDescriptor


def interpret_own_options(file: Any) -> bool:
    """Interpret the options that Protobuf itself declares. Returns whether options of extensions remain, which
    interpret_extensions interprets once the pool knows the file. Raises InvalidSchema."""
    remain = False
    for declaration in each_declaration(file):
        if not declaration.proto.HasField("options"):
            continue
        options = declaration.proto.options
        custom = []
        for option in list(options.uninterpreted_option):
            if any(part.is_extension for part in option.name):
                custom.append(option)
            else:
                _Interpreter(declaration, descriptor_pool.Default(), lambda name: None).interpret(options, option)
        options.ClearField("uninterpreted_option")
        options.uninterpreted_option.extend(custom)
        remain = remain or bool(custom)
    return remain


def without_extensions(file: Any) -> Any:
    """A copy of a file without the options that wait for interpret_extensions."""
    copy = type(file)()
    copy.CopyFrom(file)
    for declaration in each_declaration(copy):
        if declaration.proto.HasField("options"):
            declaration.proto.options.ClearField("uninterpreted_option")
    return copy


def interpret_extensions(file: Any, pool: descriptor_pool.DescriptorPool, kind_of: KindOf) -> None:
    """Interpret the options that extensions declare. Raises InvalidSchema."""
    for declaration in each_declaration(file):
        if not declaration.proto.HasField("options"):
            continue
        waiting = list(declaration.proto.options.uninterpreted_option)
        if not waiting:
            continue
        declaration.proto.options.ClearField("uninterpreted_option")
        options = in_pool(declaration.proto.options, pool)
        for option in waiting:
            _Interpreter(declaration, pool, kind_of).interpret(options, option)
        declaration.proto.options.ParseFromString(options.SerializeToString(deterministic=True))


def spelt_options(options: Any, pool: descriptor_pool.DescriptorPool) -> list[tuple[str, str]]:
    """The names and the values of options as a .proto text spells them, sorted by name. What no extension in `pool`
    declares is left out: a text has no word for it."""
    return sorted(_spelt(in_pool(options, pool), pool), key=lambda spelt: spelt[0])


class _Interpreter:
    """Puts one option into an options message."""

    def __init__(self, declaration: Declaration, pool: descriptor_pool.DescriptorPool, kind_of: KindOf) -> None:
        self._declaration = declaration
        self._pool = pool
        self._kind_of = kind_of
        self._spelt = ""

    def interpret(self, options: Any, option: Any) -> None:
        self._spelt = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
        message = options
        for part in option.name[:-1]:
            field = self._field(message, part)
            if field.message_type is None or _repeated(field):
                raise self._wrong(f'"{part.name_part}" is no message, and so has no members')
            message = _member(message, field)
            message.SetInParent()
        self._set(message, self._field(message, option.name[-1]), option)

    def _field(self, message: Any, part: Any) -> Any:
        if not part.is_extension:
            field = message.DESCRIPTOR.fields_by_name.get(part.name_part)
            if field is None or part.name_part == "uninterpreted_option":
                raise self._wrong(f'there is no option "{part.name_part}" here')
            return field
        full = resolve(part.name_part, self._declaration.scope, self._kind_of, ("extension",))
        if full is None:
            raise self._wrong(f'neither the schema nor its imports declare the extension "{part.name_part}"')
        field = self._pool.FindExtensionByName(full)
        if field.containing_type.full_name != message.DESCRIPTOR.full_name:
            raise self._wrong(f'"{full}" extends {field.containing_type.full_name}, not {message.DESCRIPTOR.full_name}')
        return field

    def _set(self, message: Any, field: Any, option: Any) -> None:
        if not _repeated(field) and _is_set(message, field):
            raise self._wrong("it is given twice")
        if field.message_type is not None:
            if not option.HasField("aggregate_value"):
                raise self._wrong("its value has to be a message in braces")
            member = _member(message, field)
            self._parse(member.add() if _repeated(field) else member, option.aggregate_value)
            return
        value = self._value(field, option)
        if _repeated(field):
            _member(message, field).append(value)
        elif field.is_extension:
            message.Extensions[field] = value
        else:
            setattr(message, field.name, value)

    def _parse(self, message: Any, text: str) -> None:
        message.SetInParent()
        try:
            text_format.Parse(text, message, descriptor_pool=self._pool)
        except (text_format.ParseError, ValueError, TypeError, KeyError) as problem:
            raise self._wrong(f"its value cannot be read: {problem}") from None
        if not message.IsInitialized():
            raise self._wrong("its value lacks a required field")

    def _value(self, field: Any, option: Any) -> Any:
        kind = field.type
        if kind in INTEGERS and (integer := integer_of(option)) is not None:
            least, most = INTEGERS[kind]
            if least <= integer <= most:
                return integer
        elif kind in FLOATS and (number := number_of(option)) is not None:
            return number
        elif kind == _Field.TYPE_BOOL and option.identifier_value in ("true", "false"):
            return option.identifier_value == "true"
        elif kind == _Field.TYPE_ENUM and (value := field.enum_type.values_by_name.get(option.identifier_value)):
            return value.number
        elif kind in (_Field.TYPE_STRING, _Field.TYPE_BYTES) and option.HasField("string_value"):
            return self._string(field, option.string_value)
        raise self._wrong("its value does not suit its type")

    def _string(self, field: Any, data: bytes) -> str | bytes:
        if field.type == _Field.TYPE_BYTES:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self._wrong("its value is not UTF-8") from None

    def _wrong(self, told: str) -> InvalidSchema:
        return InvalidSchema(f'{self._declaration.told} has the option "{self._spelt}": {told}.')


def _spelt(options: Any, pool: descriptor_pool.DescriptorPool, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option" and not field.is_extension:
            continue
        name = prefix + (f"({field.full_name})" if field.is_extension else field.name)
        if name == "features":  # the usual spelling is a line for each feature
            yield from _spelt(value, pool, "features.")
        elif _repeated(field):
            yield from ((name, _spelt_value(field, item, pool)) for item in value)
        else:
            yield name, _spelt_value(field, value, pool)


def _spelt_value(field: Any, value: Any, pool: descriptor_pool.DescriptorPool) -> str:
    if field.message_type is not None:
        text = text_format.MessageToString(value, as_one_line=True, as_utf8=True, descriptor_pool=pool)
        return f"{{ {text} }}" if text else "{}"
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        if named is None:
            raise InvalidSchema(f'The option "{field.full_name}" has the number {value}, which is none of its values.')
        return str(named.name)
    if field.type == _Field.TYPE_STRING:
        return quoted(value)
    if field.type == _Field.TYPE_BYTES:
        return f'"{c_escaped(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return spelt_float(value, field.type) if isinstance(value, float) else str(value)


def in_pool(options: Any, pool: descriptor_pool.DescriptorPool) -> Any:
    """The options as a message that knows the extensions of `pool`."""
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
    message = kind()
    try:
        message.ParseFromString(options.SerializeToString())
    except DecodeError:
        raise InvalidSchema(
            "The descriptor has an option of an extension, the bytes of which cannot be read."
        ) from None
    if not is_text(message):
        raise InvalidSchema("The descriptor has an option of an extension with a string that is not UTF-8.")
    return message


def is_text(message: Any) -> bool:
    """Whether the strings of a message and of those in it are text; the library hands out others as bytes."""
    for declared, members in message.ListFields():
        for field, value in _members(declared, members):
            if field.message_type is not None:
                if not is_text(value):
                    return False
            elif field.type == _Field.TYPE_STRING and isinstance(value, bytes):
                return False
    return True


def _members(field: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """The values of a field, each with its field: those of a map's keys and values have one each."""
    if not _repeated(field):
        yield field, value
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        key_field, value_field = field.message_type.fields
        for key, member in value.items():
            yield key_field, key
            yield value_field, member
    else:
        yield from ((field, member) for member in value)


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _member(message: Any, field: Any) -> Any:
    return message.Extensions[field] if field.is_extension else getattr(message, field.name)


def _is_set(message: Any, field: Any) -> bool:
    if field.is_extension:
        return bool(message.HasExtension(field))
    if field.has_presence:
        return bool(message.HasField(field.name))
    return bool(getattr(message, field.name) != field.default_value)
