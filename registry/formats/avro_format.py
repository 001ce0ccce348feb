"""Avro: schemas read by Apache's `avro`, stored as Java writes them, compared by the rules of schema resolution."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property
from io import BytesIO
from typing import Any
from uuid import UUID

import avro.schema
from avro.errors import AvroException, IgnoredLogicalType
from avro.io import BinaryDecoder, DatumReader
from avro.name import Names
from avro.schema import ArraySchema, EnumSchema, FixedSchema, MapSchema, RecordSchema, UnionSchema
from avro.schema import Schema as AvroType

from kmini.registry.formats.avro_comparison import compare
from kmini.registry.formats.avro_text import NAMED, PRIMITIVES, full_name, normalized_text, stored_text
from kmini.registry.formats.schema_format import Difference, InvalidSchema, ResolvedReference, Schema, SchemaFormat
from kmini.registry.formats.values import LARGEST_EXACT, Undecodable
from kmini.web.json_data import data_to_json

MAX_DEPTH = 300
"""Levels of JSON in a schema. A record in a field of a record is three levels deeper than that one."""

MAX_PARTS = 5_000
"""Fields of a record, and branches of a union: Apache's reader looks at each pair of them."""

# A logical type that the library does not know has no meaning for it, which Avro's specification asks for.
warnings.simplefilter("ignore", IgnoredLogicalType)

_COMPLEX = NAMED | {"array", "map"}
_PARTS_OF = {"array": "items", "map": "values", "record": "fields", "error": "fields"}
"""The attribute that has the schemas inside a schema of each type."""
_SHOWN = 200
"""Most characters that an error has of the reader's message, which can repeat the whole schema."""


class AvroSchema(Schema):
    """A schema, with the types of other schemas that it refers to."""

    def __init__(self, data: Any, references: Sequence[ResolvedReference]) -> None:
        self._data = data
        self._references = references
        names = Names()
        _define(references, names, set())
        self._known = frozenset(names.names)
        self.types = _read(data, names)

    @cached_property
    def text(self) -> str:
        return stored_text(self._data, self._known)

    def normalized(self) -> Schema:
        return AvroSchema(json.loads(normalized_text(self._data, self._known)), self._references)

    def differences(self, writer: Schema) -> Sequence[Difference]:
        assert isinstance(writer, AvroSchema)
        return compare(self.types, writer.types)

    def formatted(self, spelling: str) -> str:
        """With "resolved", the types of other schemas are written where this one uses them first."""
        if spelling != "resolved":
            return self.text
        defined: dict[str, Any] = {}
        for data in _data_of(self._references):
            _find_definitions(data, "", defined)
        return stored_text(_with_definitions(self._data, "", defined, set()), ())

    def value_of(self, data: bytes, place: list[int]) -> Any:
        """The value as JSON has it: a record as an object, a union as its value, bytes as text or {"base64": ...}, and
        of logical types a decimal and a UUID as text, times as ISO 8601. Raises Undecodable."""
        reader = _BoundedReader(self.types, FREE_PARTS + PARTS_PER_BYTE * len(data))
        try:
            return _as_json(reader.read(BinaryDecoder(BytesIO(data))))
        except Undecodable:
            raise
        except RecursionError:
            raise Undecodable("The data have too many values inside each other.") from None
        except _WRONG as problem:
            raise Undecodable(f"The data are no value of the Avro schema: {str(problem)[:200]}.") from None


class AvroFormat(SchemaFormat):
    """Avro, as of its specification 1.12."""

    name = "AVRO"

    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> AvroSchema:
        return AvroSchema(_json(text), references)


def _json(text: str) -> Any:
    """The schema of a text as JSON data. A text that is no JSON is the name of a type, as Java's reader takes it."""
    try:
        data = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise InvalidSchema(f"an Avro schema is JSON, or the name of a primitive type; {error}") from None
    _check_depth(data)
    return _plain(data)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def _finite(word: str) -> float:
    """The number of a JSON text. One beyond a double would be stored as Infinity, which is no JSON."""
    number = float(word)
    if math.isinf(number):
        raise ValueError(f"{_shown(word)} is larger than a double")
    return number


def _too_deep() -> InvalidSchema:
    return InvalidSchema(f"the schema has more than {MAX_DEPTH} levels of JSON")


def _check_depth(data: Any) -> None:
    level, depth = [data], 0
    while level:
        if depth == MAX_DEPTH:
            raise _too_deep()
        depth += 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        level = inner


