"""The settings of listeners, resolved for each of them: authentication, TLS, limits; and those of the authorizer.

`listener.name.<listener>.<mechanism>.<key>` overrides `listener.name.<listener>.<key>`, which overrides `<key>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ...storage.config_key import shorten, split_list
from .resources import Principal

if TYPE_CHECKING:
    from ...protocol.jaas import LoginModule
    from .bearer_tokens import Tokens
    from .tls import ListenerTls, TlsSettings

LISTENER_PREFIX = "listener.name."

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")

TOKEN_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
)
"""Kafka's classes that check tokens: by the keys of an issuer, and unsecured ones. kmini's own stand for them."""

STANDARD_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's authorizers that kmini's own stands for: that of this release, and that of releases with ZooKeeper."""

_STORES = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Those of the key store and the trust store, which may change while the broker runs, for one listener (KIP-226)."""

_LIMITS = ("max.connection.creation.rate", "max.connections")
"""Those of connections, which may change, too (KIP-402, KIP-612)."""

_PER_LISTENER = (
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.principal.mapping.rules",
    *_STORES,
    *_LIMITS,
)
"""Keys that may stand behind a listener's name."""


class NamedListener(Protocol):
    """A listener, as far as its settings are concerned."""

    @property
    def name(self) -> str: ...


class SecurityConfig(Protocol):
    """The settings of a broker that this module reads."""

    @property
    def listeners(self) -> Sequence[NamedListener]: ...

    listener_security_protocol_map: dict[str, str]
    inter_broker_listener_name: str | None
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_jaas_config: str | None
    sasl_server_max_receive_size: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_expected_audience: tuple[str, ...]
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    connections_max_reauth_ms: int
    authorizer_class_name: str
    super_users: str
    per_listener: Mapping[str, str]


class SaslSettings:
    """How the clients of one listener authenticate."""

    __slots__ = ("max_reauth_ms", "max_receive_bytes", "mechanisms", "plain_users", "tokens")

    def __init__(
        self,
        mechanisms: tuple[str, ...],
        plain_users: Mapping[str, str],
        max_reauth_ms: Mapping[str, int],
        max_receive_bytes: int,
        tokens: Tokens | None = None,
    ) -> None:
        self.mechanisms = mechanisms
        self.plain_users = plain_users
        """Passwords by user name. No `repr` shows them."""
        self.max_reauth_ms = max_reauth_ms
        """By mechanism: milliseconds until an authentication expires (KIP-368); 0 is never."""
        self.max_receive_bytes = max_receive_bytes
        """The largest frame in bytes before a client has authenticated."""
        self.tokens = tokens
        """What checks the tokens of OAUTHBEARER; None without that mechanism."""


def password_mechanisms() -> tuple[str, ...]:
    """The names of the mechanisms by which clients authenticate with a password."""
    from ...protocol.jaas import PLAIN
    from ...protocol.scram import MECHANISMS  # here, because listeners without authentication need no hashes

    return (PLAIN, *MECHANISMS)


def is_listener_setting(name: str) -> bool:
    """Whether `name` is a setting of a single listener that kmini reads."""
    return name.startswith(LISTENER_PREFIX) and name.endswith(tuple("." + key for key in _PER_LISTENER))


