"""The source of the extension `compiled_codecs`, as setup.py gives it to Cython.

It has the functions of `cython_source` for the messages in `compile.COMPILED_MESSAGES`. Versions whose bytes are
the same share them.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import decoder_source, messages
from .compile import COMPILED_MESSAGES
from .cython_source import PRIMITIVES_SOURCE, CythonDecoderSource, CythonEncoderSource, struct_names
from .function_source import holds_records

if TYPE_CHECKING:
    from .schema import Message, Struct

OPENING = "# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False"

IMPORTS = """\
from types import MemberDescriptorType

from .compile import interpreted_decoder, interpreted_encoder
from .schema import REQUIRED, interpreted_maker"""

DECODE = """
def decode_{name}(buffer):
    return decoded(read_{name}, buffer, {cls}, {version}, {keeps_views})
"""

ENCODE = """
def encode_{name}(message, out):
    return encoded(write_{name}, message, out, {cls}, {version})
"""

FUNCTIONS_OF = """
def functions_of(str message, tuple structs):
    return BIND[message](structs)
"""

BIND = """
def bind_{cls}(tuple structs):
    global {names}
    if not ({conditions}):
        return {{}}, {{}}
    {names} = structs
    return {{{decoders}}}, {{{encoders}}}
"""


def extension_source() -> str:
    """The whole module. Its SOURCE_CRC is the checksum of the rest, by which a test finds one that is out of date.

    There are no functions for a message if the fields of its structs are not where they should be.
    """
    numbers = ("SMALL_MESSAGE_MEMORY", "MAX_OBJECTS_PER_BYTE", "MAX_UNKNOWN_TAGS")
    parts = [
        IMPORTS,
        "cdef enum:\n" + "".join(f"    {name} = {getattr(decoder_source, name)}\n" for name in numbers),
        PRIMITIVES_SOURCE,
        inspect.getsource(decoder_source.memory_budget),
    ]
    for name in COMPILED_MESSAGES:
        parts += _message(getattr(messages, name))
    parts.append("BIND = {" + ", ".join(f'"{name}": bind_{name}' for name in COMPILED_MESSAGES) + "}")
    parts.append(FUNCTIONS_OF)
    body = "\n\n".join(parts)
    return f"{OPENING}\n{body}\n\nSOURCE_CRC = {zlib.crc32(body.encode())}\n"


def _message(cls: type[Message]) -> Iterator[str]:
    """What the extension has for one message."""
    structs = struct_names(cls)
    for struct, name in structs.items():
        slots = "".join(f"    {name}_{field} = {number}\n" for number, field in enumerate(_slots(struct)))
        yield f"cdef enum:\n{slots}\ncdef object {name} = None"
    functions: dict[str, str] = {}
    """The name of each function by its source, in which the version stands as N."""
    decoders: list[str] = []
    encoders: list[str] = []
    for version in range(COMPILED_MESSAGES[cls.__name__], cls.max_version + 1):
        for source, template, named in (
            (CythonDecoderSource(cls, version), DECODE, decoders),
            (CythonEncoderSource(cls, version), ENCODE, encoders),
        ):
            general = source.text.replace(source.suffix, "N")
            if general not in functions:
                functions[general] = source.suffix
                yield source.text
                views = holds_records(cls, version)
                yield template.format(name=source.suffix, cls=structs[cls], version=version, keeps_views=views)
            named.append(f"{version}: {source.name.replace(source.suffix, functions[general])}")
    yield BIND.format(
        cls=structs[cls],
        names=", ".join(structs.values()) + ",",
        conditions=" and ".join(
            f"has_slots(structs[{index}], {tuple(_slots(struct))})" for index, struct in enumerate(structs)
        ),
        decoders=", ".join(decoders),
        encoders=", ".join(encoders),
    )


def _slots(cls: type[Struct]) -> list[str]:
    """The fields of a struct in the order in which Python lays them out."""
    return sorted(field.name for field in cls.__fields__)
