"""Which requests the control server serves: those with its token, and none that another site's page makes.

On loopback no token is needed unless one is set. What a browser sends for the page of another site is refused: by its
Origin, by its Sec-Fetch-Site, by a Host that is no name of this machine (DNS rebinding), or because a form cannot send
JSON. There are no cookies.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from kmini.control.problems import Problem, make_problem
from kmini.web.http_hosts import is_other_origin, names_this_machine

JSON = "application/json"

OPEN_PATHS = ("/health", "/health/live", "/health/ready")
"""Paths that need no token: container engines ask them."""

PAGE = ("/", "/page/")
"""The page, and where its other files are. They need no token, and a link on another site may lead to the page."""

READING = ("GET", "HEAD", "OPTIONS")


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Refusal(NamedTuple):
    """Why a request is not served."""

    problem: Problem
    headers: Mapping[str, str]


class Access:
    """Decides on each request by its method, its path and its headers."""

    def __init__(self, token: str | None) -> None:
        """`token` None: every program of this machine may ask."""
        self._token = token

    def refusal(self, method: str, path: str, headers: Mapping[str, str], *, has_body: bool) -> Refusal | None:
        """Why a request is refused; None if it is served. `headers` finds names in any case."""
        host = headers.get("Host", "")
        if self._token is None and not names_this_machine(host):
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, "host", f"Host is {host!r}, and this server is at localhost")
        origin = headers.get("Origin")
        if is_other_origin(origin, host):
            return _refuse(HTTPStatus.FORBIDDEN, "origin", f"a page of {origin} cannot use this server")
        is_page = method in READING and (path == PAGE[0] or path.startswith(PAGE[1]))
        is_followed = is_page and headers.get("Sec-Fetch-Mode") == "navigate"
        if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not is_followed:
            return _refuse(HTTPStatus.FORBIDDEN, "origin", "a page of another site cannot use this server")
        if self._token is not None and not is_page and path not in OPEN_PATHS and not self._is_authorized(headers):
            told = "the header Authorization: Bearer TOKEN is needed; kmini printed the token when it started"
            return _refuse(HTTPStatus.UNAUTHORIZED, "token", told, {"WWW-Authenticate": 'Bearer realm="kmini"'})
        content_type = headers.get("Content-Type")
        if method not in READING and (has_body or content_type is not None):
            kind = (content_type or "").partition(";")[0].strip().lower()
            if kind != JSON:
                told = f"the body must be JSON, with the header Content-Type: {JSON}; it is {kind or 'not said'}"
                return _refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-type", told, {"Accept": JSON})
        return None

    def _is_authorized(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        assert self._token is not None
        return scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode(errors="surrogateescape"), self._token.encode()
        )


def _refuse(status: HTTPStatus, name: str, detail: str, headers: Mapping[str, str] | None = None) -> Refusal:
    return Refusal(make_problem(name, status, status.phrase, detail), headers or {})
