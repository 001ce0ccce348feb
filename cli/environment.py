"""`kmini serve --env`: configure a broker with `KAFKA_*` variables, as the image apache/kafka does.

The rules are that image's. A variable is a line of server.properties: `KAFKA_LOG_RETENTION_MS=60000` is
`log.retention.ms=60000`, with `__` for an underscore and `___` for a dash; it overrides the file. Without
`KAFKA_LISTENERS` the listeners are those of `KAFKA_ADVERTISED_LISTENERS` on every address. Unlike in that image, an
unset variable leaves its default: one variable does not drop the others. `KAFKA_CREATE_TOPICS` is as in
wurstmeister/kafka, `KAFKA_CFG_*` as in bitnami/kafka, and `KMINI_*` are kmini's own settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from kmini.cli.wanted_topics import NewTopic

PREFIX = "KAFKA_"
OWN_PREFIX = "KMINI_"

NOT_SETTINGS = frozenset(
    """
    KAFKA_VERSION KAFKA_HEAP_OPTS KAFKA_LOG4J_OPTS KAFKA_OPTS KAFKA_JMX_OPTS KAFKA_JVM_PERFORMANCE_OPTS
    KAFKA_GC_LOG_OPTS KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_LOG4J_LOGGERS KAFKA_TOOLS_LOG4J_LOGLEVEL KAFKA_JMX_HOSTNAME
    """.split()  # noqa: SIM905 (names, not code)
)
"""Variables that apache/kafka's image keeps out of server.properties (KafkaDockerWrapper, 4.3.1)."""

OTHER_IMAGES_VARIABLES = frozenset(
    """
    KAFKA_HOME KAFKA_USER KAFKA_GROUP KAFKA_JMX_PORT KAFKA_DEBUG KAFKA_CLASSPATH KAFKA_TOOLS_LOG4J_OPTS
    KAFKA_BOOTSTRAP_SERVERS KAFKA_URI KAFKA_CREATE_TOPICS KAFKA_CREATE_TOPICS_SEPARATOR
    KAFKA_PORT KAFKA_HOST_NAME KAFKA_ADVERTISED_HOST_NAME KAFKA_ADVERTISED_PORT
    KAFKA_ENABLE_KRAFT KAFKA_KRAFT_CLUSTER_ID KAFKA_CLIENT_USERS KAFKA_CLIENT_PASSWORDS
    KAFKA_INTER_BROKER_USER KAFKA_INTER_BROKER_PASSWORD KAFKA_CERTIFICATE_PASSWORD KAFKA_TLS_TYPE
    KAFKA_REST_BOOTSTRAP_SERVERS
    """.split()  # noqa: SIM905 (names, not code)
)
"""Variables of other images and of clients, which are no settings of a broker."""

USED = frozenset(
    """
    KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_CREATE_TOPICS KAFKA_CREATE_TOPICS_SEPARATOR KAFKA_BOOTSTRAP_SERVERS
    KAFKA_PORT KAFKA_ADVERTISED_HOST_NAME KAFKA_ADVERTISED_PORT KAFKA_KRAFT_CLUSTER_ID
    """.split()  # noqa: SIM905 (names, not code)
)
"""The ones among these variables that kmini uses."""

MAX_PORT = 65535
MAX_BROKERS = 100
"""Most brokers in one process."""
MAX_INIT_TIMEOUT_MS = 86_400_000
"""Milliseconds of a day, the longest that a script of the init directory may take."""

TOPICS = "KAFKA_CREATE_TOPICS"
HTTP_PORT = "KMINI_HTTP"
HTTP_HOST = "KMINI_HTTP_HOST"
REGISTRY_PORT = "KMINI_SCHEMA_REGISTRY"
REGISTRY_HOST = "KMINI_SCHEMA_REGISTRY_HOST"
ISSUER_PORT = "KMINI_ISSUER"
BROKERS = "KMINI_BROKERS"
INIT_DIR = "KMINI_INIT_DIR"
INIT_TIMEOUT_MS = "KMINI_INIT_TIMEOUT_MS"
TLS = "KMINI_TLS"
SASL = "KMINI_SASL"
USERS = "KMINI_USERS"
ACLS = "KMINI_ACLS"

