"""The table of groups, and the members that a rebalance waits for."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.control.connected import ConnectedBroker
from support.control_api import ControlApi
from support.small_client import SmallClient
from support.until import until


@pytest.fixture
def api(server: ControlApi, broker: ConnectedBroker) -> ControlApi:
    """A broker whose groups begin without a delay."""
    return server


def row(api: ControlApi) -> dict[str, Any]:
    (found,) = api.done("GET", "/overview/groups")
    return dict(found)


def test_a_rebalance_tells_the_member_that_it_waits_for_and_how_long(api: ControlApi) -> None:
    address = api.any_broker.address
    with SmallClient(address, "billing-1") as first, SmallClient(address, "billing-2") as second:
        first.subscribe("billing", "orders")
        assert row(api)["rebalance"] is None
        second.join("billing", "orders", waits=False)
        until(lambda: row(api)["rebalance"] is not None)
        rebalance = row(api)["rebalance"]
        assert rebalance["request"] == "JoinGroup"
        assert [one["client_id"] for one in rebalance["awaited"]] == ["billing-1"]
        assert 0 < rebalance["remaining_ms"] <= 300_000
        (entry,) = [one for one in api.done("GET", "/clock/due") if one["what"] == "rebalance"]
        assert "without 'billing-1'" in entry["text"]


def test_a_consumer_group_tells_the_member_that_has_not_given_up_its_partitions(api: ControlApi) -> None:
    address = api.any_broker.address
    with SmallClient(address, "billing-1") as first, SmallClient(address, "billing-2") as second:
        first.beat("billing", "orders")
        assert (row(api)["kind"], row(api)["assignment_epoch"], row(api)["rebalance"]) == ("consumer", 2, None)
        second.beat("billing", "orders")
        api.done("POST", "/clock/advance", {"duration": "2s"})
        second.beat("billing")
        rebalance = row(api)["rebalance"]
        assert rebalance["request"] == "ConsumerGroupHeartbeat"
        assert {one["client_id"] for one in rebalance["awaited"]} == {"billing-1", "billing-2"}
        assert rebalance["remaining_ms"] is None
        first.beat("billing")
        rebalance = row(api)["rebalance"]
        assert [one["client_id"] for one in rebalance["awaited"]] == ["billing-1"]
        assert 0 < rebalance["remaining_ms"] <= 60_000
        (entry,) = [one for one in api.done("GET", "/clock/due") if one["what"] == "rebalance"]
        assert "without 'billing-1', unless that sends ConsumerGroupHeartbeat before" in entry["text"]
        first.beat("billing", gives_up=True)
        second.beat("billing")
        assert (row(api)["state"], row(api)["rebalance"]) == ("Stable", None)


def test_a_generation_tells_the_members_that_have_not_asked_for_their_assignment(api: ControlApi) -> None:
    with SmallClient(api.any_broker.address, "billing-1") as client:
        client.join("billing", "orders")
        rebalance = row(api)["rebalance"]
        assert (rebalance["request"], len(rebalance["awaited"])) == ("SyncGroup", 1)
        client.sync("billing", {client.member_id: [("orders", 0)]})
        assert row(api)["rebalance"] is None


def test_where_a_group_is_and_how_far_it_is_behind_is_of_one_moment(api: ControlApi) -> None:
    for value in ("one", "two", "three"):
        api.done("POST", "/topics/orders/records", {"value": value, "partition": 0})
    api.done("PATCH", "/groups/billing/offsets", {"offsets": {"orders-0": 1}})
    positions = api.done("GET", "/overview/groups/billing/positions")
    assert positions == {"orders-0": {"committed": 1, "log_start_offset": 0, "high_watermark": 3, "behind": 2}}
    with SmallClient(api.any_broker.address, "app") as client:
        client.subscribe("app", "orders")
        positions = api.done("GET", "/overview/groups/app/positions")
    assert positions["orders-0"] == {"committed": None, "log_start_offset": 0, "high_watermark": 3, "behind": 3}


def test_a_group_that_does_not_exist_is_nowhere(api: ControlApi) -> None:
    assert api.problem("GET", "/overview/groups/none/positions")["kafka_error"] == "GROUP_ID_NOT_FOUND"


def test_a_share_group_tells_its_lag_and_what_it_has_in_flight(api: ControlApi, broker: ConnectedBroker) -> None:
    api.done("POST", "/topics", {"name": "jobs"})
    with SmallClient(api.any_broker.address, "worker") as worker:
        worker.share("workers", "jobs")
        worker.acquire("workers")  # the group begins at the end
        for value in ("one", "two"):
            api.done("POST", "/topics/jobs/records", {"value": value})
        assert worker.acquire("workers") == [(0, 1, 1)]
        worker.acquire("workers", (1, 1, 1))
        assert (row(api)["kind"], row(api)["lags"], row(api)["rebalance"]) == ("share", {"jobs": 1}, None)
        positions = api.done("GET", "/overview/groups/workers/positions")
        assert positions == {"jobs-0": {"committed": None, "log_start_offset": 0, "high_watermark": 2, "behind": 1}}
        in_flight = ((0, 0, "ACQUIRED", 1, worker.member_id), (1, 1, "ACKNOWLEDGED", 1, ""))
        assert broker.group("workers").describe().share_partitions == ((("jobs", 0), 0, 1, in_flight),)
        assert broker.group("workers").lag() == {("jobs", 0): 1}
