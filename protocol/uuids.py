"""Topic ids: sixteen plain bytes inside, Kafka's 22 characters of url-safe base64 for people and files."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from os import urandom

ZERO_UUID = bytes(16)
"""Stands for "no id" on the wire."""

_RESERVED = (ZERO_UUID, bytes(15) + b"\x01")


def random_uuid() -> bytes:
    """A new version 4 UUID that Kafka would give out too: none of its reserved ids, and no `-` in front when formatted.

    (A leading dash would be taken for an option where people paste ids into command lines.)
    """
    while True:
        bits = int.from_bytes(urandom(16), "big") & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
        uuid = bits.to_bytes(16, "big")
        if uuid not in _RESERVED and not format_uuid(uuid).startswith("-"):
            return uuid


def format_uuid(uuid: bytes) -> str:
    """Sixteen bytes as 22 characters of url-safe base64 without padding; ValueError for any other length."""
    if len(uuid) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def format_hyphenated(uuid: bytes) -> str:
    """Sixteen bytes as people know UUIDs, in five groups of hexadecimal digits: the end of a group's member ids."""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_uuid(text: str) -> bytes:
    """The opposite of `format_uuid`; ValueError for what it could not have produced."""
    try:
        uuid = urlsafe_b64decode(text + "==")
    except ValueError:
        uuid = b""
    if len(uuid) != 16 or format_uuid(uuid) != text:
        raise ValueError(f"{text!r} is no uuid: 22 characters of url-safe base64 are expected")
    return uuid
