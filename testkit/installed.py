"""Whether the packages of an extra are installed. Nothing is imported for it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

REGISTRY = ("h11", "avro", "google.protobuf", "jsonschema")
"""The modules that the extra "registry" brings."""

OAUTH = ("joserfc", "h11")
"""Those of the extras "oauth" and "http"."""


def missing(modules: Iterable[str]) -> list[str]:
    """The modules that cannot be imported."""
    return [module for module in modules if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False
