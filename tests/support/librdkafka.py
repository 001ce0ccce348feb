"""Settings of clients over librdkafka for tests of faults: they try again at once and are quiet."""

from __future__ import annotations

from typing import Any

IMPATIENCE: dict[str, int] = {
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 10,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
}
"""Milliseconds between two tries, which Java's clients call by the same names."""


def impatient(servers: str, **config: Any) -> dict[str, Any]:
    """The settings of a client that tries again at once. Those of `config` are added, and have _ for the dots; names of
    callbacks stay as they are."""
    return {
        "bootstrap.servers": servers,
        "log_level": 0,
        "error_cb": lambda error: None,  # fatal errors are raised by poll otherwise
        **IMPATIENCE,
        **{name if name.endswith("_cb") else name.replace("_", "."): value for name, value in config.items()},
    }
