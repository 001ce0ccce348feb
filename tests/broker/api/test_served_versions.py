"""The table of APIs and versions that a broker serves."""

from __future__ import annotations

from pathlib import Path

from kmini.broker.api.registry import loaded
from kmini.broker.api.served_versions import SERVED_VERSIONS
from kmini.broker.handlers import HANDLERS

FOLDER = Path(__file__).resolve().parents[3] / "broker" / "handlers"


def test_the_table_names_each_module_of_a_handler_in_order() -> None:
    modules = sorted(path.stem for path in FOLDER.glob("*.py") if "@handles(" in path.read_text(encoding="utf-8"))
    assert [*SERVED_VERSIONS] == modules


def test_every_version_of_a_message_is_served() -> None:
    for handler in loaded(HANDLERS).values():
        request = handler.request
        served = handler.min_version, handler.max_version
        assert served == (request.min_version, request.max_version), request.name
