"""The server of the schema registry: Confluent's REST interface on a port of its own, on the broker's loop (extra
"registry").

It has no control verbs: what it serves is `ROUTES`, and nothing else.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from kmini.registry.observed_requests import ObservedRequests
from kmini.registry.registry import Registry
from kmini.registry.registry_access import CHALLENGE, MEDIA_TYPES, RegistryAccess
from kmini.registry.registry_answers import RawText, RegistryAnswers, RegistryRequest
from kmini.registry.registry_errors import (
    BODY_TOO_LARGE,
    FAILED,
    NO_SUCH_METHOD,
    NO_SUCH_PATH,
    UNREADABLE,
    ErrorKind,
    RegistryError,
)
from kmini.registry.schema_log import Brokers
from kmini.registry.schema_reading import SchemaReader
from kmini.web.http_serving import (
    BodyMissing,
    BodyTooLarge,
    Handler,
    HttpServer,
    NoSuchMethod,
    NoSuchPath,
    Request,
    Response,
    Router,
    Unreadable,
    parser_message,
    to_its_end,
)
from kmini.web.strict_json import write_json

# --- paths


_READING = """
    GET    /                                                       root
    GET    /subjects                                               subjects
    POST   /subjects/{subject}                                     look_up
    GET    /subjects/{subject}/metadata                            latest_with_metadata
    GET    /subjects/{subject}/versions                            versions
    GET    /subjects/{subject}/versions/{version}                  one_version
    GET    /subjects/{subject}/versions/{version}/schema           version_text
    GET    /subjects/{subject}/versions/{version}/referencedby     referenced_by
    GET    /schemas                                                schemas
    GET    /schemas/types                                          types
    GET    /schemas/ids/{id}                                       schema
    GET    /schemas/ids/{id}/schema                                schema_text
    GET    /schemas/ids/{id}/subjects                              subjects_of_schema
    GET    /schemas/ids/{id}/versions                              versions_of_schema
    GET    /schemas/guids/{guid}                                   schema_with_guid
    GET    /schemas/guids/{guid}/ids                               ids_with_guid
    POST   /compatibility/subjects/{subject}/versions              compatibility
    POST   /compatibility/subjects/{subject}/versions/{version}    compatibility
    GET    /config                                                 config
    GET    /config/{subject}                                       config
    GET    /mode                                                   mode
    GET    /mode/{subject}                                         mode
    GET    /contexts                                               contexts
    GET    /associations/{about:.*}                                associations
    GET    /v1/metadata/id                                         cluster
    GET    /v1/metadata/version                                    release
"""

_WRITING = """
    POST   /subjects/{subject}/versions                            register
    DELETE /subjects/{subject}                                     delete_subject
    DELETE /subjects/{subject}/versions/{version}                  delete_version
    PUT    /config                                                 set_config
    PUT    /config/{subject}                                       set_config
    DELETE /config                                                 delete_config
    DELETE /config/{subject}                                       delete_config
    PUT    /mode                                                   set_mode
    PUT    /mode/{subject}                                         set_mode
    DELETE /mode                                                   delete_mode
    DELETE /mode/{subject}                                         delete_mode
    POST   /associations{about:.*}                                 refuse_association
    PUT    /associations{about:.*}                                 refuse_association
    DELETE /associations{about:.*}                                 refuse_association
"""


class Route(NamedTuple):
    """A verb and a path for a method."""

    verb: str
    path: str
    method: str
    writes: bool
    """Whether it changes the registry: a user then needs WRITE on the topic, and otherwise READ."""


def _routes(lines: str, *, writes: bool) -> list[Route]:
    """The routes of a table: verb, path and method in a line."""
    parts = [line.split() for line in lines.split("\n") if line.strip()]
    return [Route(verb, path, method, writes) for verb, path, method in parts]


ROUTES: tuple[Route, ...] = (*_routes(_READING, writes=False), *_routes(_WRITING, writes=True))


log = logging.getLogger("kmini.registry")

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The largest body of a request: a schema that fits into a record of `_schemas`, with every character escaped."""


