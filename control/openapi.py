"""The OpenAPI 3.1 document of the control API, made from the routes and the methods behind them."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

from kmini.control.arguments import Argument, argument_schema, signature_of
from kmini.control.control_operations import TopicControl
from kmini.control.event_ring import TYPES
from kmini.control.problems import CONTENT_TYPE
from kmini.control.record_decoding import NAMES
from kmini.control.routes import PREFIX, ROUTES, Route
from kmini.testkit.operations import Operations

_PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "kafka_error": {"type": "string", "description": "Kafka's name of the error"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "message": {"type": "string"}},
                "required": ["pointer", "message"],
            },
        },
    },
    "required": ["type", "title", "status"],
}

_DECODE = {
    "name": "decode",
    "in": "query",
    "description": "How keys and values of records are written; schema: decoded by the schema registry",
    "schema": {"enum": [*NAMES], "default": "text"},
}


EVENTS = "/events"
"""The path of the event stream, below PREFIX. It is no method of a table: its answer does not end."""

_EVENTS = {
    "operationId": "get_events",
    "tags": ["the server"],
    "summary": "What changes, as Server-Sent Events",
    "description": "What changes, as Server-Sent Events: a stream (WHATWG) of events, each with an id, a name and one "
    "JSON object. Last-Event-ID goes on after an event. The event `dropped` tells how many events of which types the "
    "stream could not have; `lost` is null where that is not known. The event `reset` comes whichever types are asked "
    "for.",
    "parameters": [
        {
            "name": "types",
            "in": "query",
            "description": "Names with commas between them; without it all types",
            "schema": {"type": "array", "items": {"enum": [*TYPES]}},
            "style": "form",
            "explode": False,
        },
        {
            "name": "topic",
            "in": "query",
            "description": "Of the events about topics, those about one of these; may be given several times",
            "schema": {"type": "array", "items": {"type": "string"}},
        },
        {
            "name": "last_event_id",
            "in": "query",
            "description": "Go on after this event; the header Last-Event-ID has precedence",
            "schema": {"type": "integer"},
        },
        {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}},
    ],
    "responses": {
        "200": {"description": "The stream", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        "default": {"$ref": "#/components/responses/Problem"},
    },
}


@cache
def openapi_document(operations: type[Operations]) -> dict[str, Any]:
    """The document for a server whose table is of this class: that of a broker, or that of a cluster."""
    from importlib.metadata import version  # memory counts

    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        table = operations if route.table is Operations else route.table
        method = getattr(table, route.method, None)
        if method is not None:
            paths.setdefault(PREFIX + route.path.rstrip("/"), {})[route.verb.lower()] = _operation(route, method)
    paths[PREFIX + EVENTS] = {"get": _EVENTS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kmini control API", "version": version("kmini"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "responses": {
                "Problem": {
                    "description": "Why it was not done",
                    "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route, method: Any) -> dict[str, Any]:
    signature = signature_of(method)
    in_path = {name: signature.arguments.get(name) for name in route.path_arguments}
    named = route.named(dict.fromkeys(in_path, ""), signature.arguments)
    others = [argument for name, argument in signature.arguments.items() if name not in named]
    parameters = [_in_path(name, argument) for name, argument in in_path.items()]
    document: dict[str, Any] = {
        "operationId": f"{route.verb.lower()}{re.sub(r'[^a-z]+', '_', route.path)}".rstrip("_"),
        "tags": [route.subject],
        "summary": _summary(method),
        "description": _description(method),
    }
    if route.verb in ("GET", "DELETE"):
        parameters += [_in_query(argument) for argument in others]
    elif others:
        document["requestBody"] = {
            "required": any(argument.is_required for argument in others),
            "content": {"application/json": {"schema": _body(others)}},
        }
    if not route.is_text and signature.result is not None:
        parameters.append(_DECODE)
    document["parameters"] = parameters
    document["responses"] = {**_success(route, signature.result), "default": {"$ref": "#/components/responses/Problem"}}
    return document


def _success(route: Route, result: Any) -> dict[str, Any]:
    if route.creates is not None:
        made = signature_of(TopicControl.describe).result
        assert made is not None
        location = {"description": "Where it is", "schema": {"type": "string"}}
        return {
            "201": {
                "description": "It is there now",
                "headers": {"Location": location},
                "content": {"application/json": {"schema": made.schema()}},
            }
        }
    if result is None:
        return {"204": {"description": "Done"}}
    if route.is_text:
        return {"200": {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}}}
    return {"200": {"description": "Done", "content": {"application/json": {"schema": result.schema()}}}}


def _in_path(name: str, argument: Argument | None) -> dict[str, Any]:
    schema = {"type": "string"} if argument is None else argument_schema(argument)
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(argument: Argument) -> dict[str, Any]:
    return {
        "name": argument.name,
        "in": "query",
        "required": argument.is_required,
        "schema": argument_schema(argument),
    }


def _body(arguments: list[Argument]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {argument.name: argument_schema(argument) for argument in arguments},
        "required": [argument.name for argument in arguments if argument.is_required],
        "additionalProperties": False,
    }


def _summary(method: Any) -> str:
    is_outside = r"(?![^(]*\))"  # of a parenthesis
    return re.split(rf"(?<=[.:;])\s{is_outside}", _description(method), maxsplit=1)[0].rstrip(".:;")


def _description(method: Any) -> str:
    """The docstring of the method, without its examples in Python."""
    text = inspect.getdoc(method) or ""
    paragraphs = [part for part in text.split("\n\n") if not part.lstrip().startswith(">>>")]
    return "\n\n".join(" ".join(part.split("\n")) for part in paragraphs)