def _plain(schema: Any) -> Any:
    """The schema with each `{"type": "a.Name"}` written as the name alone, which Java's reader takes for the same and
    Python's does not take. Checks the numbers of branches and fields on the way."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in _bounded("a union", "branches", schema)]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        raise InvalidSchema(f'the "type" of a schema must be a name; it is {_shown(kind)}')
    if kind not in _COMPLEX and kind not in PRIMITIVES:
        return kind
    parts = _PARTS_OF.get(kind)
    # The attributes that hold the parts of other types mean nothing here, and the stored text leaves them out.
    plain = {name: value for name, value in schema.items() if name == parts or name not in _PARTS_OF.values()}
    if parts == "fields":
        if not isinstance(fields := plain.get("fields"), list):
            raise InvalidSchema(f'the "fields" of a record must be a list; it is {_shown(fields)}')
        plain["fields"] = [_plain_field(field) for field in _bounded("a record", "fields", fields)]
    elif parts in plain:
        plain[parts] = _plain(plain[parts])
    if kind == "fixed" and isinstance(plain.get("size"), bool):
        raise InvalidSchema(f'the "size" of a fixed type must be a number of bytes; it is {_shown(plain["size"])}')
    if not isinstance(plain.get("symbols", []), list):
        raise InvalidSchema(f'"symbols" must be a list of names; it is {_shown(plain["symbols"])}')
    for aliases in (plain.get("aliases"), *(field.get("aliases") for field in plain.get("fields", ()))):
        if aliases is not None and not (isinstance(aliases, list) and all(isinstance(one, str) for one in aliases)):
            raise InvalidSchema(f'"aliases" must be a list of names; it is {_shown(aliases)}')
    return plain


def _bounded(of: str, parts: str, found: list[Any]) -> list[Any]:
    """The parts of a union or a record. Raises InvalidSchema where they are too many."""
    if len(found) > MAX_PARTS:
        raise InvalidSchema(f"{of} has {len(found)} {parts}: this registry takes {MAX_PARTS} at most")
    return found


def _plain_field(field: Any) -> Any:
    if not isinstance(field, dict) or "type" not in field:
        raise InvalidSchema(f'a field must be an object with "name" and "type"; it is {_shown(field)}')
    return {**field, "type": _plain(field["type"])}


def _read(data: Any, names: Names) -> avro.schema.Schema:
    """The types of a schema; its names are put among `names`. Raises InvalidSchema."""
    try:
        known = names.get_name(data) if isinstance(data, str) and data not in PRIMITIVES else None
        types = known or avro.schema.make_avsc_object(data, names)
        _check_defaults(types)
    except RecursionError:
        raise _too_deep() from None
    except TooManySteps:
        raise InvalidSchema(f"the defaults of the schema take more than {MAX_STEPS} steps to check") from None
    except (AvroException, TypeError, AttributeError, KeyError) as error:
        raise InvalidSchema(f"this is no Avro schema: {_shown(error)}") from None
    return types


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, Exception) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _check_defaults(schema: avro.schema.Schema) -> None:
    """Check the default of each field, as Confluent's registry does for a new schema. Raises InvalidSchema."""
    check = DefaultCheck()
    seen: set[int] = set()
    left = [schema]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, avro.schema.UnionSchema):
            left.extend(one.schemas)
        elif isinstance(one, avro.schema.ArraySchema):
            left.append(one.items)
        elif isinstance(one, avro.schema.MapSchema):
            left.append(one.values)
        elif isinstance(one, avro.schema.RecordSchema):
            for field in one.fields:
                if field.has_default and not check.fits(field.type, field.default):
                    told = f"the default of the field {field.name!r} is no value of its type: {_shown(field.default)}"
                    raise InvalidSchema(told)
                left.append(field.type)


# --- what a schema refers to


def _in_turn(references: Iterable[ResolvedReference]) -> Iterable[ResolvedReference]:
    """All that a schema refers to; each after what it refers to itself."""
    for reference in references:
        yield from _in_turn(reference.references)
        yield reference


def _data_of(references: Iterable[ResolvedReference]) -> list[Any]:
    return [_json(text) for text in dict.fromkeys(reference.text for reference in _in_turn(references))]


def _define(references: Sequence[ResolvedReference], names: Names, read: set[str]) -> None:
    """Put the types that other schemas define among `names`."""
    for data in _data_of(references):
        names.default_namespace = None
        _read(data, names)
    names.default_namespace = None


def _find_definitions(schema: Any, space: str, found: dict[str, Any]) -> None:
    """Note the definition of each named type in a schema by its full name, with the full name in it."""
    if isinstance(schema, list):
        for branch in schema:
            _find_definitions(branch, space, found)
    elif isinstance(schema, dict):
        inner = space
        if schema["type"] in NAMED:
            name = full_name(schema["name"], schema.get("namespace"), space)
            found[str(name)] = {**schema, "name": name.name, "namespace": name.space}
            inner = name.space
        for part in _parts(schema):
            _find_definitions(part, inner, found)


