"""Features, and requests that clients need."""

from __future__ import annotations

from kmini import Broker
from kmini.doctor.server import missing_apis
from kmini.protocol.api_keys import API_KEYS

from .conftest import Examine


def test_a_request_that_clients_need_and_nothing_serves_is_named_with_the_clients() -> None:
    served = [key for name, key in API_KEYS.items() if name != "InitProducerId"]
    (found,) = missing_apis(served)
    assert found.name == "missing-api"
    assert found.text.startswith("the broker does not serve InitProducerId: idempotent producers")


def test_kmini_serves_all_that_clients_need(diagnose: Examine) -> None:
    with Broker() as broker:
        found = diagnose(broker.bootstrap_servers)
    assert "missing-api" not in found
    assert found["features"].text.startswith("finalized features: ")
