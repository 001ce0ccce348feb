"""The control server: the test kit over HTTP, on the broker's loop and a port of its own (extra "http").

`routes.py` has the paths. Requests and answers are JSON, errors are problem documents, and what waits for clients is a
request that takes as long: its `timeout_ms` ends it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web

from kmini.broker.metrics_text import metrics_text
from kmini.control.access import Access
from kmini.control.calls import signature_of
from kmini.control.control_operations import ControlOperations, Served, TopicControl
from kmini.control.fault_control import FaultControl, RuleControl
from kmini.control.json_kinds import WrongValue, to_json
from kmini.control.openapi import openapi_document
from kmini.control.problems import CONTENT_TYPE, Problem, make_problem, problem_of
from kmini.control.record_decoding import DECODERS
from kmini.control.report_control import ReportControl
from kmini.control.routes import PREFIX, ROUTES, Route
from kmini.group_handle import GroupOperations
from kmini.handle import waits_for_its_caller
from kmini.shared_operations import SharedOperations
from kmini.topic_handle import TopicOperations

log = logging.getLogger("kmini.http")

MAX_BODY_BYTES = 16 * 1024 * 1024
"""The largest body of a request."""

CLOSE_S = 0.3
"""Seconds that requests in service have when the server stops; aiohttp waits twice as long for one that goes on."""

DECODE = "decode"
"""The argument of a query that says how keys and values are written."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ControlServer:
    """Serves the control API of a broker or a cluster."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        """With a `token`, every request must bring it."""
        self._served = served
        self._access = Access(token)
        app = web.Application(middlewares=[self._guarded], client_max_size=MAX_BODY_BYTES)
        for route in ROUTES:
            app.router.add_route(route.verb, PREFIX + route.path.rstrip("/"), self._handler_of(route))
        app.router.add_get(f"{PREFIX}/openapi.json", self._openapi)
        app.router.add_get("/health", self._health)
        app.router.add_get("/health/ready", self._health)
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=CLOSE_S)

    async def start(self, listening: socket.socket) -> None:
        """Serve the connections of a socket that listens already."""
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    async def stop(self) -> None:
        """End all connections, and the socket."""
        await self._runner.cleanup()

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
            return _answer_problem(refusal.problem, dict(refusal.headers))
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            told = f"a body may have {MAX_BODY_BYTES} bytes"
            return _answer_problem(
                make_problem("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large", told)
            )
        except web.HTTPException as error:
            return _answer_problem(_problem_of_path(request, error), dict(error.headers))
        except Exception as error:
            problem = problem_of(error)
            if problem["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.error("%s %s failed", request.method, request.path, exc_info=error)
            return _answer_problem(problem)

    def _handler_of(self, route: Route) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            return await self._call(route, request)

        return handle

    async def _call(self, route: Route, request: web.Request) -> web.Response:
        decode = request.query.get(DECODE, "text")
        if decode not in DECODERS:
            raise WrongValue(f"{DECODE}={decode!r}: must be {' or '.join(DECODERS)}", f"/{DECODE}")
        document, texts = await _given(request)
        about = dict(request.match_info)
        table = self._table(route, about)
        method = getattr(table, route.method, None)
        if method is None:
            kind = "a cluster" if route.table is SharedOperations else "a broker"
            raise RuntimeError(f"{route.verb} {route.path} is for {kind}, and this is none")
        signature = signature_of(getattr(type(table), route.method))
        arguments = signature.bind(document, {**texts, **route.named(about, signature.arguments)})
        result = await _ended(method, arguments)
        if signature.result is None:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        if route.is_text:
            return web.Response(text=result, content_type="text/plain")
        return _answer(to_json(result, DECODERS[decode]))

    def _table(self, route: Route, path: dict[str, str]) -> Any:
        """The table of operations of a route, with what the path says it is about."""
        if route.table is ControlOperations:
            return ControlOperations(self._served)
        operations = self._served.operations
        if route.table is SharedOperations:
            return operations
        if route.table in (TopicOperations, TopicControl):
            return route.table(operations, path.pop("topic"))
        if route.table is GroupOperations:
            return GroupOperations(operations, path.pop("group"))
        if route.table in (FaultControl, ReportControl):
            return route.table(operations, self._served.rules)
        if route.table is RuleControl:
            return RuleControl(self._served.rules, path.pop("rule"))
        return route.table(operations)

    # --- beside the routes

    async def _openapi(self, request: web.Request) -> web.Response:
        return _answer(openapi_document(type(self._served.operations)))

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
        text = metrics_text(self._served.operations.one_broker(min(numbers) if broker is None and numbers else broker))
        return web.Response(body=text.encode(), headers={hdrs.CONTENT_TYPE: METRICS_TYPE})


async def _ended(method: Callable[..., Awaitable[Any]], arguments: dict[str, Any]) -> Any:
    """The result of a call. What acts runs to its end though its client has gone; a wait ends with its client."""
    call = asyncio.ensure_future(method(**arguments))
    if waits_for_its_caller(method):
        return await call
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


async def _given(request: web.Request) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments of a request as JSON, and those that are texts of its query. Raises WrongValue."""
    texts = {name: value for name, value in request.query.items() if name != DECODE}
    body = await request.read()
    if not body:
        return {}, texts
    try:
        given = json.loads(body)
    except ValueError as error:
        raise WrongValue(f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise WrongValue("the body must be an object with the arguments by name")
    return given, texts


def _problem_of_path(request: web.Request, error: web.HTTPException) -> Problem:
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        told = f"there is no {request.path}; {PREFIX}/openapi.json lists the paths"
        return make_problem("no-such-path", status, "There is no such path", told)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        told = f"{request.method} is none for {request.path}; there are: {error.headers.get('Allow', '')}"
        return make_problem("method", status, "The path does not have this method", told)
    return make_problem("http", status, status.phrase)


def _answer(document: Any, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(text=json.dumps(document, ensure_ascii=False), status=status, content_type="application/json")


def _answer_problem(problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
    kept = {
        name: value for name, value in (headers or {}).items() if name.lower() not in ("content-type", "content-length")
    }
    return web.Response(
        text=json.dumps(problem, ensure_ascii=False), status=problem["status"], content_type=CONTENT_TYPE, headers=kept
    )