def _parts(schema: dict[str, Any]) -> Iterable[Any]:
    """The schemas directly inside a schema."""
    yield from (schema[inner] for inner in ("items", "values") if inner in schema)
    yield from (field["type"] for field in schema.get("fields", ()))


def _with_definitions(schema: Any, space: str, defined: dict[str, Any], written: set[str]) -> Any:
    """The schema with the definition of each type of `defined` in the place of its first name."""
    if isinstance(schema, list):
        return [_with_definitions(branch, space, defined, written) for branch in schema]
    if isinstance(schema, str):
        name = str(full_name(schema, None, space))
        if schema in PRIMITIVES or name not in defined or name in written:
            return schema
        return _with_definitions(defined[name], space, defined, written)
    whole, inner = dict(schema), space
    if schema["type"] in NAMED:
        own = full_name(schema["name"], schema.get("namespace"), space)
        written.add(str(own))
        inner = own.space
    for part in ("items", "values"):
        if part in whole:
            whole[part] = _with_definitions(whole[part], inner, defined, written)
    if "fields" in whole:
        whole["fields"] = [
            {**field, "type": _with_definitions(field["type"], inner, defined, written)} for field in whole["fields"]
        ]
    return whole


# --- defaults


_BITS = {"int": 31, "long": 63}


MAX_STEPS = 200_000
"""Pairs of a value and a type that the check of a schema's defaults looks at, each as often as it meets it. Records of
a union that refer to each other double the pairs with each level of a default."""


class TooManySteps(Exception):
    """The defaults of a schema take more than MAX_STEPS steps to check."""


class DefaultCheck:
    """Checks the defaults of one schema."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def fits(self, schema: AvroType, value: Any) -> bool:
        """Whether a JSON value may be the default of a field of this type. A union takes what one of its branches takes
        (since Avro 1.12; before, the first branch). Raises TooManySteps."""
        self._left -= 1
        if self._left < 0:
            raise TooManySteps
        if isinstance(schema, UnionSchema):
            return any(self.fits(branch, value) for branch in schema.schemas)
        if isinstance(schema, RecordSchema):
            return isinstance(value, dict) and all(
                self.fits(field.type, value[field.name]) if field.name in value else field.has_default
                for field in schema.fields
            )
        if isinstance(schema, EnumSchema):
            return value in schema.symbols
        if isinstance(schema, ArraySchema):
            return isinstance(value, list) and all(self.fits(schema.items, one) for one in value)
        if isinstance(schema, MapSchema):
            return isinstance(value, dict) and all(self.fits(schema.values, one) for one in value.values())
        if isinstance(schema, FixedSchema):
            return _are_bytes(value) and len(value) == schema.size
        return _fits_primitive(schema.type, value)


def _fits_primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "bytes":
        return _are_bytes(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    bits = _BITS.get(kind)
    return bits is None or (isinstance(value, int) and -(1 << bits) <= value < 1 << bits)


def _are_bytes(value: Any) -> bool:
    """Whether a value is a text whose characters each stand for a byte."""
    return isinstance(value, str) and all(ord(character) < 256 for character in value)


# --- values


FREE_PARTS = 10_000
PARTS_PER_BYTE = 20
"""Values inside the data: a null takes no byte, so ten bytes can announce more of them than there is memory."""

_WRONG = (AvroException, ArithmeticError, LookupError, TypeError, ValueError, AssertionError, EOFError)
"""What Apache's reader raises for bytes that are no value of the schema."""


class _BoundedReader(DatumReader):
    """Reads one value, and gives up where it has too many values inside."""

    def __init__(self, types: Any, parts: int) -> None:
        super().__init__(types)
        self._parts = parts

    def read_data(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
        self._parts -= 1
        if self._parts < 0:
            raise Undecodable("The data announce more values than their bytes can have.")
        return super().read_data(writers_schema, readers_schema, decoder)


def _as_json(value: Any) -> Any:
    """What Apache's reader gives, as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    return next((form(value) for kind, form in _FORMS if isinstance(value, kind)), value)


def _number(value: float) -> Any:
    """A number as JSON has it: one that it does not have, or that a browser would round, as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value if isinstance(value, bool) or abs(value) <= LARGEST_EXACT else str(value)


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((int, float), _number),
    (bytes, data_to_json),
    ((Decimal, UUID), str),
    ((datetime, date, time), lambda value: value.isoformat()),
)
