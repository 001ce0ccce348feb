"""What falls due next on the two timelines of the clock, and that it happens then."""

from __future__ import annotations

from typing import Any

from kmini.control.connected import ConnectedBroker
from support.control_api import ControlApi
from support.small_client import SmallClient

DAY_MS = 86_400_000
SLACK_MS = 60_000
"""More than a test takes."""


def due(api: ControlApi, what: str) -> dict[str, Any]:
    """The one entry of this kind."""
    (found,) = [one for one in api.done("GET", "/clock/due") if one["what"] == what]
    return dict(found)


def create(api: ControlApi, name: str, **configs: object) -> None:
    api.done("POST", "/topics", {"name": name, "configs": {key.replace("_", "."): to for key, to in configs.items()}})


def produce(api: ControlApi, topic: str, value: str | None = "placed", *, key: str = "a", partition: int = 0) -> None:
    api.done("POST", f"/topics/{topic}/records", {"key": key, "value": value, "partition": partition})


def test_nothing_is_due_in_an_empty_broker(api: ControlApi) -> None:
    assert api.done("GET", "/clock/due") == []


def test_retention_is_told_for_the_earliest_partition_of_a_topic_and_deletes_then(api: ControlApi) -> None:
    create(api, "logins", retention_ms=DAY_MS)
    produce(api, "logins")
    for partition in (0, 1):
        produce(api, "orders", partition=partition)
    api.done("PATCH", "/topics/orders/configs", {"changes": {"retention.ms": 2 * DAY_MS}})
    first, second = api.done("GET", "/clock/due")
    assert (first["name"], first["partition_count"], first["is_time_out"]) == ("logins", 1, False)
    assert (second["name"], second["partition_count"], second["kind"]) == ("orders", 2, "topic")
    assert DAY_MS - SLACK_MS < first["in_ms"] <= DAY_MS + 1
    assert first["text"] == "retention deletes the oldest segment of logins-0"
    api.done("POST", "/clock/advance", {"duration": first["in_ms"] + first["within_ms"]})
    assert [one["name"] for one in api.done("GET", "/clock/due")] == ["orders"]
    assert api.done("GET", "/topics/logins/offsets")["0"]["log_start_offset"] == 1


def test_compaction_sealing_and_removal_of_tombstones_are_told_of_a_compacted_topic(api: ControlApi) -> None:
    create(api, "users", cleanup_policy="compact", max_compaction_lag_ms=DAY_MS, delete_retention_ms=3 * DAY_MS)
    produce(api, "users", "1")
    produce(api, "users", None)
    assert due(api, "roll")["text"].startswith("the active segment of users-0 is sealed")
    api.done("POST", "/topics/users/roll", {"partition": 0})
    assert DAY_MS - SLACK_MS < due(api, "compaction")["in_ms"] <= DAY_MS + 1
    api.done("POST", "/topics/users/compact", {"partition": 0})
    horizon = due(api, "tombstones")
    assert 3 * DAY_MS - SLACK_MS < horizon["in_ms"] <= 3 * DAY_MS
    assert horizon["name"] == "users"
    api.done("POST", "/clock/advance", {"duration": horizon["in_ms"] + horizon["within_ms"]})
    assert api.done("GET", "/topics/users/tombstones?partition=0")["tombstone_count"] == 0


def test_an_uncompacted_and_an_internal_topic_have_nothing_for_the_cleaner(api: ControlApi) -> None:
    api.done("PATCH", "/groups/billing/offsets", {"offsets": {"orders-0": 0}})
    produce(api, "orders")
    assert {one["what"] for one in api.done("GET", "/clock/due")} == {"retention"}


def test_a_session_ends_without_a_heartbeat(server: ControlApi, broker: ConnectedBroker) -> None:
    api = server
    with SmallClient(api.any_broker.address, "billing-1") as client:
        client.subscribe("billing", "orders")
        session = due(api, "session")
        assert (session["kind"], session["name"], session["is_time_out"]) == ("group", "billing", True)
        assert "'billing-1'" in session["text"]
        api.done("POST", "/clock/advance", {"duration": session["in_ms"] + session["within_ms"], "liveness": True})
        assert api.done("GET", "/groups/billing")["members"] == []


def test_a_transaction_is_aborted_at_its_time_out(api: ControlApi) -> None:
    with SmallClient(api.any_broker.address, "payments") as client:
        client.begin("payments-1", "orders", timeout_ms=40_000)
        entry = due(api, "transaction")
        assert (entry["kind"], entry["name"]) == ("transaction", "payments-1")
        assert 0 < entry["in_ms"] <= 40_001
        api.done("POST", "/clock/advance", {"duration": entry["in_ms"] + entry["within_ms"], "liveness": True})
        assert api.done("GET", "/transactions") == []


def test_the_earliest_come_first_and_no_more_than_wanted(api: ControlApi) -> None:
    for number in range(5):
        create(api, f"topic-{number}", retention_ms=DAY_MS * (5 - number))
        produce(api, f"topic-{number}")
    found = api.done("GET", "/clock/due?count=3")
    assert [one["name"] for one in found] == ["topic-4", "topic-3", "topic-2"]