PROGRAM_VARIABLES = frozenset(
    """
    KMINI_TRACEBACK KMINI_PURE KMINI_KAFKA_JARS KMINI_SOAK KMINI_PATIENCE KMINI_LOG_FORMAT
    KMINI_HTTP KMINI_HTTP_HOST KMINI_HTTP_TOKEN KMINI_SCHEMA_REGISTRY KMINI_SCHEMA_REGISTRY_HOST
    KMINI_BROKERS KMINI_INIT_DIR KMINI_INIT_TIMEOUT_MS KMINI_TLS KMINI_SASL KMINI_USERS KMINI_ACLS
    KMINI_ISSUER KMINI_COMMAND_CONFIG KMINI_HTTP_URL KMINI_SCHEMA_REGISTRY_URL
    """.split()  # noqa: SIM905 (names, not code)
)
"""kmini's own variables that are no settings of a broker, and what it tells the scripts of an init directory."""

SERVICE_LINK = r"KAFKA_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP)(_(ADDR|PORT|PROTO))?|\w*NAME_LINK)"
"""Variables that Kubernetes and Docker's links set in every container for a service named kafka."""

MOUNTED_FILE = "/mnt/shared/config/server.properties"
"""Path of a server.properties that is mounted into apache/kafka's image."""

EVERY_ADDRESS = "://:9092"
"""The address of the listener of a container without configured listeners."""

AWAITED_BY_JAVA = "Transitioning from RECOVERY to RUNNING"

LOG_LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning"}
"""kmini's log levels for log4j's; higher levels of log4j are `error`."""


class Security(NamedTuple):
    """What `--tls`, `--sasl`, `--user` and `--acl` say, or variables in their place."""

    tls: str | None = None
    sasl: str | None = None
    users: tuple[str, ...] = ()
    acls: tuple[str, ...] = ()

    def beneath(self, options: Security) -> Security:
        """The same, where the options say nothing else; users and rules of both."""
        return Security(
            options.tls or self.tls,
            options.sasl or self.sasl,
            (*self.users, *options.users),
            (*self.acls, *options.acls),
        )


class Environment(NamedTuple):
    """The settings and topics in the environment."""

    properties: dict[str, str]
    """Settings by Kafka's names."""
    topics: list[NewTopic]
    cluster_id: str
    """Empty without one."""
    log_level: str
    """Empty without one."""
    ignored: list[str]
    """Known variables without effect."""
    http_port: int | None = None
    """The port of the control API, 0 for any free one; None without a control API."""
    http_host: str = ""
    """The address of the control API; empty for every one, as the broker's is by default."""
    registry_port: int | None = None
    """The port of the schema registry, 0 for any free one; None without a schema registry."""
    registry_host: str = ""
    """The address of the schema registry; empty for every one, as the broker's is by default."""
    issuer_port: int | None = None
    """The port of the issuer of tokens; any free one without."""
    init_dir: str = ""
    """The directory of files that the start runs; empty without one."""
    init_timeout_ms: int | None = None
    """Milliseconds that a script of it may take; None for the default."""
    brokers: int = 1
    """The number of brokers."""
    security: Security = Security()
    is_read: bool = True

    def say(self) -> None:
        """Log the variables without effect."""
        import logging

        log = logging.getLogger("kmini.environment")
        if self.ignored:
            log.info("environment variables that have no effect here: %s", ", ".join(self.ignored))

    def say_ready(self, node_id: int) -> None:
        """Print the lines of apache/kafka and confluentinc/cp-kafka that wrappers wait for, on stdout and on stderr:
        some wrappers read only one of the two."""
        if self.is_read:
            lines = f"[KafkaServer id={node_id}] started", "Kafka Server started", AWAITED_BY_JAVA
            for is_stderr in (False, True):
                click.echo(f"ready: {', '.join(lines)}", err=is_stderr)


