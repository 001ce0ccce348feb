"""The compiled functions of the messages in `compile.COMPILED`, and this source of it where they are not compiled.

setup.py writes the source of the extension with `codec_extension.py`. It has the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Functions = dict[int, Callable[..., Any]]
"""Decoders or encoders of a message by version."""


def maker_of(cls: type) -> Callable[..., Any] | None:
    """The compiled `schema.maker` of a struct; it leaves calls that are out of the ordinary to the interpreted one."""
    return None


def functions_of(message: str, structs: tuple[type, ...]) -> tuple[Functions, Functions]:
    """The decoders and the encoders of a message; `structs` are its class and those inside it, outermost first."""
    return {}, {}
