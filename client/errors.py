"""Errors that arise in the client, and the errors for codes from the broker.

All are KafkaError, so that a retry depends on one attribute, `retriable`.
"""

from __future__ import annotations

from typing import ClassVar

from ..protocol.errors import NONE, KafkaError, NetworkException, error_for, error_name


class Disconnected(NetworkException):
    """The connection could not be made, or ended before the answer came: the effect of the request is unknown."""


class NotAKafkaBroker(Disconnected):
    """The first bytes of the answer are of another protocol. The client does not retry the address."""

    retriable: ClassVar[bool] = False


class NoBrokerAnswers(Disconnected):
    """No bootstrap address could be reached."""

    retriable: ClassVar[bool] = False


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the exception of an error code; None for success. The text of an unknown code has its number."""
    if code == NONE:
        return None
    error = error_for(code)
    return error((message or "") if error.code == code else f"{error_name(code)} {message or ''}".rstrip())


def check(code: int, message: str | None = None) -> None:
    """Raise the exception of an error code, unless it is success."""
    error = error_of(code, message)
    if error is not None:
        raise error
