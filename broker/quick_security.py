"""Security in one line: TLS by made certificates, users with passwords, and access rules, for a test or a dev stack.

What it says becomes Kafka's settings, users and ACLs as an administrator would make them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..client.client_config import Access, java
from ..client.made_certificates import AUTHORITY, FOLDER
from ..protocol import scram
from ..protocol.jaas import OAUTHBEARER, PLAIN, PLAIN_MODULE, SCRAM_MODULE, quoted
from .security.acls import AclBinding, check_can_be_created
from .security.resources import AclOperation, PatternType, PermissionType, Principal, ResourceType
from .security.security_settings import LISTENER_PREFIX, STANDARD_AUTHORIZERS, password_mechanisms

if TYPE_CHECKING:
    import ssl

    from .broker import BrokerServer
    from .controller.controller import Controller
    from .settings.broker_config import BrokerConfig

TLS = ("auto", "mutual")
DEFAULT_USER = "user"
SCRAM = "SCRAM-SHA-512"
BROKERS = "kmini-brokers"
"""The user that brokers are to each other."""
ITERATIONS = 4_096
RENEWED_AFTER_S = 6 * 3600
"""Certificates are good for a day."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class QuickSecurity:
    """How the clients of a broker, or of a cluster, are secured."""

    def __init__(
        self,
        tls: str | None = None,
        sasl: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[str] | None = None,
        *,
        hosts: Iterable[str] = (),
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """`tls` "auto" encrypts; "mutual" wants a certificate of each client, too. `sasl` is a mechanism and `users`
        their passwords; without users there is one, whose password is drawn. `acls` are rules as "alice Write
        topic:orders". Certificates are for loopback and for the `hosts`.

        Raises ValueError, TypeError, and ImportError without the package cryptography."""
        self.tls = _one_of("tls", tls, TLS)
        mechanisms = (*password_mechanisms(), OAUTHBEARER)
        self.mechanism = _one_of("sasl", sasl.upper() if isinstance(sasl, str) else sasl, mechanisms)
        self.token_endpoint = ""
        """Where clients get tokens for OAUTHBEARER, once there is an issuer."""
        self.users = self._users(users)
        self.acls = None if acls is None else [parse_acl(text) for text in _sequence("acls", acls)]
        if self.acls is not None and not (self.mechanism or self.tls == "mutual"):
            raise ValueError('acls: they need users, by sasl="PLAIN", say, or by the certificates of tls="mutual"')
        self._hosts = list(dict.fromkeys((*LOOPBACK, *(host for host in hosts if host not in ("0.0.0.0", "::")))))
        self._brokers_password = drawn_password()
        self._folder: Path | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._http_context: ssl.SSLContext | None = None
        if self.tls:
            from ..client.made_certificates import Authority

            self._authority = Authority(None if data_dir is None else Path(data_dir, FOLDER))

    def _users(self, users: Mapping[str, str] | None) -> dict[str, str]:
        if users is None:
            return {DEFAULT_USER: drawn_password()} if self.mechanism else {}
        expected = 'users: must be a mapping of names to passwords, as {"alice": "wonderland"}'
        if not isinstance(users, Mapping):
            raise TypeError(expected)
        if not self.mechanism:
            raise ValueError('users: they need sasl, the mechanism by which they log in, as "SCRAM-SHA-512"')
        if not users or not all(isinstance(text, str) and text for pair in users.items() for text in pair):
            raise ValueError(f"{expected}, none of them empty")
        return dict(users)

    @property
    def protocol(self) -> str:
        """The security protocol of the listener, which is its name, too."""
        tls = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{tls}" if self.mechanism else tls

    def settings(self) -> dict[str, str]:
        """Kafka's settings of each broker."""
        settings: dict[str, str] = {}
        if self.tls:
            settings = {"ssl.keystore.type": "PEM", **self._keys()}
        if self.tls == "mutual":
            settings |= {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self._authority.pem,
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
            }
        brokers = "ANONYMOUS"  # they have no certificates; a client without one does not come in
        if self.mechanism:
            brokers = BROKERS
            prefix = f"{LISTENER_PREFIX}{self.protocol.lower()}.{self._of_brokers.lower()}"
            settings |= {
                "sasl.enabled.mechanisms": ",".join(dict.fromkeys([self.mechanism, self._of_brokers])),
                "sasl.mechanism.inter.broker.protocol": self._of_brokers,
                f"{prefix}.sasl.jaas.config": self._login_module(),
            }
        if self.acls is not None:
            settings |= {"authorizer.class.name": STANDARD_AUTHORIZERS[0], "super.users": f"User:{brokers}"}
        return settings

    @property
    def has_tokens(self) -> bool:
        """Whether clients show tokens, of an issuer that has the passwords of the users."""
        return self.mechanism == OAUTHBEARER

    @property
    def _of_brokers(self) -> str:
        """The mechanism by which brokers log in to each other: they have no tokens."""
        return SCRAM if self.has_tokens else self.mechanism

    def _keys(self) -> dict[str, str]:
        signed = self._authority.sign("kmini", self._hosts)
        return {
            "ssl.keystore.key": signed.key,
            "ssl.keystore.certificate.chain": signed.certificate + self._authority.pem,
        }

    def http_context(self) -> ssl.SSLContext | None:
        """With the same certificates as the brokers', for what is served by HTTP beside them; None without TLS."""
        if self.tls and self._http_context is None:
            import ssl

            self._http_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._load_keys(self._http_context)
        return self._http_context

    def _load_keys(self, context: ssl.SSLContext) -> None:
        from ..client.key_stores import load_keys

        keys = self._keys()
        load_keys(context, lambda name: (name, keys.get(name, "")))

    def _login_module(self) -> str:
        words = [SCRAM_MODULE, "required", f"username={quoted(BROKERS)}", f"password={quoted(self._brokers_password)}"]
        if self.mechanism == PLAIN:
            words[0] = PLAIN_MODULE
            words += [f"{quoted(f'user_{name}')}={quoted(text)}" for name, text in self._passwords().items()]
        return f"{' '.join(words)};"

    def _passwords(self) -> dict[str, str]:
        """Those that the broker knows."""
        users = {} if self.has_tokens else self.users
        return {**users, BROKERS: self._brokers_password}

    def trust_issuer(self, config: BrokerConfig, name: str, keys: str, endpoint: str, audience: str) -> BrokerConfig:
        """The configuration with the issuer of this name, whose keys and token endpoint have these URLs, and whose
        tokens are for this audience."""
        self.token_endpoint = endpoint
        return config.replace(
            sasl_oauthbearer_expected_issuer=name,
            sasl_oauthbearer_expected_audience=(audience,),
            sasl_oauthbearer_jwks_endpoint_url=keys,
        )

    # --- when brokers start

    def renewed(self, config: BrokerConfig) -> BrokerConfig:
        """The configuration with a new certificate."""
        if not self.tls:
            return config
        new: dict[str, Any] = {key.replace(".", "_"): text for key, text in self._keys().items()}
        if config.static is not None:
            new["static"] = config.static.replace(**new)
        return config.replace(**new)

    def keep_renewed(self, brokers: Callable[[], Iterable[BrokerServer]]) -> None:
        """Give these brokers new certificates from time to time, on the running event loop, until `end`."""

        def renew() -> None:
            self.renew(brokers())
            self.keep_renewed(brokers)

        self.end()
        if self.tls:
            self._renewal = asyncio.get_running_loop().call_later(RENEWED_AFTER_S, renew)

    def renew(self, brokers: Iterable[BrokerServer]) -> None:
        """Give brokers new certificates; connections stay."""
        for broker in brokers:
            broker.config.current = self.renewed(broker.config.current)
            broker.server.renew_tls()
        if self._http_context is not None:
            self._load_keys(self._http_context)

    def end(self) -> None:
        """Renew no more."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def create(self, controller: Controller, data_dir: str) -> None:
        """Create the users of SCRAM and the access rules, and keep the authority in the data directory. Raises
        KafkaError, and OSError."""
        self._folder = Path(data_dir, FOLDER)
        if self.tls:
            self._authority.keep(self._folder)
        if self.mechanism and self.mechanism != PLAIN:
            mechanism = scram.MECHANISMS[self._of_brokers]
            credentials = {}
            for name, password in self._passwords().items():
                salt = secrets.token_bytes(16)
                salted = scram.salted_password(mechanism, password, salt, ITERATIONS)
                credential = scram.credential_of(mechanism, salted, salt, ITERATIONS)
                credentials[name, mechanism.wire_code] = credential
            controller.alter_scram_credentials(credentials, [])
        if self.acls:
            controller.create_acls(self.acls)

    # --- what clients are told

    def access(self, bootstrap_servers: str, user: str | None = None) -> Access:
        """How a client reaches the brokers as this user, by default the first one. Raises ValueError."""
        if self.mechanism and user is not None and user not in self.users:
            raise ValueError(f"user={user!r}: must be one of {', '.join(self.users)}")
        name = user or next(iter(self.users), DEFAULT_USER)
        access = Access(bootstrap_servers, self.protocol)
        if self.tls and self._folder is not None:
            access = access._replace(authority=str(self._folder / AUTHORITY))
            if self.tls == "mutual":
                access = access._replace(certificate=str(self._certificate_of(name)))
        if self.mechanism:
            access = access._replace(mechanism=self.mechanism, user=name, password=self.users[name])
            access = access._replace(token_endpoint=self.token_endpoint)
        return access

    def write_client_properties(self, bootstrap_servers: str) -> list[str]:
        """Write a file for `--command-config` and Kafka's tools for each user, or for all; return their paths."""
        from ..client.made_certificates import write_secret

        assert self._folder is not None
        paths = []
        for user in self.users or [DEFAULT_USER]:
            path = self._file_of(user, ".properties")
            settings = java(self.access(bootstrap_servers, user))
            write_secret(path, "".join(f"{name}={_property(text)}\n" for name, text in settings.items()))
            paths.append(str(path))
        return paths

    def _certificate_of(self, user: str) -> Path:
        """A file with a new key and certificate of a user."""
        from ..client.made_certificates import write_secret

        signed = self._authority.sign(user)
        path = self._file_of(user, ".pem")
        write_secret(path, signed.key + signed.certificate)
        return path

    def _file_of(self, user: str, ending: str) -> Path:
        assert self._folder is not None
        if "/" in user or "\\" in user or user.startswith("."):
            raise ValueError(f"user={user!r}: must be a name that a file can have")
        return self._folder / f"{user}{ending}"


def drawn_password() -> str:
    return secrets.token_urlsafe(16)


def _property(text: str) -> str:
    """A value in a properties file."""
    return text.replace("\\", "\\\\")


def parse_acl(text: str) -> AclBinding:
    """The rule that a user may do something: "alice Write topic:orders", "bob All group:*", "carol Read topic:eu-*".
    Operations and resource types have Kafka's names. Raises ValueError."""
    expected = 'must be "user operation type:name", as "alice Write topic:orders"'
    words = text.split() if isinstance(text, str) else []
    if len(words) != 3:
        raise ValueError(f"acls={text!r}: {expected}")
    user, operation, (type_name, _, name) = words[0], words[1], words[2].partition(":")
    kinds = {each.name.replace("_", "").lower(): each for each in ResourceType}
    operations = {each.name.replace("_", "").lower(): each for each in AclOperation}
    kind = kinds.get(type_name.replace("_", "").lower())
    may = operations.get(operation.replace("_", "").lower())
    if kind is None or may is None or not name:
        raise ValueError(f"acls={text!r}: {expected}; types: {', '.join(kinds)}; operations: {', '.join(operations)}")
    is_prefix = name.endswith("*") and name != "*"
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    principal = str(Principal.user(user.removeprefix("User:")))
    binding = AclBinding(kind, pattern, name[:-1] if is_prefix else name, principal, "*", may, PermissionType.ALLOW)
    check_can_be_created(binding)
    return binding


def _one_of(argument: str, value: Any, choices: Sequence[str]) -> str:
    if value is None:
        return ""
    if value not in choices:
        raise ValueError(f"{argument}={value!r}: must be one of {', '.join(choices)}, or None")
    return str(value)


def _sequence(argument: str, value: Any) -> Sequence[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f'{argument}={value!r}: must be a list of rules, as ["alice Write topic:orders"]')
    return value