def changeable_key(name: str) -> str | None:
    """The key that `name` sets for a single listener, if that may change while the broker runs; else None."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    return next((key for key in (*_STORES, *_LIMITS) if name.endswith("." + key)), None)


def listener_limit(config: SecurityConfig, listener: str, key: str) -> int | None:
    """The bound of connections under `key` that the listener of this name has for itself; None without. Raises
    ValueError."""
    name, text = _find(config, listener, "", key, "") if config.per_listener else ("", "")
    return _whole(name, text) if text else None


def sasl_settings(config: SecurityConfig, listener: str) -> SaslSettings | None:
    """The SASL settings of the listener of this name; None for one without authentication.

    Raises ValueError, without quoting secrets.
    """
    if config.listener_security_protocol_map[listener] not in SASL_PROTOCOLS:
        return None
    from ...protocol.jaas import OAUTHBEARER, PLAIN

    name, text = _find(config, listener, "", "sasl.enabled.mechanisms", ",".join(config.sasl_enabled_mechanisms))
    mechanisms = tuple(item.strip().upper() for item in split_list(text))
    if not mechanisms:
        raise ValueError(f"{name}: the listener {listener} needs at least one mechanism")
    offered = (*password_mechanisms(), OAUTHBEARER)
    for mechanism in mechanisms:
        if mechanism not in offered:
            raise ValueError(f"{name}={shorten(text)}: {shorten(mechanism)} is not offered, only {', '.join(offered)}")
    users: dict[str, str] = {}
    if PLAIN in mechanisms:
        name, module = login_module(config, listener, PLAIN)
        if module is None:
            raise ValueError(f"{name}: PLAIN on the listener {listener} needs the users that it lists")
        try:
            users = plain_users(module)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    reauth, receive = str(config.connections_max_reauth_ms), str(config.sasl_server_max_receive_size)
    return SaslSettings(
        mechanisms,
        users,
        {one: _whole(*_find(config, listener, one, "connections.max.reauth.ms", reauth)) for one in mechanisms},
        _whole(*_find(config, listener, "", "sasl.server.max.receive.size", receive)),
        _tokens(config, listener) if OAUTHBEARER in mechanisms else None,
    )


def _tokens(config: SecurityConfig, listener: str) -> Tokens:
    """What checks tokens: the keys of an issuer, if there is a URL for them. Raises ValueError."""
    from ...protocol.jaas import OAUTHBEARER
    from .bearer_tokens import Claims, SignedTokens, UnsecuredTokens  # most brokers take no tokens

    def find(key: str, default: str = "") -> tuple[str, str]:
        return _find(config, listener, OAUTHBEARER, key, default)

    name, module = login_module(config, listener, OAUTHBEARER)
    options = {} if module is None else module.options
    handler_name, handler = find("sasl.server.callback.handler.class")
    if handler and handler not in TOKEN_HANDLERS:
        raise ValueError(f"{handler_name}={shorten(handler)}: must be one of {', '.join(TOKEN_HANDLERS)}, or nothing")
    url_name, url = find("sasl.oauthbearer.jwks.endpoint.url", config.sasl_oauthbearer_jwks_endpoint_url or "")
    if not url:
        if handler and handler == TOKEN_HANDLERS[0]:
            raise ValueError(f"{url_name}: {handler} needs the keys of the issuer")
        prefix = "unsecuredValidator"
        try:
            skew_ms = int(options.get(f"{prefix}AllowableClockSkewMs", "0"))
        except ValueError:
            raise ValueError(f"{name}: {prefix}AllowableClockSkewMs must be a whole number") from None
        return UnsecuredTokens(
            Claims(
                options.get(f"{prefix}PrincipalClaimName", "sub"),
                options.get(f"{prefix}ScopeClaimName", "scope"),
                options.get(f"{prefix}RequiredScope", "").split(),
                skew_s=skew_ms / 1000,
            )
        )
    audiences = ",".join(config.sasl_oauthbearer_expected_audience)
    issuer = config.sasl_oauthbearer_expected_issuer or ""
    claims = Claims(
        find("sasl.oauthbearer.sub.claim.name", config.sasl_oauthbearer_sub_claim_name)[1],
        find("sasl.oauthbearer.scope.claim.name", config.sasl_oauthbearer_scope_claim_name)[1],
        audiences=split_list(find("sasl.oauthbearer.expected.audience", audiences)[1]),
        issuer=find("sasl.oauthbearer.expected.issuer", issuer)[1],
        skew_s=_whole(*find("sasl.oauthbearer.clock.skew.seconds", str(config.sasl_oauthbearer_clock_skew_seconds))),
        of_signed=True,
    )
    refresh_ms = str(config.sasl_oauthbearer_jwks_endpoint_refresh_ms)
    try:
        return SignedTokens(claims, url, _whole(*find("sasl.oauthbearer.jwks.endpoint.refresh.ms", refresh_ms)) / 1000)
    except ValueError as error:
        raise ValueError(f"{url_name}: {error}") from None


def tls_settings(config: SecurityConfig, listener: str) -> TlsSettings | None:
    """The TLS settings of the listener of this name, with its keys; None for one without TLS.

    Raises ValueError, without quoting secrets.
    """
    if config.listener_security_protocol_map[listener] not in TLS_PROTOCOLS:
        return None
    from .tls import tls_settings as of  # most brokers have no TLS, and `ssl` is slow to import

    def find(key: str) -> tuple[str, str]:
        value = getattr(config, key.replace(".", "_")) or ""
        return _find(config, listener, "", key, value if isinstance(value, str) else ",".join(value))

    return of(find)


def listener_tls(config: Callable[[], SecurityConfig], listener: str) -> ListenerTls | None:
    """The TLS of the listener of this name, by the settings that `config` returns whenever it is renewed; None for one
    without TLS. Raises ValueError, without quoting secrets."""
    if config().listener_security_protocol_map[listener] not in TLS_PROTOCOLS:
        return None
    from .tls import ListenerTls  # see above

    def make() -> TlsSettings:
        settings = tls_settings(config(), listener)
        assert settings is not None
        return settings

    return ListenerTls(listener, make)


def login_module(config: SecurityConfig, listener: str, mechanism: str) -> tuple[str, LoginModule | None]:
    """The key that holds the JAAS configuration of a mechanism at a listener, and its login module; None without one.

    Raises ValueError, without quoting the configuration.
    """
    name, text = _find(config, listener, mechanism, "sasl.jaas.config", config.sasl_jaas_config or "")
    if not text:
        return name, None
    from ...protocol.jaas import parse_jaas  # start-up time counts

    try:
        return name, parse_jaas(text)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def check_security(config: SecurityConfig) -> None:
    """Raise ValueError for settings of listeners and of the authorizer that are invalid."""
    for listener in config.listeners:
        sasl_settings(config, listener.name)
        tls_settings(config, listener.name)
        for key in _LIMITS:
            listener_limit(config, listener.name, key)
    name = config.authorizer_class_name
    if name and name not in STANDARD_AUTHORIZERS:
        raise ValueError(f"authorizer.class.name={shorten(name)}: must be {STANDARD_AUTHORIZERS[0]}, or nothing")
    super_users(config)
    inter_broker = config.inter_broker_listener_name
    if inter_broker and inter_broker.upper() not in {listener.name for listener in config.listeners}:
        raise ValueError(f"inter.broker.listener.name={shorten(inter_broker)}: there is no listener of that name")


def super_users(config: SecurityConfig) -> tuple[Principal, ...]:
    """Parse `super.users` (`User:alice;User:bob`): the principals that may do everything. Raises ValueError."""
    text = config.super_users
    try:
        return tuple(Principal.parse(item.strip()) for item in text.split(";") if item.strip())
    except ValueError as error:
        raise ValueError(f"super.users={shorten(text)}: {error}") from None


def _find(config: SecurityConfig, listener: str, mechanism: str, key: str, default: str) -> tuple[str, str]:
    """The most specific key that is set, and its text; else `key` and `default`, the text for all listeners."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    by_name = {name.lower(): text for name, text in config.per_listener.items()}
    names = [f"{prefix}{mechanism.lower()}.{key}"] if mechanism else []
    for name in (*names, f"{prefix}{key}"):
        if name in by_name:
            return name, by_name[name]
    return key, default


def _whole(name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(f"{name}={shorten(text)}: must be a whole number that is not negative")
    return int(digits)


def plain_users(module: LoginModule) -> dict[str, str]:
    """Passwords by user, from the options `user_NAME="password"`. Raises ValueError."""
    from ...protocol.jaas import PLAIN_MODULE

    if module.name != PLAIN_MODULE:
        raise ValueError(f"must name {PLAIN_MODULE}")
    users = {key.removeprefix("user_"): value for key, value in module.options.items() if key.startswith("user_")}
    if not all(users.values()):
        raise ValueError("must not have a user without a password")
    return users
