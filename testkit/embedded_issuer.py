"""The issuer of tokens beside a broker or a cluster: `Broker(sasl="OAUTHBEARER")`, `kmini serve --sasl OAUTHBEARER`.

It has a token endpoint for client credentials (RFC 6749, section 4.4) and the keys that its tokens are signed with, on
loopback, so that the clients' own code runs. Needs the extras "oauth" and "http".
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import socket
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from joserfc import jwk, jwt

from kmini.broker.network.listeners import Endpoint
from kmini.broker.network.socket_server import listening_socket
from kmini.broker.quick_security import QuickSecurity
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.web.http_serving import (
    BodyMissing,
    BodyTooLarge,
    HttpServer,
    NoSuchMethod,
    NoSuchPath,
    Request,
    Response,
    Router,
    Unreadable,
)

log = logging.getLogger("kmini.issuer")

AUDIENCE = "kafka"
GOOD_FOR_S = 300
"""Seconds after which a token ends; clients fetch the next one before."""
KEYS, TOKEN = "/keys", "/token"
MOST_BODY_BYTES = 16_384
BACKLOG = 128


class EmbeddedIssuer:
    """Issues tokens to users that know their passwords. It keeps its port over a stop and a start."""

    def __init__(self, host: str, users: Mapping[str, str], listening: socket.socket | None = None) -> None:
        """`users` are client ids and their secrets. `listening` is a socket that listens at the host; without it, any
        free port is taken."""
        self._host = host
        self._users = users
        self._listening = listening
        self._port = 0 if listening is None else listening.getsockname()[1]
        self._key = jwk.ECKey.generate_key("P-256", {"kid": "kmini"})
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """The name of the issuer, too."""
        return f"http://{Endpoint('HTTP', self._host, self._port).address}"

    async def begin(self) -> None:
        """Serve requests. Raises PortTaken."""
        listening, self._listening = self._listening, None
        if listening is None:
            listening = listening_socket("issuer of tokens", self._host, self._port, BACKLOG)
            self._port = listening.getsockname()[1]
        router = Router()
        router.add("GET", KEYS, self._keys)
        router.add("POST", TOKEN, self._token)
        self._server = HttpServer(router, self._serve, _refused, log, MOST_BODY_BYTES)
        await self._server.start(listening)

    def trusted(self, config: BrokerConfig, security: QuickSecurity) -> BrokerConfig:
        """The configuration of a broker that takes this issuer's tokens."""
        return security.trust_issuer(config, self.url, self.url + KEYS, self.url + TOKEN, AUDIENCE)

    async def end(self) -> None:
        """End all connections."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _serve(self, request: Request) -> Response:
        try:
            return await request.handler(request)
        except NoSuchPath:
            return _json({"error": "not_found"}, HTTPStatus.NOT_FOUND)
        except NoSuchMethod:
            return _json({"error": "method_not_allowed"}, HTTPStatus.METHOD_NOT_ALLOWED)
        except (BodyMissing, BodyTooLarge, Unreadable):
            return _json({"error": "invalid_request"}, HTTPStatus.BAD_REQUEST)

    async def _keys(self, request: Request) -> Response:
        return _json({"keys": [self._key.as_dict(private=False)]})

    async def _token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode("latin-1")).items()}
        if form.get("grant_type") != "client_credentials":
            return _json({"error": "unsupported_grant_type"}, HTTPStatus.BAD_REQUEST)
        user, password = _credentials(request, form)
        expected = self._users.get(user, "")
        if not expected or not hmac.compare_digest(password.encode(), expected.encode()):
            log.warning("no token: wrong client id or secret")
            return _json({"error": "invalid_client"}, HTTPStatus.UNAUTHORIZED)
        token = self.token(user, scope=form.get("scope", ""))
        return _json({"access_token": token, "token_type": "Bearer", "expires_in": GOOD_FOR_S})

    def token(self, user: str, *, scope: str = "", good_for_s: int = GOOD_FOR_S) -> str:
        """A token of a user."""
        now_s = int(time.time())
        claims: dict[str, Any] = {
            "sub": user,
            "iss": self.url,
            "aud": AUDIENCE,
            "iat": now_s,
            "exp": now_s + good_for_s,
        }
        claims |= {"scope": scope} if scope else {}
        return jwt.encode({"alg": "ES256", "kid": self._key.kid}, claims, self._key, algorithms=["ES256"])


def _credentials(request: Request, form: Mapping[str, str]) -> tuple[str, str]:
    """Client id and secret, which stand in the header or in the body."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        user, _, password = base64.b64decode(encoded).decode().partition(":")
    except ValueError:
        return "", ""
    return unquote(user), unquote(password)


def _json(answer: object, status: int = HTTPStatus.OK) -> Response:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return Response(status, headers, json.dumps(answer).encode())


def _refused(status: HTTPStatus, detail: str) -> Response:
    return _json({"error": "invalid_request", "error_description": detail}, status)
