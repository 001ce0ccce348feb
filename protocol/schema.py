"""Messages are classes whose annotations are the schema.

    class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
        class Topic(Struct):
            name: String
            ...
        topics: Array[Topic]
        timeout_ms: Int32

One class serves all versions of a message. A field that a version does not have takes its default when such a version
is decoded, and is not written when one is encoded. The order of the fields is the order on the wire. A struct is
defined where it is used; one further down may get a second, shorter name (`Partition = Topic.Partition`).

Modules that define messages must not import annotations from __future__: the schema reads them as they are defined.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin

from .errors import MalformedMessage
from .primitives import Buffer, WireType

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda cls: cls


NEVER = 1 << 15
"""A version above all others: for what never begins, or never ends."""

REQUIRED: Any = object()
"""The default of a field that has none."""


class Type(NamedTuple):
    """The type of a field's values, as its annotation says. Either `wire` or `struct` is set."""

    wire: WireType | None
    struct: type[Struct] | None
    element: Type | None
    """The type of an array's elements."""
    is_nullable: bool


class Field:
    """One field of a struct, over all versions."""

    __slots__ = ("default", "name", "nullable_since", "since", "tag", "type", "until")

    name: str
    type: Type

    def __init__(self, since: int, until: int, default: Any, tag: int | None, nullable_since: int) -> None:
        self.since = since
        self.until = until
        self.default = default
        self.tag = tag
        self.nullable_since = nullable_since

    def exists_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        return self.type.is_nullable and version >= self.nullable_since

    @property
    def is_struct_or_null(self) -> bool:
        """Whether it is a tagged struct whose null is written, because it is not the default. A byte, 0 or 1, tells
        which it is. (Other tagged structs are None where they are left out.)"""
        is_struct = self.tag is not None and self.type.struct is not None
        return is_struct and self.type.is_nullable and self.default is not None


def field(
    *,
    since: int = 0,
    until: int | None = None,
    default: Any = REQUIRED,
    tag: int | None = None,
    nullable_since: int = 0,
) -> Any:
    """Say more about a field than its type.

    It exists in the versions `since` to `until`, both included; if that is not all of them it needs a default. With
    `tag` it is an optional tagged field, written only if it differs from its default (KIP-482). A nullable type may be
    null from `nullable_since` on. A default of `[]` stands for a new empty list each time.
    """
    if default is REQUIRED and (since > 0 or until is not None or tag is not None):
        raise TypeError("a field that can be absent needs a default")
    return Field(since, NEVER if until is None else until, default, tag, nullable_since)


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14) and "__annotations__" not in namespace:
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is None:
            return {}
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.VALUE)
    annotations: dict[str, Any] = namespace.get("__annotations__", {})
    return annotations


def _is_class_variable(annotation: Any) -> bool:
    # In this module, and only here, annotations are text.
    return annotation.startswith("ClassVar") if isinstance(annotation, str) else get_origin(annotation) is ClassVar


def _type_of(annotation: Any, where: str) -> Type:
    if isinstance(annotation, StructMeta):
        return Type(None, annotation, None, is_nullable=False)  # type: ignore[arg-type]
    if get_origin(annotation) is Annotated:
        wire: WireType = annotation.__metadata__[0]
        element = None
        if wire.name == "array":
            held = annotation.__origin__
            array = get_args(held)[0] if wire.is_nullable else held
            element = _type_of(get_args(array)[0], where)
        return Type(wire, None, element, wire.is_nullable)
    if get_origin(annotation) in (Union, UnionType):
        inner, *rest = get_args(annotation)
        if isinstance(inner, StructMeta) and rest == [type(None)]:
            return Type(None, inner, None, is_nullable=True)  # type: ignore[arg-type]
    raise TypeError(f"{where}: {annotation!r} is no wire type; does the module import annotations from __future__?")


