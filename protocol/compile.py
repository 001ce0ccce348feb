"""Makes one specialised function for each (message, version): what a version has is decided once, not at every field.

The functions are made as source text on first use; `python -m kmini.protocol.messages DeleteRecordsRequest 2` prints
it. For Produce and Fetch (COMPILED_MESSAGES) other functions run where there was a C compiler: those that setup.py
compiles ahead, whose Cython is in build/for_cython/protocol/compiled_codecs.pyx. The printed text is then what runs
with KMINI_PURE=1, and what decides about malformed input.

In the printed text, neighbouring fields of fixed size become one call of a prepared `struct.Struct`; arrays become
loops, so that nothing recurses, and a message costs no more calls than it has parts of variable length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from .primitives import Buffer
from .schema import structs_of

if TYPE_CHECKING:
    from .compiled_codecs import Functions
    from .schema import Message

COMPILED_MESSAGES = {"ProduceRequest": 3, "ProduceResponse": 3, "FetchRequest": 4, "FetchResponse": 4}
"""The messages whose functions setup.py compiles where a C compiler is (`codec_extension.py`), and the first version of
each: what clients of the last five years send."""


def compile_decoder(cls: type[Message], version: int) -> Callable[[Buffer], Any]:
    """The function that decodes `version` of `cls`.

    It raises MalformedMessage, but struct.error or IndexError where the bytes end early and UnicodeDecodeError where
    they are no text: `Message.decode` makes these one.
    """
    return compiled(cls)[0].get(version) or interpreted_decoder(cls, version)


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], list[Buffer]]:
    """The function that encodes `version` of `cls` behind the bytes that a buffer already has; for values that do not
    fit it raises whatever comes."""
    return compiled(cls)[1].get(version) or interpreted_encoder(cls, version)


@cache
def interpreted_decoder(cls: type[Message], version: int) -> Callable[[Buffer], Any]:
    """The decoder in Python."""
    from .decoder_source import DecoderSource

    return DecoderSource(cls, version).compiled()


@cache
def interpreted_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], list[Buffer]]:
    """The encoder in Python."""
    from .encoder_source import EncoderSource

    return EncoderSource(cls, version).compiled()


@cache
def compiled(cls: type[Message]) -> tuple[Functions, Functions]:
    """The decoders and the encoders of a message that are compiled, by version."""
    if cls.__name__ not in COMPILED_MESSAGES or not cls.__module__.startswith(f"{__package__}.messages."):
        return {}, {}
    from . import compiled_codecs

    return compiled_codecs.functions_of(cls.__name__, tuple(structs_of(cls)))


def source_of(cls: type[Message], version: int) -> str:
    """Both functions as text, for reading."""
    from .decoder_source import DecoderSource
    from .encoder_source import EncoderSource

    return f"{DecoderSource(cls, version).text}\n\n{EncoderSource(cls, version).text}"
