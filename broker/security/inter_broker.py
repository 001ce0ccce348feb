"""How brokers connect to each other: the listener, and the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .security_settings import SASL_PROTOCOLS, SecurityConfig, login_module, password_mechanisms

if TYPE_CHECKING:
    from ...client import ConnectionSettings


class InterBrokerConfig(SecurityConfig, Protocol):
    """The settings of a broker that decide how other brokers connect to it."""

    security_inter_broker_protocol: str
    sasl_mechanism_inter_broker_protocol: str


def inter_broker_listener(config: InterBrokerConfig) -> str:
    """The name of the listener: `inter.broker.listener.name`, else the first of `security.inter.broker.protocol`, else
    the first of all."""
    if config.inter_broker_listener_name:
        return config.inter_broker_listener_name.upper()
    protocol = config.security_inter_broker_protocol
    names = [listener.name for listener in config.listeners]
    return next((name for name in names if config.listener_security_protocol_map[name] == protocol), names[0])


def inter_broker_connection(config: InterBrokerConfig, client_id: str) -> ConnectionSettings:
    """The settings with which a broker connects to another one. Raises ValueError, without quoting secrets."""
    from ...client import ConnectionSettings, Sasl  # imported late: a single broker starts without a client

    listener = inter_broker_listener(config)
    if config.listener_security_protocol_map[listener] not in SASL_PROTOCOLS:
        return ConnectionSettings(client_id=client_id)
    mechanism = config.sasl_mechanism_inter_broker_protocol.upper()
    offered = password_mechanisms()
    if mechanism not in offered:
        raise ValueError(f"sasl.mechanism.inter.broker.protocol={mechanism}: must be one of {offered}")
    name, module = login_module(config, listener, mechanism)
    options = {} if module is None else module.options
    if not options.get("username") or not options.get("password"):
        raise ValueError(f'{name} needs username="…" and password="…" for the other brokers')
    return ConnectionSettings(client_id=client_id, sasl=Sasl(mechanism, options["username"], options["password"]))
