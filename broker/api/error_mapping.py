"""One place that turns what went wrong with a part of a request into its error code."""

import logging

from ...protocol.errors import KafkaError, UnknownServerError

log = logging.getLogger("kmini.failures")


def kafka_error(error: Exception, what: str) -> KafkaError:
    """`error` itself if it is one that the protocol knows. Anything else is a mistake of ours: it is logged with its
    trace, as the failure of `what`, and answered with UNKNOWN_SERVER_ERROR; the rest of the request goes on."""
    if isinstance(error, KafkaError):
        return error
    log.error("%s failed", what, exc_info=error)
    return UnknownServerError(f"{what} failed; the broker's log says why")
