"""What serve runs: it starts again with its data, ports, clock and rules (testkit/lifecycle.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kmini.control.managed_brokers import ManagedBrokers
from support.control_api import ControlApi


@pytest.fixture(params=[1, 2], ids=["broker", "cluster"])
def either(request: pytest.FixtureRequest) -> ControlApi:
    api: ControlApi = request.getfixturevalue("api" if request.param == 1 else "cluster_api")
    return api


def addresses(managed: ManagedBrokers) -> list[str]:
    return [broker.address for broker in managed.brokers]


def test_a_stop_and_a_start_keep_data_ports_clock_rules_and_journal(either: ControlApi) -> None:
    api = either
    rule = {"name": "lost", "when": {"api": ["Produce"]}, "do": [{"drop": True}]}
    api.done("POST", "/faults", {"rules": [rule]})
    api.done("POST", "/topics/orders/records", {"value": "kept"})
    api.done("POST", "/clock/advance", {"duration": "7d"})
    before, cluster_id = addresses(api.managed), api.done("GET", "")["cluster_id"]
    ahead_ms = api.done("GET", "/clock")["ahead_ms"]
    api.done("POST", "/stop")
    assert not api.managed.is_running
    assert addresses(api.managed) == []
    api.done("POST", "/start")
    assert addresses(api.managed) == before
    assert api.done("GET", "")["cluster_id"] == cluster_id
    assert [record["value"] for record in api.done("GET", "/topics/orders/records")] == ["kept"]
    assert api.done("GET", "/clock")["ahead_ms"] == ahead_ms > 6 * 86_400_000
    assert [status["name"] for status in api.done("GET", "/faults")] == ["lost"]
    assert api.any_broker.services.journal is not None


def test_operations_of_what_is_stopped_say_how_to_start_it(api: ControlApi) -> None:
    api.run(api.managed.stop())
    with pytest.raises(RuntimeError, match="POST /api/v1/start starts it"):
        _ = api.managed.operations
    api.run(api.managed.stop())
    api.run(api.managed.start())
    with pytest.raises(RuntimeError, match="runs already"):
        api.run(api.managed.start())


def test_starts_and_stops_at_once_run_one_after_the_other(either: ControlApi) -> None:
    api = either

    async def all_at_once() -> list[object]:
        calls = [api.managed.stop(), api.managed.start(), api.managed.start(), api.managed.stop(), api.managed.start()]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = api.run(all_at_once())
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "NoneType",
        "NoneType",
        "RuntimeError",
        "NoneType",
        "NoneType",
    ]
    assert api.managed.is_running
    assert api.done("GET", "/topics") == ["orders"]


def test_topics_of_the_start_are_not_emptied_by_a_second_start(api: ControlApi) -> None:
    api.done("DELETE", "/topics/orders")
    api.done("POST", "/topics", {"name": "users"})
    api.done("POST", "/stop")
    api.done("POST", "/start")
    assert api.done("GET", "/topics") == ["orders", "users"]


def test_the_data_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ControlApi("data").managed.data_dir == str(tmp_path / "data")


def test_rules_that_are_first_set_after_a_stop_and_a_start_act_on_what_runs(either: ControlApi) -> None:
    api = either
    api.run(api.managed.stop())
    api.run(api.managed.start())
    api.done("POST", "/faults", {"rules": [{"name": "slow", "when": {"api": ["Produce"]}, "do": [{"delay": "1ms"}]}]})
    assert all(broker.services.interceptors for broker in api.managed.brokers)
    api.done("DELETE", "/faults")
    assert not any(broker.services.interceptors for broker in api.managed.brokers)
