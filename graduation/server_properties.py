"""`server.properties` for the new directory: Kafka's stock file, or the settings of kmini's broker, converted for
Kafka.

Kafka 4 is its own controller, which it reaches over a listener; as a broker it also reaches itself over a listener. If
clients need no password, the second one is theirs. If they do, both are listeners on the loopback address, with a user
whose random password is in this file only.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..broker.network.listeners import Endpoint, parse_endpoint, split_endpoints
from ..broker.security.bearer_tokens import SignedTokens
from ..broker.security.security_settings import SASL_PROTOCOLS, STANDARD_AUTHORIZERS, sasl_settings
from ..broker.settings.broker_config import BrokerConfig, ConfigError
from ..protocol import scram
from ..protocol.jaas import OAUTH, OAUTH_MODULE, OAUTHBEARER, PLAIN_MODULE, SCRAM_MODULE, quoted
from ..storage.config_key import split_list
from ..storage.log_config import LogConfig
from .kafka_settings import ChangedSetting, for_kafka
from .metadata_log import CONTROLLER_LISTENER
from .source import Refused

STOCK_NODE_ID = 1
CONTROLLER_PORT = 9093
"""Port of the controller in Kafka's stock file."""

SIGNED_TOKENS = f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
"""The class that checks the signatures of tokens."""
_NODE_LISTENER = "NODE"
"""Name of the node's own listener; a digit follows if clients have a listener of that name."""
_LOOPBACK = "localhost"
_EVERY_ADDRESS = ("", "0.0.0.0", "::")

_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "default.replication.factor": "1",
}
"""Replication settings of a cluster with one node. kmini caps them at the number of brokers; Kafka does not."""

_REPLACED = (
    "process.roles",
    "node.id",
    "broker.id",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.mechanism.controller.protocol",
    "sasl.jaas.config",
)
"""Settings that the new cluster determines."""


class ServerProperties(NamedTuple):
    text: str
    node_id: int
    controller_port: int
    changed: list[ChangedSetting]
    """Settings that cannot be kept."""
    holds_secrets: bool
    log_config: LogConfig
    """The settings of logs that it gives to topics without their own."""


def server_properties(out: str, node_id: int | None, configured: Mapping[str, str] | None) -> ServerProperties:
    """Make the file for a log directory `out`; `configured` are the settings of kmini's broker, if they are known.
    Without a `node_id`, that broker's id counts.

    Refused for settings that no broker of kmini starts with.
    """
    try:
        config = BrokerConfig.parse(configured or {})
    except ConfigError as error:
        raise Refused(str(error)) from error
    listening = _Listening(config, configured or {})
    if node_id is None:
        node_id = config.node_id if configured else STOCK_NODE_ID
    head = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "log.dirs": out,
        **listening.settings(),
        **{name: value for name, value in _ONE_NODE.items() if name != "default.replication.factor"},
    }
    kept, changed = for_kafka("server.properties", configured or {})
    for name, most in _ONE_NODE.items():
        if kept.get(name, most) != most:
            changed.append(ChangedSetting("server.properties", name, kept[name], most, "the new cluster has one node"))
        kept.pop(name, None)
    for name in (*_REPLACED, *head):
        kept.pop(name, None)
    if listening.has_authorizer:
        kept["authorizer.class.name"] = STANDARD_AUTHORIZERS[0]
    if listening.user and listening.has_authorizer:
        others = kept.get("super.users", "").strip("; ")
        kept["super.users"] = ";".join(filter(None, (others, f"User:{listening.user}")))
    lines = ["# Written by kmini graduate. Start Apache Kafka on it: bin/kafka-server-start.sh THIS_FILE"]
    lines += [f"{_escaped(name, ' =:#!')}={_escaped(value)}" for name, value in {**head, **kept}.items()]
    holds_secrets = bool(listening.user) or any(
        word in name for name in kept for word in ("jaas", "password", "secret.key")
    )
    return ServerProperties(
        "\n".join(lines) + "\n", node_id, listening.controller_port, changed, holds_secrets, config.log_config
    )


