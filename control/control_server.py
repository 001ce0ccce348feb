"""The control server: the test kit over HTTP, on the broker's loop and a port of its own (extra "http").

`routes.py` has the paths. Requests and answers are JSON, errors are problem documents, and what waits for clients is a
request that takes as long: its `timeout_ms` ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import hdrs, web

from kmini.broker.scheduler import Turn
from kmini.control.access import Access
from kmini.control.calls import signature_of
from kmini.control.control_operations import ControlOperations, Served, TopicControl
from kmini.control.events import EventStreams
from kmini.control.fault_control import FaultControl, RuleControl
from kmini.control.json_kinds import WrongValue, to_json
from kmini.control.json_text import read_json, write_json
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
from kmini.testkit.contents import RecordPage
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.handle import waits_for_its_caller
from kmini.testkit.shared_operations import SharedOperations
from kmini.testkit.topic_handle import TopicOperations
from kmini.web.http_serving import MAX_BODY_BYTES, HttpServer, expecting, parser_message, read_body

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


METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ControlServer:
    """Serves the control API of a broker or a cluster."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        """With a `token`, every request must bring it."""
        self._served = served
        self._access = Access(token)
        self._waiting = WaitingCalls()
        self._schema_decoding = SchemaDecoding(served)
        self.events = EventStreams(served)
        app = web.Application(middlewares=[self._guarded], client_max_size=MAX_BODY_BYTES)
        expect = expecting(_answer_unreadable)
        for route in ROUTES:
            path = PREFIX + route.path.rstrip("/")
            app.router.add_route(route.verb, path, self._handler_of(route), expect_handler=expect)
        app.router.add_get(PREFIX + EVENTS, self.events.serve, allow_head=False, expect_handler=expect)
        beside = {
            f"{PREFIX}/openapi.json": self._openapi,
            "/health": self._health,
            "/health/ready": self._health,
            "/health/live": self._live,
            "/metrics": self._metrics,
            **dict.fromkeys(page_files(), self._page_file),
        }
        for path, handler in beside.items():
            app.router.add_get(path, handler, expect_handler=expect)
        self._server = HttpServer(app, _answer_unreadable, log)

    async def start(self, listening: socket.socket) -> None:
        """Serve the connections of a socket that listens already."""
        await self._server.start(listening)

    async def stop(self) -> None:
        """End the socket, what waits, and all connections. Requests in service have `CLOSE_S` to end."""
        self._server.close()
        self._waiting.end(self._waiting.begun, "the control server has stopped")
        self.events.end()
        await self._server.stop()

    # --- requests

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse what may not be served, and make a problem document of what fails."""
        refusal = self._access.refusal(
            request.method, request.path, request.headers, has_body=request.body_exists and request.content_length != 0
        )
        if refusal is not None:
            return self._answer_problem(refusal.problem, dict(refusal.headers))
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            told = f"a body may have {MAX_BODY_BYTES} bytes"
            return self._answer_problem(
                make_problem("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large", told)
            )
        except web.HTTPException as error:
            return self._answer_problem(_problem_of_path(request, error), dict(error.headers))
        except web.RequestPayloadError as error:
            return self._answer_problem(bad_request("the body cannot be read", error))
        except Exception as error:
            problem = problem_of(error)
            if problem["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("%s %s failed", request.method, request.path, exc_info=error)
            return self._answer_problem(problem)

    def _handler_of(self, route: Route) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return await self._call(route, request)

        return handle

    async def _call(self, route: Route, request: web.Request) -> web.Response:
        decode = request.query.get(DECODE, "text")
        if decode not in NAMES:
            raise WrongValue(f"{DECODE}={decode!r}: must be {' or '.join(NAMES)}", f"/{DECODE}")
        document, texts = await _given(request)
        about = dict(request.match_info)
        table = self._table(route, about)
        method = getattr(table, route.method, None)
        if method is None:
            kind = "a cluster" if route.table is SharedOperations else "a broker"
            raise RuntimeError(f"{route.verb} {route.path} is for {kind}, and this is none")
        signature = signature_of(getattr(type(table), route.method))
        if BROKER in about and BROKER not in signature.arguments:
            self._check_only_broker(about.pop(BROKER))
        arguments = signature.bind(document, {**texts, **route.named(about, signature.arguments)})
        result = await self._result(route, method, arguments)
        if route.creates is not None:
            return await self._created(route.creates, arguments["name"])
        if signature.result is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        if route.is_text:
            return web.Response(text=without_data_dir(result, self._served.data_dir), content_type="text/plain")
        if decode == BY_SCHEMA:
            data = await self._schema_decoding.writer(result, request.match_info.get("topic", ""))
        else:
            data = DECODERS[decode]
        headers = {}
        if isinstance(result, RecordPage) and result.next is not None:
            topic = request.match_info.get("topic") or arguments["topic"]
            headers[hdrs.LINK] = link_header(PREFIX, topic, arguments, result, request.query.get(DECODE))
        return web.Response(body=await _written(result, data), headers=headers, content_type="application/json")

    async def _created(self, path: str, name: str) -> web.Response:
        """The answer about a topic that is there now: its description, and where it is."""
        described = await TopicControl(self._served.operations, name).describe()
        return web.Response(
            status=HTTPStatus.CREATED,
            headers={hdrs.LOCATION: f"{PREFIX}{path.format(quote(name, safe=''))}"},
            body=write_json(to_json(described)),
            content_type="application/json",
        )

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
        call = asyncio.ensure_future(method(**arguments))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait([call])
            if not call.cancelled() and (error := call.exception()) is not None:
                log.warning("%s %s failed, and its client has gone: %s", route.verb, route.path, error)
            raise
        finally:
            self._waiting.end(waiting, ENDS_WAITS.get(route.method, ""))

    def _table(self, route: Route, path: dict[str, str]) -> Any:
        """The table of operations of a route, with what the path says it is about."""
        if route.table in (ControlOperations, Overview, SubjectControl):
            return route.table(self._served)
        operations = self._served.operations
        if route.table is SharedOperations:
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

    async def _page_file(self, request: web.Request) -> web.Response:
        file = page_files()[request.path]
        headers = {**SECURITY_HEADERS, hdrs.ETAG: file.etag, hdrs.CACHE_CONTROL: "no-cache"}
        if request.headers.get(hdrs.IF_NONE_MATCH) == file.etag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=file.content, headers={**headers, hdrs.CONTENT_TYPE: file.media_type})

    async def _openapi(self, request: web.Request) -> web.Response:
        return _answer(openapi_document(_table_of(self._served.kind)))

    async def _health(self, request: web.Request) -> web.Response:
        readiness = await ControlOperations(self._served).readiness()
        status = HTTPStatus.OK if readiness.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _answer(to_json(readiness), status)

    async def _live(self, request: web.Request) -> web.Response:
        return _answer({"is_live": True})

    async def _metrics(self, request: web.Request) -> web.Response:
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
        return web.Response(body=b"".join(pieces), headers={hdrs.CONTENT_TYPE: METRICS_TYPE})

    def _answer_problem(self, problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
        """A problem document as an answer. No message of an error shows where the data are."""
        told = {
            name: without_data_dir(value, self._served.data_dir) if isinstance(value, str) else value
            for name, value in problem.items()
        }
        return _problem_response(told, headers)


def bad_request(what: str, message: object) -> Problem:
    """The problem of a request that HTTP's rules refuse, with the parser's message."""
    return make_problem("http", HTTPStatus.BAD_REQUEST, HTTPStatus.BAD_REQUEST.phrase, parser_message(what, message))


def _answer_unreadable(status: HTTPStatus, detail: str) -> web.Response:
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


def _table_of(kind: str) -> type[SharedOperations]:
    """The class of the table of operations, which also a server has whose broker was stopped."""
    if kind == "broker":
        from kmini.testkit.operations import Operations

        return Operations
    from kmini.testkit.cluster_operations import ClusterOperations

    return ClusterOperations


async def _given(request: web.Request) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments of a request as JSON, and those that are texts of its query. Raises WrongValue."""
    texts: dict[str, str] = {}
    for name, value in request.query.items():
        if name in texts:
            raise WrongValue(f"{name} is given twice", f"/{name}")
        if name != DECODE:
            texts[name] = value
    body = await read_body(request)
    if not body:
        return {}, texts
    try:
        given = read_json(body)
    except WrongValue as error:
        raise WrongValue(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise WrongValue("the body must be an object with the arguments by name")
    return given, texts


def _problem_of_path(request: web.Request, error: web.HTTPException) -> Problem:
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        told = f"there is no {request.path}{_nearest_path(request.path)}; {PREFIX}/openapi.json lists the paths"
        return make_problem("no-such-path", status, "There is no such path", told)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        told = f"{request.method} is none for {request.path}; there are: {error.headers.get('Allow', '')}"
        return make_problem("method", status, "The path does not have this method", told)
    return make_problem("http", status, status.phrase)


def _nearest_path(path: str) -> str:
    """The end of a sentence about a path that does not exist: the most similar one, with the same names in it."""
    from difflib import get_close_matches  # not needed before

    parts = path.removeprefix(PREFIX).rstrip("/").split("/")
    paths = [
        PREFIX + "/".join(own if part.startswith("{") else part for own, part in zip(parts, wanted, strict=True))
        for wanted in (route.path.split("/") for route in ROUTES)
        if len(wanted) == len(parts)
    ]
    near = get_close_matches(path, paths, n=1, cutoff=0.6)
    return f"; nearest: {near[0]}" if near else ""


def _answer(document: Any, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=write_json(document), status=status, content_type="application/json")


def _problem_response(problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
    kept = {
        name: value for name, value in (headers or {}).items() if name.lower() not in ("content-type", "content-length")
    }
    return web.Response(body=write_json(problem), status=problem["status"], content_type=CONTENT_TYPE, headers=kept)
