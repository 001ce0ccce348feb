"""The formats of schemas by name. A format is imported when the first schema needs it: its libraries take time."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from kmini.registry.formats.schema_format import SchemaFormat

_CLASSES = {
    "AVRO": ("avro_format", "AvroFormat"),
    "JSON": ("json_schema_format", "JsonSchemaFormat"),
    "PROTOBUF": ("protobuf_format", "ProtobufFormat"),
}
"""The module and the class of each."""

NAMES = tuple(_CLASSES)
"""The names of all formats."""


@cache
def known_format(name: str) -> SchemaFormat:
    """The format of a name. Raises KeyError for another one."""
    module, class_name = _CLASSES[name]
    made = getattr(import_module(f"kmini.registry.formats.{module}"), class_name)()
    assert isinstance(made, SchemaFormat)
    return made
