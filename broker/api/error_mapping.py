"""Turns failures into error codes: of a part of a request, and of a whole request."""

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, UnknownServerError

if TYPE_CHECKING:
    from ...protocol.schema import Response

log = logging.getLogger("kmini.failures")


def kafka_error(error: Exception, what: str) -> KafkaError:
    """Return `error` itself if the protocol knows it.

    Any other exception is a bug of kmini's: it is logged with its trace, as the failure of `what`, and answered with
    UNKNOWN_SERVER_ERROR; the rest of the request goes on.
    """
    if isinstance(error, KafkaError):
        return error
    log.error("%s failed", what, exc_info=error)
    return UnknownServerError(f"{what} failed; the broker's log says why")


def error_response(response: "type[Response]", version: int, error: KafkaError) -> "Response | None":
    """A response that holds nothing but the error; None if this version has no field for an error of the whole
    request."""
    if not any(field.name == "error_code" and field.exists_in(version) for field in response.__fields__):
        return None
    try:
        return response(error_code=error.code)
    except TypeError:  # it has fields without a default: the errors of this API are in its partitions
        return None
