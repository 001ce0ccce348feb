"""The control server: the test kit over HTTP, on the broker's loop and a port of its own (extra "http").

`routes.py` has the paths. Requests and answers are JSON, errors are problem documents, and what waits for clients is a
request that takes as long: its `timeout_ms` ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from kmini.broker.scheduler import Turn
from kmini.control.access import JSON, Access
from kmini.control.arguments import signature_of
from kmini.control.control_operations import ControlOperations, Served, TopicControl
from kmini.control.events import EventStreams
from kmini.control.fault_control import FaultControl, RuleControl
from kmini.control.json_text import read_json, write_json
from kmini.control.json_types import WrongValue, to_json
from kmini.control.managed_brokers import table_of
from kmini.control.openapi import EVENTS, openapi_document
from kmini.control.overview import Overview
from kmini.control.problems import CONTENT_TYPE, Problem, make_problem, problem_of, without_data_dir
from kmini.control.record_decoding import BY_SCHEMA, DECODERS, NAMES
from kmini.control.record_pages import TopicPages, link_header
from kmini.control.report_control import ReportControl
from kmini.control.routes import BROKER, ONLY_BROKER, PREFIX, ROUTES, Route
from kmini.control.schema_decoding import SchemaDecoding
from kmini.control.subject_control import SubjectControl
from kmini.control.topic_view import TopicView
from kmini.protocol.similar_names import similar_names
from kmini.testkit.contents import RecordPage
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.handle import waits_for_its_caller
from kmini.testkit.operations import Operations
from kmini.testkit.topic_handle import TopicOperations
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

# --- calls that wait


class WaitingCalls:
    """The calls in progress that wait."""

    def __init__(self) -> None:
        self._why_ended: dict[asyncio.Task[Any], str] = {}
        """Each call; why it was ended, or an empty text."""

    def __len__(self) -> int:
        return len(self._why_ended)

    @property
    def begun(self) -> Collection[asyncio.Task[Any]]:
        """The calls that wait now."""
        return [*self._why_ended]

    async def result(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a call and return its result. Raises what the call raises, and RuntimeError if it was ended. Where
        the caller is cancelled, the call has ended when this returns."""
        task = asyncio.ensure_future(call)
        self._why_ended[task] = ""
        try:
            await asyncio.wait([task])
        finally:
            why = self._why_ended.pop(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if why and task.cancelled():
            raise RuntimeError(why)
        return task.result()

    def end(self, calls: Collection[asyncio.Task[Any]], why: str) -> None:
        """End those of these calls that still wait; `why` is what their requests are answered."""
        for task in calls:
            if task in self._why_ended:
                self._why_ended[task] = why
                task.cancel()


# --- the files of the page


INDEX = "index.html"

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The media types of the files, by what their names end with."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str
    """Another one when the content is another one, in quotes."""


@cache
def page_files() -> Mapping[str, PageFile]:
    """The files by their paths: the page at "/", the others at "/page/NAME"."""
    found: dict[str, PageFile] = {}
    for file in Path(__file__).with_name("page").iterdir():
        media_type = TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            path = "/" if file.name == INDEX else f"/page/{file.name}"
            found[path] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


log = logging.getLogger("kmini.http")

DECODE = "decode"
"""The argument of a query that says how keys and values are written."""

ENDS_WAITS = {
    "reset": "the broker was reset during this call",
    "restore": "the broker was restored from a snapshot during this call",
    "stop": "the broker was stopped during this call",
}
"""The methods that end the waits of other requests, with the answer that those get."""


TEXT = "text/plain; charset=utf-8"

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_BODY_BYTES = 16 * 1024 * 1024
"""The largest body of a request."""


class ControlServer:
    """Serves the control API of a broker or a cluster."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        """With a `token`, every request must bring it."""
        self._served = served
        self._access = Access(token)
        self._waiting = WaitingCalls()
        self._schema_decoding = SchemaDecoding(served)
        self.events = EventStreams(served)
        self.router = Router()
        for route in ROUTES:
            self.router.add(route.verb, PREFIX + route.path.rstrip("/"), self._handler_of(route))
        self.router.add("GET", PREFIX + EVENTS, self.events.serve)
        beside = {
            f"{PREFIX}/openapi.json": self._openapi,
            "/health": self._health,
            "/health/ready": self._health,
            "/health/live": self._live,
            "/metrics": self._metrics,
            **dict.fromkeys(page_files(), self._page_file),
        }
        for path, handler in beside.items():
            self.router.add("GET HEAD", path, handler)
        self._server = HttpServer(self.router, self._serve, _answer_unreadable, log, MAX_BODY_BYTES)

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve the connections of a socket that listens already; by TLS, if there is a context for that."""
        await self._server.start(listening, tls)

    async def stop(self) -> None:
        """End the socket, what waits, and all connections. Requests in service have `CLOSE_S` to end."""
        self._server.close()
        self._waiting.end(self._waiting.begun, "the control server has stopped")
        self.events.end()
        await self._server.stop()

    # --- requests

    async def _serve(self, request: Request) -> Response:
        """Refuse what may not be served, and make a problem document of what fails."""
        refusal = self._access.refusal(request.method, request.path, request.headers, has_body=request.has_body)
        if refusal is not None:
            return self._answer_problem(refusal.problem, refusal.headers)
        try:
            return await request.handler(request)
        except BodyTooLarge:
            why = f"a body may have {MAX_BODY_BYTES} bytes"
            return self._answer_problem(
                make_problem("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large", why)
            )
        except BodyMissing:
            return self._answer_problem(
                make_problem("http", HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT.phrase)
            )
        except Unreadable as error:
            return self._answer_problem(bad_request("the body cannot be read", error))
        except NoSuchPath:
            why = f"there is no {request.path}{_nearest_path(request.path)}; {PREFIX}/openapi.json lists the paths"
            return self._answer_problem(
                make_problem("no-such-path", HTTPStatus.NOT_FOUND, "There is no such path", why)
            )
        except NoSuchMethod as error:
            why = f"{request.method} is none for {request.path}; there are: {error}"
            return self._answer_problem(
                make_problem("method", HTTPStatus.METHOD_NOT_ALLOWED, "The path does not have this method", why),
                {"Allow": str(error)},
            )
        except Exception as error:
            problem = problem_of(error)
            if problem["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("%s %s failed", request.method, request.path, exc_info=error)
            return self._answer_problem(problem)

    def _handler_of(self, route: Route) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._call(route, request)

        return handle

    async def _call(self, route: Route, request: Request) -> Response:
        decode = request.query.get(DECODE, "text")
        if decode not in NAMES:
            raise WrongValue(f"{DECODE}={decode!r}: must be {' or '.join(NAMES)}", f"/{DECODE}")
        document, texts = await _given(request)
        about = dict(request.names)
        table = self._table(route, about)
        method = getattr(table, route.method, None)
        if method is None:
            raise RuntimeError(f"{route.verb} {route.path} is for a cluster, and this is none")
        signature = signature_of(getattr(type(table), route.method))
        if BROKER in about and BROKER not in signature.arguments:
            self._check_only_broker(about.pop(BROKER))
        arguments = signature.bind(document, {**texts, **route.named(about, signature.arguments)})
        result = await self._result(route, method, arguments)
        if route.creates is not None:
            return await self._created(route.creates, arguments["name"])
        if signature.result is None:
            return Response(HTTPStatus.NO_CONTENT)
        if route.is_text:
            text = without_data_dir(result, self._served.data_dir)
            return Response(HTTPStatus.OK, {"Content-Type": TEXT}, text.encode("utf-8", "surrogatepass"))
        if decode == BY_SCHEMA:
            data = await self._schema_decoding.writer(result, request.names.get("topic", ""))
        else:
            data = DECODERS[decode]
        headers = {"Content-Type": JSON}
        if isinstance(result, RecordPage) and result.next is not None:
            topic = request.names.get("topic") or arguments["topic"]
            headers["Link"] = link_header(PREFIX, topic, arguments, result, request.query.get(DECODE))
        return Response(HTTPStatus.OK, headers, await _written(result, data))

    async def _created(self, path: str, name: str) -> Response:
        """The answer about a topic that is there now: its description, and where it is."""
        described = await TopicControl(self._served.operations, name).describe()
        return _answer(to_json(described), HTTPStatus.CREATED, Location=f"{PREFIX}{path.format(quote(name, safe=''))}")

    def _check_only_broker(self, number: str) -> None:
        """Check the broker of a path for a method that has no choice. Raises BrokerNotRunning and WrongValue."""
        if number == ONLY_BROKER:
            return
        try:
            self._served.operations.one_broker(int(number))
        except ValueError:
            raise WrongValue(f"broker={number!r}: must be a number, or {ONLY_BROKER}", f"/{BROKER}") from None

    async def _result(
        self, route: Route, method: Callable[..., Coroutine[Any, Any, Any]], arguments: dict[str, Any]
    ) -> Any:
        """The result of a call. What acts runs to its end though its client has gone; a wait, and a move of the clock,
        end with their client."""
        if waits_for_its_caller(method):
            return await self._waiting.result(method(**arguments))
        waiting = self._waiting.begun if route.method in ENDS_WAITS else ()
        try:
            return await to_its_end(method(**arguments), log, f"{route.verb} {route.path}")
        finally:
            self._waiting.end(waiting, ENDS_WAITS.get(route.method, ""))

    def _table(self, route: Route, path: dict[str, str]) -> Any:
        """The table of operations of a route, with what the path says it is about."""
        if route.table in (ControlOperations, Overview, SubjectControl):
            return route.table(self._served)
        operations = self._served.operations
        if route.table is Operations:
            return operations
        if route.table in (TopicOperations, TopicControl, TopicPages, TopicView):
            return route.table(operations, path.pop("topic"))
        if route.table is GroupOperations:
            return GroupOperations(operations, path.pop("group"))
        if route.table in (FaultControl, ReportControl):
            return route.table(operations, self._served.rules)
        if route.table is RuleControl:
            return RuleControl(self._served.rules, path.pop("rule"))
        return route.table(operations)

    # --- beside the routes

    async def _page_file(self, request: Request) -> Response:
        file = page_files()[request.path]
        headers = {**SECURITY_HEADERS, "ETag": file.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == file.etag:
            return Response(HTTPStatus.NOT_MODIFIED, headers)
        return Response(HTTPStatus.OK, {**headers, "Content-Type": file.media_type}, file.content)

    async def _openapi(self, request: Request) -> Response:
        document = openapi_document(table_of(self._served.kind))  # type: ignore[arg-type]  # a class is hashable
        return _answer(document)

    async def _health(self, request: Request) -> Response:
        readiness = await ControlOperations(self._served).readiness()
        status = HTTPStatus.OK if readiness.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _answer(to_json(readiness), status)

    async def _live(self, request: Request) -> Response:
        return _answer({"is_live": True})

    async def _metrics(self, request: Request) -> Response:
        """The metrics of the only broker, or of the one that `?broker=` names, by default the first."""
        number = request.query.get("broker")
        try:
            broker = None if number is None else int(number)
        except ValueError:
            raise WrongValue(f"broker={number!r}: must be the number of a broker", "/broker") from None
        running = self._served.operations.running
        numbers = [one.node_id for one in running]
        measured = self._served.operations.one_broker(min(numbers) if broker is None and numbers else broker)
        from kmini.broker.metrics_text import metrics_pieces  # not needed before

        data_dir = self._served.data_dir
        pieces = [without_data_dir(piece, data_dir).encode() async for piece in metrics_pieces(measured)]
        return Response(HTTPStatus.OK, {"Content-Type": METRICS_TYPE}, b"".join(pieces))

    def _answer_problem(self, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
        """A problem document as an answer. No message of an error shows where the data are."""
        told = {
            name: without_data_dir(value, self._served.data_dir) if isinstance(value, str) else value
            for name, value in problem.items()
        }
        return _problem_response(told, headers)


def bad_request(what: str, message: object) -> Problem:
    """The problem of a request that HTTP's rules refuse, with the parser's message."""
    return make_problem("http", HTTPStatus.BAD_REQUEST, HTTPStatus.BAD_REQUEST.phrase, parser_message(what, message))


def _answer_unreadable(status: HTTPStatus, detail: str) -> Response:
    """The answer to a request that is no HTTP, or whose service has failed."""
    is_failure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _problem_response(
        problem_of(Exception()) if is_failure else make_problem("http", status, status.phrase, detail)
    )


async def _written(result: Any, data: Callable[[bytes | None], Any]) -> bytes:
    """The JSON text of a result. A list, such as the records of a topic, is written in several turns of the loop, which
    serves clients of the broker meanwhile."""
    if not isinstance(result, list):
        return write_json(to_json(result, data))
    turn, parts = Turn(), []
    for one in result:
        parts.append(write_json(to_json(one, data)))
        if turn.is_over:
            await turn.next()
    return b"[%s]" % b", ".join(parts)


async def _given(request: Request) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments of a request as JSON, and those that are texts of its query. Raises WrongValue."""
    texts: dict[str, str] = {}
    for name, values in request.queries.items():
        if name == DECODE:
            continue
        if len(values) > 1:
            raise WrongValue(f"{name} is given twice", f"/{name}")
        texts[name] = values[0]
    body = await request.read()
    if not body:
        return {}, texts
    try:
        given = read_json(body)
    except WrongValue as error:
        raise WrongValue(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise WrongValue("the body must be an object with the arguments by name")
    return given, texts


def _nearest_path(path: str) -> str:
    """The end of a sentence about a path that does not exist: the most similar one, with the same names in it."""
    parts = path.removeprefix(PREFIX).rstrip("/").split("/")
    paths = [
        PREFIX + "/".join(own if part.startswith("{") else part for own, part in zip(parts, wanted, strict=True))
        for wanted in (route.path.split("/") for route in ROUTES)
        if len(wanted) == len(parts)
    ]
    near = similar_names(path, paths)
    return f"; nearest: {near[0]}" if near else ""


def _answer(document: Any, status: int = HTTPStatus.OK, **headers: str) -> Response:
    return Response(status, {"Content-Type": JSON, **headers}, write_json(document))


def _problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(problem["status"], {**(headers or {}), "Content-Type": CONTENT_TYPE}, write_json(problem))
