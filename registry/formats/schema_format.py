"""What the registry asks of a format of schemas, whichever it is: to read a text, to say whether two schemas are the
same, and to compare them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple


class InvalidSchema(ValueError):
    """A text is no schema of its format. The message says why, and what was expected."""


class CannotCompare(Exception):
    """Two schemas use what this registry cannot judge. The message names it and where it is, and says that level NONE
    registers the schema."""


class ResolvedReference(NamedTuple):
    """A schema that another one refers to."""

    name: str
    """What the schema calls it: a full name in Avro, a URI in JSON Schema, a path of an import in Protobuf."""
    text: str
    """The schema as the registry stores it."""
    references: tuple[ResolvedReference, ...] = ()
    """What that schema refers to in turn."""


class Difference(NamedTuple):
    """One reason why a reader cannot read what a writer wrote."""

    kind: str
    """The registry's name of it, such as "READER_FIELD_MISSING_DEFAULT_VALUE"."""
    path: str
    """Where it is, as a JSON pointer into the reader's schema, or a path of names in Protobuf."""
    told: str
    """A sentence for a person that names the field or type, without the path."""


class Schema(ABC):
    """A schema that was read. It does not change."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What the registry stores and answers for the text that was read: the text in the format's canonical spelling,
        as Confluent's registry keeps it (Avro and JSON Schema: JSON without spaces, in the given order of members;
        Protobuf: the text of the .proto file, written anew). Schemas with equal text are one schema."""

    @abstractmethod
    def normalized(self) -> Schema:
        """The schema that `normalize=true` registers or looks up in its place: what has no meaning is put in one
        order."""

    @abstractmethod
    def differences(self, writer: Schema) -> Sequence[Difference]:
        """What keeps readers that use this schema from reading what `writer` wrote; empty where nothing does. `writer`
        is a schema of the same format. Raises CannotCompare."""

    @abstractmethod
    def value_of(self, data: bytes, place: list[int]) -> Any:
        """What a serializer wrote with this schema, as JSON has it. `place` is that of a Protobuf message in its file;
        other formats do not look at it. Raises Undecodable of `values.py`."""

    def formatted(self, spelling: str) -> str:
        """The text that `?format=` asks for, such as "serialized" for Protobuf or "resolved" for Avro. An unknown or
        empty spelling gives `text`, as Confluent's registry does."""
        return self.text


class SchemaFormat(ABC):
    """A format of schemas."""

    name: str
    """The registry's name of it: "AVRO", "JSON" or "PROTOBUF"."""

    @abstractmethod
    def read(self, text: str, references: Sequence[ResolvedReference] = ()) -> Schema:
        """The schema of a text and of what it refers to. Raises InvalidSchema."""
