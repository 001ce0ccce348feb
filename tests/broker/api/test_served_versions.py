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


NARROWER = {"EndTxn": 4, "TxnOffsetCommit": 4}
"""The highest versions served of APIs whose next version belongs to the second version of transactions (KIP-890)."""


def test_every_version_of_a_message_is_served_but_those_of_the_second_version_of_transactions() -> None:
    for handler in loaded(HANDLERS).values():
        request = handler.request
        highest = NARROWER.get(request.name, request.max_version)
        assert (handler.min_version, handler.max_version) == (request.min_version, highest), request.name
