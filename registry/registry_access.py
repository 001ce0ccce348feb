"""Which requests the registry serves.

It is open as the Kafka port is. Where a listener of the broker authenticates its clients by SASL, basic authentication
asks for the same users and passwords. Where the broker has an authorizer, a user needs READ or WRITE on the topic
`_schemas`. What a browser sends for the page of a site is refused: there is no page of the registry's own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping

from kmini.broker.broker import BrokerServer
from kmini.broker.scheduler import in_thread
from kmini.broker.security.authorizer import Access
from kmini.broker.security.resources import ANONYMOUS, AclOperation, Principal, ResourceType
from kmini.broker.security.sasl_exchange import AuthenticationFailed
from kmini.broker.security.sasl_plain import PlainExchange
from kmini.broker.security.security_settings import SaslSettings, sasl_settings
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol import scram
from kmini.protocol.jaas import PLAIN
from kmini.registry.registry_errors import DENIED, FORBIDDEN, NOT_JSON, UNAUTHORIZED
from kmini.registry.schema_log import Brokers
from kmini.registry.schemas_topic import TOPIC
from kmini.web.http_hosts import is_loopback, is_other_origin, names_this_machine

MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
"""The types of answers. A client that names none of them gets the first."""

BODY_TYPES = (*MEDIA_TYPES, "application/octet-stream")
"""The types of bodies. No form of a page can send one of them to another site."""

CHALLENGE = 'Basic realm="kmini"'
"""The header WWW-Authenticate of an answer to a request without a user."""

UNKNOWN = scram.credential_of(scram.SHA_256, bytes(32), bytes(16), scram.SHA_256.min_iterations)
"""Compared with the password of an unknown user, so that refusing one takes as long as refusing a known user."""


class RegistryAccess:
    """Decides on each request by its headers and its peer."""

    def __init__(self, brokers: Brokers, host: str) -> None:
        """`host` is the address at which the registry listens."""
        self._brokers = brokers
        self._is_local = is_loopback(host)
        self._users = _Users()

    def check_headers(self, headers: Mapping[str, str], *, has_body: bool) -> None:
        """Raise RegistryError for what a page of a browser sends, and for a body that is no JSON."""
        host = headers.get("Host", "")
        if self._is_local and not names_this_machine(host):
            raise FORBIDDEN(details=f"Host is {host!r}, and this registry is at localhost")
        origin = headers.get("Origin")
        if is_other_origin(origin, host):
            raise FORBIDDEN(details=f"a page of {origin} cannot use this registry")
        if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise FORBIDDEN(details="a page of another site cannot use this registry")
        given = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if has_body and given not in BODY_TYPES:
            raise NOT_JSON(given=given or "no Content-Type", expected=MEDIA_TYPES[0])

    async def check_user(self, headers: Mapping[str, str], peer: str, *, writes: bool) -> None:
        """Raise RegistryError for a client without the password of a user, and for a user without the permission. The
        address of the client is `peer`."""
        for broker in self._brokers():
            principal = await self._users.principal(broker, headers.get("Authorization", ""))
            authorizer = broker.services.authorizer
            operation = AclOperation.WRITE if writes else AclOperation.READ
            if authorizer is not None:
                access: Access = authorizer.access_of(principal, peer)
                if not access.may(operation, ResourceType.TOPIC, TOPIC):
                    raise DENIED(user=principal.name, operation=operation.name.capitalize())
            return


class _Users:
    """The users of a broker."""

    def __init__(self) -> None:
        self._config: BrokerConfig | None = None
        self._settings: list[SaslSettings] = []
        """Those of the listeners that authenticate, by `_config`."""
        self._one_at_a_time = asyncio.Lock()
        """Held while a password is hashed: requests with wrong ones leave the threads to others."""
        self._key = secrets.token_bytes(32)
        self._known: dict[tuple[str, scram.ScramCredential], bytes] = {}
        """The password that was found right, hashed with `_key`, by user and credential."""

    async def principal(self, broker: BrokerServer, authorization: str) -> Principal:
        """The user of a request; the anonymous one where the broker has no users. Raises RegistryError."""
        config = broker.config.current
        if self._config is not config:
            found = [sasl_settings(config, listener.name) for listener in config.listeners]
            self._config, self._settings = config, [one for one in found if one is not None]
        if not self._settings:
            return ANONYMOUS
        name, password = _name_and_password(authorization)
        is_user = any(_is_plain_user(one, name, password) for one in self._settings)
        if is_user or await self._is_scram_user(broker, name, password):
            return Principal.user(name)
        raise UNAUTHORIZED()

    async def _is_scram_user(self, broker: BrokerServer, name: str, password: str) -> bool:
        """Whether a password is that of a SCRAM credential of a user."""
        offered = {mechanism for one in self._settings for mechanism in one.mechanisms}
        hashed = hmac.digest(self._key, password.encode(), "sha256")
        for mechanism in scram.MECHANISMS.values():
            if mechanism.name not in offered:
                continue
            credential = broker.controller.scram_credentials.get((name, mechanism.wire_code))
            if credential is not None and hmac.compare_digest(self._known.get((name, credential), b""), hashed):
                return True
            async with self._one_at_a_time:
                is_right = await in_thread(_is_scram_password, mechanism, credential, password)
            if is_right and credential is not None:
                self._known = {kept: of for kept, of in self._known.items() if kept[0] != name}
                self._known[name, credential] = hashed
                return True
        return False


def _name_and_password(authorization: str) -> tuple[str, str]:
    """What basic authentication says (RFC 7617). Raises RegistryError."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise UNAUTHORIZED()
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise UNAUTHORIZED() from None
    if not (colon and name and password) or "\0" in name + password:
        raise UNAUTHORIZED()
    return name, password


def _is_plain_user(settings: SaslSettings, name: str, password: str) -> bool:
    """Whether SASL/PLAIN takes a name and a password at a listener."""
    if PLAIN not in settings.mechanisms:
        return False
    try:
        PlainExchange(settings.plain_users).evaluate(f"\0{name}\0{password}".encode())
    except AuthenticationFailed:
        return False
    return True


def _is_scram_password(mechanism: scram.Mechanism, credential: scram.ScramCredential | None, password: str) -> bool:
    """Whether a stored credential was made with a password; takes milliseconds."""
    known = credential or UNKNOWN
    salted = scram.salted_password(mechanism, password, known.salt, known.iterations)
    made = scram.credential_of(mechanism, salted, known.salt, known.iterations)
    return hmac.compare_digest(made.stored_key, known.stored_key) and credential is not None
