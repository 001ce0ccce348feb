"""Clients of a schema registry in other languages, as far as `make registry-clients` has fetched them."""

from __future__ import annotations

from pathlib import Path

from support.apache_kafka import REPOSITORY


def jars() -> Path:
    """The folder of the jar with Avro and with Confluent's client for Java, whether or not it is there yet."""
    return REPOSITORY / ".peers" / "registry-clients"


def why_no_java() -> str | None:
    """Why the clients for Java cannot run here, or None when they can. That Java is there is not asked."""
    if not any(jars().glob("*.jar")):
        return f"the clients of a schema registry are not in {jars()} (make registry-clients fetches them)"
    return None
