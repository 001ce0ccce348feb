"""Makes one specialised function for each (message, version): what a version has is decided once, not at every field.

The functions are made as source text on first use; `python -m kmini.protocol.messages DeleteRecordsRequest 2` prints
it. Neighbouring fields of fixed size become one call of a prepared `struct.Struct`; arrays become loops, so that
nothing recurses, and a message costs no more calls than it has parts of variable length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .decoder_source import DecoderSource
from .encoder_source import EncoderSource
from .primitives import Buffer

if TYPE_CHECKING:
    from .schema import Message


def compile_decoder(cls: type[Message], version: int) -> Callable[[Buffer], Any]:
    """The function that decodes `version` of `cls`.

    It raises MalformedMessage, but struct.error or IndexError where the bytes end early and UnicodeDecodeError where
    they are no text: `Message.decode` makes these one.
    """
    return DecoderSource(cls, version).compiled()


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], list[Buffer]]:
    """The function that encodes `version` of `cls` behind the bytes that a buffer already has; for values that do not
    fit it raises whatever comes."""
    return EncoderSource(cls, version).compiled()


def source_of(cls: type[Message], version: int) -> str:
    """Both functions as text, for reading."""
    return f"{DecoderSource(cls, version).text}\n\n{EncoderSource(cls, version).text}"
