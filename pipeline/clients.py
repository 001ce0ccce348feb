"""Where the brokers are and who to be there: said once, for Spark's Java clients and for the admin client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
DEFAULT_SERVERS = "127.0.0.1:9092"

SAME_NAMES = frozenset({"security.protocol", "sasl.mechanism", "client.id", "request.timeout.ms", "ssl.key.password"})
"""Settings that Java's clients and librdkafka call the same; the second one's `socket.timeout.ms` does for the last."""

PEM = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""What Java's clients call it (stores of type PEM only), and what librdkafka does."""

JAAS_LOGIN = re.compile(r"\.(?:PlainLoginModule|ScramLoginModule)\s+required\b(.*);", re.DOTALL)
JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


class SettingsError(Exception):
    """Settings that the admin client cannot be given; the message has no secret in it."""


@dataclass(frozen=True)
class Kafka:
    """A cluster, as clients are told of it.

    `bootstrap_servers` may be left to the environment (KAFKA_BOOTSTRAP_SERVERS) or to the command line.
    """

    bootstrap_servers: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the clients, by the names that Java's clients give them: security.protocol, sasl.jaas.config, ..."""
    admin_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the admin client only, by librdkafka's names: what cannot be derived from `settings`."""

    def __repr__(self) -> str:
        return f"Kafka({self.servers!r})"

    @property
    def servers(self) -> str:
        """HOST:PORT,...: of the declaration, else of the environment, else of this machine."""
        return self.bootstrap_servers or os.environ.get(BOOTSTRAP_VARIABLE, "") or DEFAULT_SERVERS

    def spark_options(self) -> dict[str, str]:
        """As Spark's Kafka source and sink take them."""
        prefixed = {f"kafka.{key}": value for key, value in self.settings.items()}
        return prefixed | {"kafka.bootstrap.servers": self.servers}

    def admin_config(self) -> dict[str, str]:
        """As librdkafka takes them. Raises `SettingsError` for what it cannot be given."""
        config = {key: value for key, value in self.settings.items() if key in SAME_NAMES}
        if timeout_ms := config.pop("request.timeout.ms", None):
            config["socket.timeout.ms"] = timeout_ms
        config |= self._sasl() | self._ssl() | dict(self.admin_settings)
        return config | {"bootstrap.servers": self.servers}

    def _sasl(self) -> dict[str, str]:
        jaas = self.settings.get("sasl.jaas.config")
        if not jaas or "sasl.username" in self.admin_settings:
            return {}
        login = JAAS_LOGIN.search(jaas)
        found = {name: _unescaped(a or b or c) for name, a, b, c in JAAS_OPTION.findall(login[1] if login else "")}
        if not found.get("username") or "password" not in found:
            raise SettingsError(
                "sasl.jaas.config names no user and password of PLAIN or SCRAM: "
                "Kafka(admin_settings=...) says to the admin client who to be"
            )
        return {"sasl.username": found["username"], "sasl.password": found["password"]}

    def _ssl(self) -> dict[str, str]:
        """Stores of type PEM; a keystore file holds key and certificates both."""
        derived = {theirs: self.settings[ours] for ours, theirs in PEM.items() if ours in self.settings}
        if keystore := self.settings.get("ssl.keystore.location"):
            derived |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
        for store, given in (("ssl.truststore", "ssl.ca.location"), ("ssl.keystore", "ssl.certificate.location")):
            kind = self.settings.get(f"{store}.type", "JKS").upper()
            if f"{store}.location" in self.settings and kind != "PEM" and given not in self.admin_settings:
                raise SettingsError(
                    f"{store} is {kind}, which the admin client cannot read: PEM, or Kafka(admin_settings=...)"
                )
        return derived


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