class _Listening:
    """The listeners of clients, controller and broker."""

    def __init__(self, config: BrokerConfig, configured: Mapping[str, str]) -> None:
        self._config = config
        self._clients = config.listeners if configured.get("listeners") else (Endpoint("PLAINTEXT", "", 9092),)
        self._protocols = {one.name: config.listener_security_protocol_map[one.name] for one in self._clients}
        self.has_authorizer = bool(config.authorizer_class_name)
        """Whether an authorizer is configured."""
        is_secured = self.has_authorizer or any(protocol in SASL_PROTOCOLS for protocol in self._protocols.values())
        self.user = f"kafka-{secrets.token_hex(4)}" if is_secured else ""
        """User of the node itself; empty if it needs none. The name is random, because this user may do everything."""
        ports = {one.port for one in self._clients}
        controllers = _controllers(configured)
        first = controllers[0].port if controllers else CONTROLLER_PORT
        free = (port for port in range(first, 65_536) if port not in ports)
        self.controller_port = next(free)
        self._node_port = next(free)
        names = {one.name for one in self._clients}
        if CONTROLLER_LISTENER in names:
            raise Refused(f"a listener for clients cannot be called {CONTROLLER_LISTENER} in Kafka: name it otherwise")
        numbered = (f"{_NODE_LISTENER}{number or ''}" for number in range(len(names) + 1))
        self._node_listener = next(name for name in numbered if name not in names)

    def settings(self) -> dict[str, str]:
        """The settings about listeners."""
        controller = Endpoint(CONTROLLER_LISTENER, _LOOPBACK, self.controller_port)
        listeners = [*self._clients]
        advertised = [self._advertised(one) for one in self._clients]
        protocol = "SASL_PLAINTEXT" if self.user else "PLAINTEXT"
        protocols = {**self._protocols, CONTROLLER_LISTENER: protocol}
        inter_broker = self._clients[0].name
        if self.user:
            inter_broker = self._node_listener
            itself = Endpoint(inter_broker, _LOOPBACK, self._node_port)
            listeners.append(itself)
            advertised.append(itself)
            protocols[inter_broker] = protocol
        settings = {
            "controller.quorum.bootstrap.servers": f"{_LOOPBACK}:{self.controller_port}",
            "controller.listener.names": CONTROLLER_LISTENER,
            "listeners": _joined([*listeners, controller]),
            "advertised.listeners": _joined([*advertised, controller]),
            "inter.broker.listener.name": inter_broker,
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
        }
        if self.user:
            settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
            settings["sasl.mechanism.controller.protocol"] = "PLAIN"
            settings |= self._own_login()
            for one in self._clients:
                settings |= self._logins_of_clients(one)
        return settings

    def _advertised(self, listener: Endpoint) -> Endpoint:
        """The advertised address. kmini can give clients the address they connected to; Kafka needs one address."""
        host, port = self._config.advertised_listeners.get(listener.name, (listener.host, listener.port))
        return Endpoint(listener.name, _LOOPBACK if host in _EVERY_ADDRESS else host, port)

    def _own_login(self) -> dict[str, str]:
        password = secrets.token_urlsafe(24)
        login = f'{PLAIN_MODULE} required username="{self.user}" password="{password}" user_{self.user}="{password}";'
        settings = {}
        for name in (CONTROLLER_LISTENER, self._node_listener):
            prefix = f"listener.name.{name.lower()}."
            settings[f"{prefix}sasl.enabled.mechanisms"] = "PLAIN"
            settings[f"{prefix}plain.sasl.jaas.config"] = login
        return settings

    def _logins_of_clients(self, listener: Endpoint) -> dict[str, str]:
        """The mechanisms of a listener with passwords, and a login module for each, which Kafka needs and kmini does
        not."""
        sasl = sasl_settings(self._config, listener.name)
        if sasl is None:
            return {}
        prefix = f"listener.name.{listener.name.lower()}."
        settings = {f"{prefix}sasl.enabled.mechanisms": ",".join(sasl.mechanisms)}
        for mechanism in sasl.mechanisms:
            if mechanism in scram.MECHANISMS:
                login = f"{SCRAM_MODULE} required;"
            elif mechanism == OAUTHBEARER:
                login = f"{OAUTH_MODULE} required;"
                if isinstance(sasl.tokens, SignedTokens):  # else Kafka takes unsecured ones, as kmini does
                    settings[f"{prefix}oauthbearer.sasl.server.callback.handler.class"] = SIGNED_TOKENS
            else:
                users = "".join(f" user_{name}={quoted(password)}" for name, password in sasl.plain_users.items())
                login = f"{PLAIN_MODULE} required{users};"
            settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = login
        return settings


def _controllers(configured: Mapping[str, str]) -> list[Endpoint]:
    """The controller's listeners in a file made for Kafka; kmini ignores them."""
    names = {name.upper() for name in split_list(configured.get("controller.listener.names", ""))}
    listeners = map(parse_endpoint, split_endpoints(configured.get("listeners", "")))
    return [listener for listener in listeners if listener.name in names and listener.port]


def _joined(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))


def _escaped(text: str, separators: str = "") -> str:
    r"""Escape a key or a value of a properties file: characters that Java interprets are written as \uXXXX."""
    out = []
    for at, character in enumerate(text):
        is_plain = " " <= character <= "~" and character != "\\" and character not in separators
        if is_plain and (at or character != " "):
            out.append(character)
        else:
            units = character.encode("utf-16-be")
            out += [f"\\u{units[unit : unit + 2].hex()}" for unit in range(0, len(units), 2)]
    return "".join(out)
