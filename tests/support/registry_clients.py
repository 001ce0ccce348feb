"""Clients of a schema registry in other languages, as far as `make registry-clients` has fetched them."""

from __future__ import annotations

from pathlib import Path

from support.apache_kafka import REPOSITORY

FETCH = "`make registry-clients` fetches them"


def folder() -> Path:
    """Where the jars with Avro and Confluent's client for Java are, and the program in Go, or will be."""
    return REPOSITORY / ".peers" / "registry-clients"


def go_program() -> Path:
    return folder() / "registry-client"


def why_no_java() -> str | None:
    """Why the clients for Java cannot run here, or None when they can. That Java is there is not asked."""
    if not any(folder().glob("flink-sql-avro-confluent-registry-*.jar")):
        return f"the clients of a schema registry for Java are not in {folder()} ({FETCH})"
    return None


def why_no_go() -> str | None:
    """Why the clients for Go cannot run here, or None when they can."""
    return None if go_program().exists() else f"the clients of a schema registry for Go are not in {folder()} ({FETCH})"