NO_ENVIRONMENT = Environment({}, [], "", "", [], is_read=False)
"""The environment without `--env`."""


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Read the variables. Raises click.UsageError, which names a misspelt or unsupported variable."""
    properties: dict[str, str] = {}
    ignored = []
    for variable, value in environ.items():
        if re.fullmatch(SERVICE_LINK, variable):
            continue
        if variable in NOT_SETTINGS or variable in OTHER_IMAGES_VARIABLES:
            if variable not in USED:
                ignored.append(variable)
        elif variable.startswith((PREFIX, OWN_PREFIX)) and variable not in PROGRAM_VARIABLES:
            properties.update(_lines(variable, value))
    _listen_for_advertised(properties)
    _take_host_and_port(properties, environ)
    _check_roles(properties)
    level = environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").strip().upper()
    return Environment(
        properties,
        _topics(environ.get(TOPICS, ""), environ.get("KAFKA_CREATE_TOPICS_SEPARATOR", "")),
        (environ.get("CLUSTER_ID") or environ.get("KAFKA_KRAFT_CLUSTER_ID") or "").strip(),
        LOG_LEVELS.get(level, "error") if level else "",
        sorted(ignored),
        _port(HTTP_PORT, environ, "control API"),
        environ.get(HTTP_HOST, "").strip(),
        _port(REGISTRY_PORT, environ, "schema registry"),
        environ.get(REGISTRY_HOST, "").strip(),
        _port(ISSUER_PORT, environ, "issuer of tokens"),
        environ.get(INIT_DIR, "").strip(),
        _number(INIT_TIMEOUT_MS, environ, MAX_INIT_TIMEOUT_MS, "milliseconds"),
        _number(BROKERS, environ, MAX_BROKERS, "a number of brokers") or 1,
        Security(
            environ.get(TLS, "").strip() or None,
            environ.get(SASL, "").strip() or None,
            _items(environ.get(USERS, ""), ","),
            _items(environ.get(ACLS, ""), ";"),
        ),
    )


def complete(properties: MutableMapping[str, str], environ: Mapping[str, str]) -> None:
    """Set the defaults of a container where file, environment and options set nothing: listen on every address, and
    advertise to clients outside the address they can reach."""
    from kmini.broker.network.listeners import Endpoint
    from kmini.broker.network.port_mapping import is_behind_port_mapping
    from kmini.broker.settings.broker_config import BrokerConfig, ConfigError

    if not properties.get("listeners", "").strip():
        properties["listeners"] = f"PLAINTEXT{EVERY_ADDRESS}"
    if "kmini.mapped.listeners" in properties or not is_behind_port_mapping(environ):
        return
    about_listeners = ("listener", "advertised.listeners", "controller.listener.names", "ssl.", "sasl.")
    try:
        config = BrokerConfig.parse({key: text for key, text in properties.items() if key.startswith(about_listeners)})
    except ConfigError:
        return  # `kmini serve` reports the invalid listeners
    unadvertised = {
        endpoint.name for endpoint in config.listeners if endpoint.port
    } - config.advertised_listeners.keys()
    properties["kmini.mapped.listeners"] = ",".join(
        str(Endpoint(endpoint.name, "localhost", endpoint.port))
        for endpoint in config.listeners
        if endpoint.name in unadvertised
    )


def mounted_file() -> str | None:
    """The server.properties that is mounted into the image, if any."""
    return MOUNTED_FILE if os.path.exists(MOUNTED_FILE) else None


def key_of(variable: str) -> str:
    """The setting of a `KAFKA_` variable."""
    name = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def variable_of(key: str) -> str:
    """The variable of a setting."""
    name = key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
    return name if name.startswith(OWN_PREFIX) else PREFIX + name


# --- settings


def _lines(variable: str, value: str) -> dict[str, str]:
    """The lines of server.properties for a variable: one, unless its value holds line ends."""
    from kmini.broker.settings.broker_config import ALIASES, BROKER_KEYS
    from kmini.broker.settings.ignored_keys import is_ignored
    from kmini.broker.settings.properties import parse_properties
    from kmini.protocol.similar_names import similar_names

    key = key_of(PREFIX + variable.removeprefix("KAFKA_CFG_").removeprefix(PREFIX))
    try:
        lines = parse_properties(f"{key}={value}")
    except ValueError as error:
        raise click.UsageError(f"{variable}: {error}") from error
    for name in lines:
        if not (name in BROKER_KEYS or name in ALIASES or is_ignored(name)):
            settings = map(variable_of, (*BROKER_KEYS, *ALIASES))
            known = [*settings, *NOT_SETTINGS, *OTHER_IMAGES_VARIABLES, *PROGRAM_VARIABLES]
            by_rest = {one.removeprefix(PREFIX): one for one in known}  # all are similar in their prefix
            near = similar_names(variable_of(name).removeprefix(PREFIX), by_rest)
            hint = f" (did you mean {by_rest[near[0]]}?)" if near else ""
            raise click.UsageError(f"{variable}: there is no setting {name}{hint}")
    return lines


def _listen_for_advertised(properties: MutableMapping[str, str]) -> None:
    """Derive missing listeners from the advertised ones, on every address. An advertised listener without a host, which
    Apache Kafka gives the container's name, counts as not advertised: each client gets the address that it can
    reach."""
    advertised = properties.get("advertised.listeners", "")
    if advertised and not properties.get("listeners", ""):
        properties["listeners"] = re.sub("://[^:]*:", "://0.0.0.0:", advertised)
    if "://:" in advertised:
        with_host = [endpoint for endpoint in advertised.split(",") if "://:" not in endpoint]
        properties["advertised.listeners"] = ",".join(with_host)


def _take_host_and_port(properties: MutableMapping[str, str], environ: Mapping[str, str]) -> None:
    """Read the settings of Kafka before 3.0 that many wurstmeister/kafka files still use."""
    host = environ.get("KAFKA_ADVERTISED_HOST_NAME", "").strip()
    port = environ.get("KAFKA_PORT", "").strip()
    port = port if port.isdigit() else "9092"  # Kubernetes sets tcp://10.0.0.1:9092 for a service named kafka
    if host and "listeners" not in properties and "advertised.listeners" not in properties:
        advertised_port = environ.get("KAFKA_ADVERTISED_PORT", "").strip() or port
        properties["advertised.listeners"] = f"PLAINTEXT://{host}:{advertised_port}"
        properties["listeners"] = f"PLAINTEXT://:{port}"


def _check_roles(properties: Mapping[str, str]) -> None:
    """Refuse the role of one node of a larger cluster: a kmini is a whole cluster, and several would lose records."""
    roles = {role.strip() for role in properties.get("process.roles", "broker").split(",") if role.strip()}
    if roles == {"controller"}:
        raise click.UsageError(
            "KAFKA_PROCESS_ROLES=controller: kmini needs no controller beside it; remove this service, keep the broker"
        )
    voters = [voter for voter in properties.get("controller.quorum.voters", "").split(",") if voter.strip()]
    if "controller" in roles and len(voters) > 1:
        raise click.UsageError(
            f"KAFKA_CONTROLLER_QUORUM_VOTERS names {len(voters)} brokers: several kmini form no cluster, "
            "each would be one of its own; keep one of them"
        )


def _topics(text: str, separator: str) -> list[NewTopic]:
    if not text:
        return []
    from kmini.cli.wanted_topics import parse_topics

    return list(parse_topics(text, TOPICS, separator))


def _items(text: str, separator: str) -> tuple[str, ...]:
    """What is separated by this sign, or by line ends."""
    items = (item.strip() for line in text.splitlines() for item in line.split(separator))
    return tuple(filter(None, items))


def _port(variable: str, environ: Mapping[str, str], what: str) -> int | None:
    """The port that a variable names; None if it is empty."""
    text = environ.get(variable, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= MAX_PORT):
        raise click.UsageError(f"{variable}={text}: a port was expected, or nothing for no {what}")
    return int(text)


def _number(variable: str, environ: Mapping[str, str], most: int, expected: str) -> int | None:
    """The number, from 1 to `most`, that a variable names; None if it is empty."""
    text = environ.get(variable, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 0 < int(text) <= most):
        raise click.UsageError(f"{variable}={text}: {expected} was expected, from 1 to {most}")
    return int(text)
