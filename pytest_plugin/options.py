"""The options of the plugin: command line, ini file, environment.

Importing this module costs nothing but itself: every pytest run that has kmini installed does it.
"""

import os
from typing import Literal, NamedTuple, get_args

import pytest

from kmini.testkit import patience

Scope = Literal["session", "module", "function"]
"""How long a broker lives: the whole run of a worker, the tests of a module, one test."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

SEED_INPUT = "kafka_seed"
"""The seed of fault rules, in what the controller of pytest-xdist tells its workers."""

SHARED_INPUT = "kafka_shared"
"""The address of the broker of `--kafka-shared`, in what the controller of pytest-xdist tells its workers."""

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"

_SCOPE_HELP = "a broker for each test (the default), or one that its tests share and that is reset before each of them"

TIMEOUT_VARIABLE = "KAFKA_TIMEOUT"

SHARED_MACHINE = 5
"""How much longer a worker of pytest-xdist waits: it has the machine not for itself."""

_TIMEOUT_HELP = (
    f"how long wait_for, expect, stable and the like wait where a test does not say it, as 30s ({TIMEOUT_VARIABLE} "
    f"does as well; by default 10s); {SHARED_MACHINE} times as long in a worker of pytest-xdist"
)


class Settings(NamedTuple):
    """The settings of a run."""

    scope: Scope
    bootstrap_servers: str
    """Addresses of the Kafka that the tests run against; empty for brokers of kmini in the process of the tests."""
    is_shared: bool
    """Whether one broker of kmini serves all workers of pytest-xdist."""
    config: dict[str, str]
    """Settings of every broker, by Kafka's names."""
    keep: tuple[str, ...]
    """Client ids, or patterns of them, whose connections outlive a reset: those of a service that runs all the time."""
    seed: int | None = None
    """The seed of fault rules that act by chance; None for that which every broker has."""


SETTINGS = pytest.StashKey[Settings]()
"""The settings of the run, in the stash of its config."""


def add(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("kafka", "Kafka, by kmini")
    group.addoption("--kafka-scope", choices=SCOPES, help=_SCOPE_HELP)
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help=f"run the tests against this Kafka, as {BOOTSTRAP_VARIABLE} does; empty: against brokers of kmini, "
        f"in spite of {BOOTSTRAP_VARIABLE}",
    )
    group.addoption(
        "--kafka-shared", action="store_true", help="one broker for all workers of pytest-xdist, not one for each"
    )
    group.addoption(
        "--kafka-seed",
        metavar="N",
        help="the seed of fault rules that act by chance; random: another one in each run, which the head of the "
        "output shows",
    )
    group.addoption("--kafka-timeout", metavar="DURATION", help=_TIMEOUT_HELP)
    parser.addini("kafka_timeout", _TIMEOUT_HELP, default="")
    parser.addini("kafka_scope", f"session, module or function: {_SCOPE_HELP}", default="function")
    parser.addini("kafka_config", "settings of every broker, a line for each: key=value", type="linelist", default=[])
    parser.addini(
        "kafka_keep",
        "client ids, or patterns as app-*, that stay connected when a shared broker is reset between tests",
        type="args",
        default=[],
    )


def settings(config: pytest.Config) -> Settings:
    """Read the settings of the run. Raises pytest.UsageError."""
    scope = config.getoption("--kafka-scope") or config.getini("kafka_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"kafka_scope = {scope} in the ini file: session, module or function was expected")
    bootstrap = config.getoption("--kafka-bootstrap")
    if bootstrap:
        check_addresses("--kafka-bootstrap", bootstrap)
    elif bootstrap is None:  # a suite that uses no Kafka may run where this is set to anything
        bootstrap = os.environ.get(BOOTSTRAP_VARIABLE, "")
    is_shared = bool(config.getoption("--kafka-shared")) and not bootstrap
    if is_shared:
        bootstrap = getattr(config, "workerinput", {}).get(SHARED_INPUT, "")
    settings = _config(config.getini("kafka_config"))
    return Settings(scope, bootstrap, is_shared, settings, tuple(config.getini("kafka_keep")), _seed(config))


def patience_of(config: pytest.Config) -> float:
    """By what the defaults of waits are multiplied in this run. Raises pytest.UsageError."""
    factor = SHARED_MACHINE if hasattr(config, "workerinput") else 1
    given = config.getoption("--kafka-timeout") or os.environ.get(TIMEOUT_VARIABLE) or config.getini("kafka_timeout")
    if not given:
        return factor
    from kmini.broker.clock import milliseconds

    try:
        timeout_ms = int(given) if given.isdecimal() else milliseconds(given)
    except ValueError:
        timeout_ms = 0
    if timeout_ms <= 0:
        raise pytest.UsageError(f"kafka_timeout = {given}: a time as 30s, or a number of milliseconds, was expected")
    return factor * timeout_ms / patience.DEFAULT_MS


def check_addresses(source: str, text: str) -> None:
    """Refuse bootstrap servers that are none. Raises pytest.UsageError."""
    from kmini.client.address import parse_addresses

    try:
        parse_addresses(text)
    except ValueError as error:
        raise pytest.UsageError(f"{source}: {error}") from None


def _seed(config: pytest.Config) -> int | None:
    text = config.getoption("--kafka-seed")
    if text is None:
        return None
    given = getattr(config, "workerinput", {}).get(SEED_INPUT)
    if given is not None:
        return int(given)
    if text == "random":
        return int.from_bytes(os.urandom(4), "big")
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"--kafka-seed={text}: a whole number or random was expected") from None


def _config(lines: list[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"kafka_config in the ini file: {line!r} is no setting, key=value was expected")
        found[key.strip()] = value.strip()
    return found
