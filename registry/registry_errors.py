"""The errors of the schema registry: status, code and message of each, as Confluent's registry has them.

Clients compare codes, and some compare messages, so a message begins as Confluent's does. What kmini adds stands
behind that.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

CONFLICT_BEFORE_4 = "3.9"
"""The release of Apache Kafka (`kmini.as.version`) whose Confluent Platform answers 409 where later ones answer
40901."""


class RegistryError(Exception):
    """A request that the registry refuses."""

    def __init__(self, status: HTTPStatus, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def code_as(self, release: str | None) -> int:
        """The code that the registry of the time of a release of Apache Kafka answers; None is today's."""
        return HTTPStatus.CONFLICT.value if self.code == 40901 and release == CONFLICT_BEFORE_4 else self.code


class ErrorKind(NamedTuple):
    """A kind of error. A call makes an error of it."""

    status: HTTPStatus
    code: int
    text: str
    """The message, with names in braces."""

    def __call__(self, **about: object) -> RegistryError:
        return RegistryError(self.status, self.code, self.text.format(**about))


def _kind(code: int, text: str) -> ErrorKind:
    """A kind whose code begins with its status."""
    return ErrorKind(HTTPStatus(code // 100), code, text)


SUBJECT_NOT_FOUND = _kind(40401, "Subject '{subject}' not found.")
VERSION_NOT_FOUND = _kind(40402, "Version {version} not found.")
SCHEMA_NOT_FOUND = _kind(40403, "Schema not found")
SCHEMA_OF_ID_NOT_FOUND = _kind(40403, "Schema {id} not found")
SUBJECT_SOFT_DELETED = _kind(40404, "Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")
SUBJECT_NOT_SOFT_DELETED = _kind(40405, "Subject '{subject}' was not deleted first before being permanently deleted")
VERSION_SOFT_DELETED = _kind(
    40406, "Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
)
VERSION_NOT_SOFT_DELETED = _kind(
    40407, "Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
)
NO_SUBJECT_LEVEL = _kind(40408, "Subject '{subject}' does not have subject-level compatibility configured")
NO_SUBJECT_MODE = _kind(40409, "Subject '{subject}' does not have subject-level mode configured")
INCOMPATIBLE = _kind(
    40901,
    'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
)
INVALID_SCHEMA = _kind(42201, "Invalid schema of type {type}, details: {details}")
UNKNOWN_TYPE = _kind(42201, "Invalid schema type {type}; there are {types}")
EMPTY_SCHEMA = _kind(42201, "Empty schema")
NOT_THE_NEXT_VERSION = _kind(42201, "Version is not one more than previous version, which is {latest}")
INVALID_VERSION = _kind(
    42202,
    "The specified version '{version}' is not a valid version id. "
    'Allowed values are between [1, 2^31-1] and the string "latest"',
)
INVALID_LEVEL = _kind(
    42203,
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive",
)
INVALID_MODE = _kind(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT")
READ_ONLY = _kind(42205, "Subject {subject} is in read-only mode")
ALL_READ_ONLY = _kind(42205, "The registry is in read-only mode")
NOT_READ_WRITE = _kind(42205, "Subject {subject} is not in read-write mode")
NOT_IMPORT = _kind(42205, "Subject {subject} is not in import mode")
CANNOT_IMPORT = _kind(42205, "Cannot import since found existing subjects")
ID_IS_TAKEN = _kind(42205, "Overwrite new schema with id {id} is not permitted.")
CANNOT_JUDGE = _kind(
    42205, "The compatibility with version {version} of subject '{subject}' cannot be judged: {details}"
)
NO_ASSOCIATIONS = _kind(42205, "kmini's registry keeps no associations")
REFERENCE_EXISTS = _kind(
    42206,
    "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
)
INVALID_SUBJECT = _kind(42208, "The specified subject '{subject}' is not a valid.")
NO_CONTEXTS = _kind(
    42208,
    "The specified subject '{subject}' is not a valid. kmini's registry has the default context only; "
    "leave out the context before the name",
)
TOO_LARGE = _kind(42209, "Register operation failed because schema is too large: {details}")
STORE_FAILED = _kind(50001, "The topic _schemas cannot be {done}: {details}")
TIMED_OUT = _kind(50002, "Register operation timed out: {details}")

UNREADABLE = ErrorKind(HTTPStatus.BAD_REQUEST, 400, "{details}")
UNAUTHORIZED = ErrorKind(HTTPStatus.UNAUTHORIZED, 401, "Unauthorized")
FORBIDDEN = ErrorKind(HTTPStatus.FORBIDDEN, 403, "{details}")
DENIED = ErrorKind(HTTPStatus.FORBIDDEN, 40301, "User {user} is denied operation {operation} on the topic _schemas")
NO_SUCH_PATH = ErrorKind(HTTPStatus.NOT_FOUND, 404, "HTTP 404 Not Found: there is no {path}")
NO_SUCH_METHOD = ErrorKind(HTTPStatus.METHOD_NOT_ALLOWED, 405, "HTTP 405 Method Not Allowed: there are {methods}")
BODY_TOO_LARGE = ErrorKind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, 413, "A body may have {bytes} bytes")
NOT_JSON = ErrorKind(
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, 415, "HTTP 415 Unsupported Media Type: {given}; {expected} was expected"
)
NO_BODY = ErrorKind(HTTPStatus.UNPROCESSABLE_ENTITY, 422, "The body must be a JSON object, and there is none")
FAILED = ErrorKind(HTTPStatus.INTERNAL_SERVER_ERROR, 500, "Internal Server Error: the broker's log says why")