class RegistryServer:
    """Serves the schema registry of a broker or a cluster."""

    def __init__(self, brokers: Brokers, host: str, reader: SchemaReader | None = None) -> None:
        """`host` is the address at which it listens."""
        self._brokers = brokers
        self._access = RegistryAccess(brokers, host)
        self.registry = Registry(brokers, reader)
        self._answers = RegistryAnswers(self.registry, brokers)
        self._observed = ObservedRequests(brokers, self._answer_error)
        router = Router()
        for route in ROUTES:
            router.add("GET HEAD" if route.verb == "GET" else route.verb, route.path, self._handler_of(route))
        self._server = HttpServer(router, self._serve, _answer_unreadable, log, MAX_BODY_BYTES)

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve the connections of a socket that listens already; by TLS, if there is a context for that."""
        await self._server.start(listening, tls)

    async def stop(self) -> None:
        """End the socket and all connections. Requests in service have some tenths of a second to end."""
        await self._server.stop()

    # --- requests

    async def _serve(self, request: Request) -> Response:
        return await self._observed.observe(request, self._guarded)

    async def _guarded(self, request: Request) -> Response:
        """Make an error document of what fails."""
        try:
            self._access.check_headers(request.headers, has_body=request.has_body)
            return await request.handler(request)
        except RegistryError as error:
            return self._answer_error(request, error)
        except BodyTooLarge:
            return self._answer_error(request, BODY_TOO_LARGE(bytes=MAX_BODY_BYTES))
        except BodyMissing:
            status = HTTPStatus.REQUEST_TIMEOUT
            return self._answer_error(request, ErrorKind(status, status.value, status.phrase)())
        except NoSuchMethod as error:
            methods = ", ".join(error.methods)
            return self._answer_error(request, NO_SUCH_METHOD(methods=methods), {"Allow": methods})
        except NoSuchPath:
            return self._answer_error(request, NO_SUCH_PATH(path=request.path))
        except Unreadable as error:
            return self._answer_error(request, UNREADABLE(details=parser_message("the body cannot be read", error)))
        except Exception as error:
            log.error("%s %s failed", request.method, request.path, exc_info=error)
            return self._answer_error(request, FAILED())

    def _handler_of(self, route: Route) -> Handler:
        method: Callable[[RegistryRequest], Awaitable[Any]] = getattr(self._answers, route.method)

        async def handle(request: Request) -> Response:
            await self._access.check_user(request.headers, request.peer[0], writes=route.writes)
            given = RegistryRequest(
                request.names,
                request.query,
                request.queries.get("key", []),
                request.queries.get("value", []),
                await request.read(),
            )
            answer = method(given)
            if route.writes:
                answer = to_its_end(answer, log, "a change")
            return _answer(request, await answer)

        return handle

    def _answer_error(self, request: Request, error: RegistryError, headers: dict[str, str] | None = None) -> Response:
        release = next((broker.config.current.kmini_as_version for broker in self._brokers()), None)
        document = {"error_code": error.code_as(release), "message": error.message}
        headers = {**(headers or {}), "Content-Type": media_type(request.headers.get("Accept", ""))}
        if error.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = CHALLENGE
        return Response(error.status, headers, write_json(document, is_compact=True))


def media_type(accept: str) -> str:
    """The type of an answer: of those that an Accept header names the one that it prefers, or else the first."""
    found: list[tuple[float, str]] = []
    for part in accept.split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        if name in MEDIA_TYPES:
            found.append((_number(quality), name))
    return max(found, key=lambda one: one[0], default=(0.0, MEDIA_TYPES[0]))[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _answer(request: Request, document: Any) -> Response:
    body = (
        document.encode(errors="surrogatepass")
        if isinstance(document, RawText)
        else write_json(document, is_compact=True)
    )
    return Response(HTTPStatus.OK, {"Content-Type": media_type(request.headers.get("Accept", ""))}, body)


def _answer_unreadable(status: HTTPStatus, detail: str) -> Response:
    """The answer to a request that is no HTTP or has an expectation, or whose service has failed."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        error = FAILED()
    elif status is HTTPStatus.BAD_REQUEST:
        error = UNREADABLE(details=detail)
    else:
        error = ErrorKind(status, status.value, detail)()
    document = {"error_code": error.code, "message": error.message}
    return Response(error.status, {"Content-Type": MEDIA_TYPES[0]}, write_json(document, is_compact=True))
