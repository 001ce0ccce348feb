"""Which requests the registry serves.

It is open as the Kafka port is. Where a listener of the broker authenticates its clients by SASL, basic authentication
asks for the same users and passwords. Where the broker has an authorizer, a user needs READ or WRITE on the topic
`_schemas`. What a browser sends for the page of a site is refused: there is no page of the registry's own.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

from kmini.broker.broker import BrokerServer
from kmini.broker.scheduler import in_thread
from kmini.broker.security.authorizer import Access
from kmini.broker.security.resources import ANONYMOUS, AclOperation, Principal, ResourceType
from kmini.broker.security.sasl_exchange import AuthenticationFailed
from kmini.broker.security.sasl_plain import PlainExchange
from kmini.broker.security.security_settings import PLAIN, SaslSettings, sasl_settings
from kmini.http_hosts import is_loopback, name_of
from kmini.protocol import scram
from kmini.registry.registry_errors import DENIED, FORBIDDEN, NOT_JSON, UNAUTHORIZED
from kmini.registry.schema_log import Served
from kmini.registry.schemas_topic import TOPIC

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

    def __init__(self, served: Served, host: str) -> None:
        """`host` is the address at which the registry listens."""
        self._served = served
        self._is_local = is_loopback(host)

    def check_headers(self, headers: Mapping[str, str], *, has_body: bool) -> None:
        """Raise RegistryError for what a page of a browser sends, and for a body that is no JSON."""
        host = headers.get("Host", "")
        if self._is_local and not is_loopback(name_of(host)):
            raise FORBIDDEN(details=f"Host is {host!r}, and this registry is at localhost")
        origin = headers.get("Origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise FORBIDDEN(details=f"a page of {origin} cannot use this registry")
        if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise FORBIDDEN(details="a page of another site cannot use this registry")
        given = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if has_body and given not in BODY_TYPES:
            raise NOT_JSON(given=given or "no Content-Type", expected=MEDIA_TYPES[0])

    async def check_user(self, headers: Mapping[str, str], peer: str, *, writes: bool) -> None:
        """Raise RegistryError for a client without the password of a user, and for a user without the permission.
        `peer`
        is the address of the client."""
        for broker in self._served.brokers:
            principal = await _principal(broker, headers.get("Authorization", ""))
            authorizer = broker.services.authorizer
            operation = AclOperation.WRITE if writes else AclOperation.READ
            if authorizer is not None:
                access: Access = authorizer.access_of(principal, peer)
                if not access.may(operation, ResourceType.TOPIC, TOPIC):
                    raise DENIED(user=principal.name, operation=operation.name.capitalize())
            return


async def _principal(broker: BrokerServer, authorization: str) -> Principal:
    """The user of a request; the anonymous one where the broker has no users. Raises RegistryError."""
    config = broker.config.current
    found = [sasl_settings(config, listener.name) for listener in config.listeners]
    settings = [one for one in found if one is not None]
    if not settings:
        return ANONYMOUS
    name, password = _name_and_password(authorization)
    if any(_is_plain_user(one, name, password) for one in settings):
        return Principal.user(name)
    offered = {mechanism for one in settings for mechanism in one.mechanisms}
    for mechanism in scram.MECHANISMS.values():
        credential = broker.controller.scram_credentials.get((name, mechanism.wire_code))
        if mechanism.name in offered and await in_thread(_is_scram_password, mechanism, credential, password):
            return Principal.user(name)
    raise UNAUTHORIZED()


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
