"""Errors that arise on this side of the wire, and how codes from the other side become errors.

All are KafkaError, so that whoever retries asks one question, `retriable`.
"""

from __future__ import annotations

from typing import ClassVar

from ..protocol.errors import NONE, KafkaError, NetworkException, error_for, error_name


class Disconnected(NetworkException):
    """The connection could not be made, or ended before the answer came: then nobody knows what the request did."""


class NotAKafkaBroker(Disconnected):
    """The first bytes of the answer show another protocol, so the address is never retried."""

    retriable: ClassVar[bool] = False


class NoBrokerAnswers(Disconnected):
    """None of the bootstrap addresses could be reached, so there is no cluster to retry with."""

    retriable: ClassVar[bool] = False


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """The exception of an error code; None for success. A code we do not know keeps its number in the text."""
    if code == NONE:
        return None
    error = error_for(code)
    return error((message or "") if error.code == code else f"{error_name(code)} {message or ''}".rstrip())


def check(code: int, message: str | None = None) -> None:
    """Raise the exception of an error code; nothing for success."""
    error = error_of(code, message)
    if error is not None:
        raise error