@dataclass_transform(eq_default=True, kw_only_default=True, field_specifiers=(field,))
class StructMeta(type):
    """Turns annotations into slots and `Field`s."""

    __fields__: tuple[Field, ...]

    def __new__(metaclass, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        if any(getattr(base, "__fields__", ()) for base in bases):
            raise TypeError(f"{name} cannot inherit fields: what is on the wire stands in one place")
        fields = []
        for field_name, annotation in _annotations(namespace).items():
            if _is_class_variable(annotation):
                continue
            if any(hasattr(base, field_name) for base in bases):
                raise TypeError(f"{name}.{field_name} would hide what every message has under this name")
            given = namespace.pop(field_name, REQUIRED)
            described = given if isinstance(given, Field) else Field(0, NEVER, given, None, 0)
            described.name = field_name
            described.type = _type_of(annotation, f"{name}.{field_name}")
            fields.append(described)
        namespace["__slots__"] = tuple(described.name for described in fields)
        namespace["__fields__"] = tuple(fields)
        return super().__new__(metaclass, name, bases, namespace, **options)


class Struct(metaclass=StructMeta):
    """A group of fields inside a message.

    The constructor takes keywords; fields without a default must be given. (Leading fields may also be given in order,
    for tests; type checkers ask for the keywords.) Nothing is checked before `encode`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The real constructor is made on first use: most processes use few of the structs that they import.
        cls = type(self)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in type(self).__fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={_shortened(getattr(self, f.name))}" for f in type(self).__fields__)
        return f"{type(self).__qualname__}({values})"


class Message(Struct):
    """A struct that can be encoded by itself, in each of its versions."""

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]
    """The first flexible version; above every version if there is none."""
    ignores_trailing_bytes: ClassVar[bool] = False
    """Whether decoding ignores bytes behind the last field; otherwise they are an error."""
    memory_per_byte: ClassVar[int] = 16
    """Bytes of memory that a decoded message may take for each of its bytes, if it is not small."""

    _decoders: ClassVar[dict[int, Callable[[Buffer], Any]]]
    _encoders: ClassVar[dict[int, Callable[[Any, bytearray], list[Buffer]]]]

    def __init_subclass__(cls, versions: str | None = None, flexible: str = "none") -> None:
        super().__init_subclass__()
        if versions is not None:
            first, _, last = versions.partition("-")
            cls.min_version, cls.max_version = int(first), int(last or first)
            cls.flexible_from = NEVER if flexible == "none" else int(flexible.removesuffix("+"))
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """The message that `buffer` holds from its first byte to its last.

        `Records` fields stay views into the buffer; all else is copied. Nothing that the buffer says is believed: what
        does not add up is MalformedMessage, and so is what would take more memory than `memory_per_byte` times the
        buffer and more than some hundred KiB (see `decoder_source`). A version that there is not is a ValueError.
        """
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        try:
            return decoder(buffer)  # type: ignore[no-any-return]
        except (struct.error, IndexError):
            raise MalformedMessage("it ends before its last field") from None
        except UnicodeDecodeError:
            raise MalformedMessage("a string is not UTF-8") from None

    def encode(self, version: int, start: bytearray | None = None) -> list[Buffer]:
        """The message as buffers to be sent one after the other; `Records` of some size are passed on, not copied.

        The first buffer is `start`, where that is given: the message follows the bytes that it has. ValueError names
        the field whose value the version cannot express.
        """
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        try:
            return encoder(self, bytearray() if start is None else start)
        except (struct.error, ValueError, TypeError, AttributeError):
            from .explain import explain

            explain(self, version)
            raise  # the values are fine, so the fault is ours

    @classmethod
    def _compile_decoder(cls, version: int) -> Callable[[Buffer], Any]:
        from .compile import compile_decoder

        cls.check_version(version)
        decoder = cls._decoders[version] = compile_decoder(cls, version)
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Callable[[Any, bytearray], list[Buffer]]:
        from .compile import compile_encoder

        cls.check_version(version)
        encoder = cls._encoders[version] = compile_encoder(cls, version)
        return encoder

    @classmethod
    def check_version(cls, version: int) -> None:
        """ValueError for a version that the class does not have."""
        if not cls.min_version <= version <= cls.max_version:
            raise ValueError(f"{cls.__name__} has versions {cls.min_version} to {cls.max_version}, not {version}")


class Request(Message):
    """A request of a client. `class XRequest(Request, api_key=…, versions="0-2", flexible="2+")`."""

    ignores_trailing_bytes = True
    """As Apache Kafka: librdkafka 2.16 sends three bytes too many with a Metadata v13 for all topics."""

    holds_views: ClassVar[bool] = False
    """Whether a decoded request has views of the bytes that it came from: it has records."""
    api_key: ClassVar[int]
    name: ClassVar[str]
    """Kafka's name of the API, without "Request"."""
    response: ClassVar[type[Response]]

    def __init_subclass__(cls, api_key: int | None = None, versions: str | None = None, flexible: str = "none") -> None:
        super().__init_subclass__(versions, flexible)
        if api_key is not None:
            cls.api_key = api_key
            cls.name = cls.__name__.removesuffix("Request")

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of the header in front of this request; flexible versions not known yet are flexible too."""
        return 2 if version >= cls.flexible_from else 1


class Response(Message):
    """The response to a request, in its version. `class XResponse(Response, to=XRequest)`."""

    api_key: ClassVar[int]
    name: ClassVar[str]
    request: ClassVar[type[Request]]
    memory_per_byte = 64
    """More than for a request: the client knows what it asked for."""

    def __init_subclass__(cls, to: type[Request] | None = None) -> None:
        super().__init_subclass__()
        if to is not None:
            cls.request, to.response = to, cls
            cls.api_key, cls.name = to.api_key, to.name
            cls.min_version, cls.max_version, cls.flexible_from = to.min_version, to.max_version, to.flexible_from

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of the header in front of this response."""
        return 1 if version >= cls.flexible_from else 0

    @classmethod
    def version_of(cls, body: Buffer, requested: int) -> int:
        """The version of a response that has come to a request of version `requested`: the same."""
        return requested


MadeStruct = TypeVar("MadeStruct", bound=Struct)


def structs_of(cls: type[Struct]) -> Iterator[type[Struct]]:
    """The class and every struct inside it, outermost first."""
    yield cls
    for described in cls.__fields__:
        held = described.type.element or described.type
        if held.struct is not None:
            yield from structs_of(held.struct)


def maker(cls: type[MadeStruct]) -> Callable[..., MadeStruct]:
    """A function that makes structs as the constructor does, at a fraction of its price: for modules of the hot path.

    All fields may be given in order, so it does not notice that one is missing, which is then None.
    """
    from .compiled_codecs import maker_of

    return maker_of(cls) or interpreted_maker(cls)


@cache
def interpreted_maker(cls: type[Struct]) -> Callable[..., Any]:
    """The same in Python: a plain function, because calling a class costs far more."""
    return _compiled_constructor(cls, "make", [], ["    self = new(cls)"], ["    return self"])


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    """`def __init__(self, ...)` with one parameter and one assignment a field."""
    constructor: Callable[..., None] = _compiled_constructor(cls, "__init__", ["self"], ["    pass"], [])
    return constructor


def _compiled_constructor(
    cls: type[Struct], name: str, parameters: list[str], body: list[str], end: list[str]
) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"EMPTY": object(), "new": object.__new__, "cls": cls}
    is_for_keywords = name == "__init__"
    for f in cls.__fields__:
        if f.default is REQUIRED:
            if is_for_keywords and "=" in parameters[-1] and "*" not in parameters:
                parameters.append("*")
            parameters.append(f.name if is_for_keywords else f"{f.name}=None")
            body.append(f"    self.{f.name} = {f.name}")
        elif f.default == []:
            parameters.append(f"{f.name}=EMPTY")
            body.append(f"    self.{f.name} = [] if {f.name} is EMPTY else {f.name}")
        else:
            namespace[f"{f.name}_default"] = f.default
            parameters.append(f"{f.name}={f.name}_default")
            body.append(f"    self.{f.name} = {f.name}")
    exec(f"def {name}({', '.join(parameters)}):\n" + "\n".join(body + end), namespace)
    constructor: Callable[..., Any] = namespace[name]
    constructor.__qualname__ = f"{cls.__qualname__}.{name}"
    return constructor


def _shortened(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 16:
        return f"<{len(value)} bytes>"
    return repr(bytes(value)) if isinstance(value, memoryview) else repr(value)
