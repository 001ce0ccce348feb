"""What the control API does beside the test kit's own methods: settings, segments, cleaner, purgatory, snapshots."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from kmini.control.control_operations import ControlOperations
from support.control_api import ControlApi
from support.until import until


def settings(api: ControlApi, path: str) -> dict[str, Any]:
    return {setting["name"]: setting for setting in api.done("GET", f"{path}/configs")}


def test_the_settings_of_a_topic_are_read_and_changed_and_taken_back(api: ControlApi) -> None:
    before = settings(api, "/topics/orders")["retention.ms"]
    assert (before["value"], before["is_default"]) == ("604800000", True)
    api.done("PATCH", "/topics/orders/configs", {"changes": {"retention.ms": 7, "cleanup.policy": "compact,delete"}})
    changed = settings(api, "/topics/orders")
    assert (changed["retention.ms"]["value"], changed["retention.ms"]["is_default"]) == ("7", False)
    assert api.done("GET", "/topics/orders")["configs"] == {"retention.ms": "7", "cleanup.policy": "compact,delete"}
    api.done("PATCH", "/topics/orders/configs", {"configs": {"retention.ms": None}})
    assert settings(api, "/topics/orders")["retention.ms"] == before
    assert settings(api, "/topics/orders")["cleanup.policy"]["value"] == "compact,delete"


def test_the_settings_of_a_broker_are_changed_while_it_runs(api: ControlApi) -> None:
    api.done("PATCH", "/brokers/1/configs", {"changes": {"message.max.bytes": 2_000_000}})
    assert settings(api, "/brokers/1")["message.max.bytes"]["value"] == "2000000"
    assert settings(api, "/topics/orders")["max.message.bytes"]["value"] == "2000000"
    assert settings(api, "/brokers/1")["node.id"]["is_read_only"]
    api.done("PATCH", "/brokers/1/configs", {"changes": {"message.max.bytes": None}})
    assert settings(api, "/brokers/1")["message.max.bytes"]["is_default"]


@pytest.mark.parametrize(
    ("path", "changes", "error"),
    [
        ("/topics/orders", {"retention.ms": "x"}, "INVALID_CONFIG"),
        ("/topics/missing", {"retention.ms": 1}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/brokers/1", {"node.id": 2}, "INVALID_REQUEST"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_none_changes(
    api: ControlApi, path: str, changes: dict[str, Any], error: str
) -> None:
    before = api.ask("GET", f"{path}/configs").document
    assert api.problem("PATCH", f"{path}/configs", {"changes": changes})["kafka_error"] == error
    assert api.ask("GET", f"{path}/configs").document == before


def test_a_topic_is_described_with_its_partitions_offsets_and_size(api: ControlApi) -> None:
    for value in ("one", "two"):
        api.done("POST", "/topics/orders/records", {"value": value, "partition": 1})
    described = api.done("GET", "/topics/orders")
    assert described["name"] == "orders"
    assert len(described["topic_id"]) == 32
    assert [one["leader"] for one in described["partitions"]] == [1, 1]
    assert described["offsets"]["1"]["high_watermark"] == 2
    assert described["size_bytes"] > 0
    assert described["configs"] == {}


def test_the_segments_of_a_partition_lie_end_to_end(api: ControlApi) -> None:
    for _ in range(3):
        api.done("POST", "/topics/orders/records", {"value": "placed", "partition": 0})
        api.done("POST", "/topics/orders/roll", {"partition": 0})
    first, second = api.done("GET", "/topics/orders/segments")
    assert [segment["base_offset"] for segment in first["segments"]] == [0, 1, 2, 3]
    assert [segment["is_active"] for segment in first["segments"]] == [False, False, False, True]
    assert sum(segment["size_bytes"] for segment in first["segments"]) == first["size_bytes"]
    assert first["cleaner"] is None
    assert (second["partition"], second["size_bytes"]) == (1, 0)
    assert api.done("GET", "/topics/orders/segments?partition=0") == [first]


def test_the_cleaner_tells_how_dirty_a_compacted_log_is(api: ControlApi) -> None:
    api.done("POST", "/topics", {"name": "users", "configs": {"cleanup.policy": "compact"}})
    assert api.done("GET", "/brokers/1/cleaner")[0]["partition"] == "users-0"
    for value in ("alice", "Alice"):
        api.done("POST", "/topics/users/records", {"value": value, "key": "1"})
    api.done("POST", "/topics/users/roll", {})
    (dirty,) = api.done("GET", "/brokers/1/cleaner")
    assert (dirty["first_dirty_offset"], dirty["dirty_ratio"], dirty["uncleanable"]) == (0, 1.0, "")
    assert api.done("GET", "/topics/users/segments")[0]["cleaner"] == dirty
    api.done("POST", "/topics/users/compact", {})
    (clean,) = api.done("GET", "/brokers/1/cleaner")
    assert (clean["first_dirty_offset"], clean["cleanable_bytes"]) == (2, 0)


def test_the_purgatory_counts_what_waits(api: ControlApi) -> None:
    assert api.done("GET", "/brokers/1/purgatory") == {"waiting": 0, "waits_for": {}}
    wait = {"count": 1, "timeout_ms": 60_000}
    waiter = threading.Thread(target=lambda: api.ask("POST", "/topics/orders/wait-for", wait))
    waiter.start()
    until(lambda: api.done("GET", "/brokers/1/purgatory")["waiting"] == 1)
    api.done("POST", "/topics/orders/records", {"value": "placed"})
    waiter.join(60)
    assert api.done("GET", "/brokers/1/purgatory")["waiting"] == 0


def test_a_snapshot_is_taken_listed_restored_and_deleted_by_its_name(api: ControlApi) -> None:
    api.done("POST", "/topics/orders/records", {"value": "kept"})
    assert api.done("POST", "/snapshots", {"name": "seeded"}) == {"name": "seeded"}
    assert api.done("POST", "/snapshots") == {"name": "snapshot-1"}
    assert api.done("GET", "/snapshots") == ["seeded", "snapshot-1"]
    api.done("POST", "/topics/orders/records", {"value": "lost"})
    assert api.done("POST", "/snapshots/seeded/restore", {"keep": ["app-*"]}) == {"closed": []}
    assert [record["value"] for record in api.done("GET", "/topics/orders/records")] == ["kept"]
    for name in ("seeded", "snapshot-1"):
        api.done("DELETE", f"/snapshots/{name}")
        assert "there is no snapshot" in api.problem("POST", f"/snapshots/{name}/restore")["detail"]
    assert api.done("GET", "/snapshots") == []
    assert os.listdir(os.path.join(api.data_dir, "snapshots")) == []


def test_records_are_seeded_and_missing_topics_created(api: ControlApi) -> None:
    rows = [
        {"topic": "orders", "value": {"id": 1}, "partition": 1},
        {"topic": "users", "key": "1", "value": None},
        {"topic": "users", "value": {"base64": "/w=="}, "headers": {"a": "b"}},
    ]
    assert api.done("POST", "/seed", {"records": rows}) == {"orders": 1, "users": 2}
    assert api.done("GET", "/topics/orders/records?decode=json")[0]["value"] == {"id": 1}
    assert [record["value"] for record in api.done("GET", "/topics/users/records")] == [None, {"base64": "/w=="}]
    problem = api.problem("POST", "/seed", {"records": [{"topic": "orders"}]})
    assert (problem["type"], problem["status"]) == ("urn:kmini:problem:seed", 422)


def test_the_clock_tells_how_far_it_is_ahead(api: ControlApi) -> None:
    api.done("POST", "/clock/advance", {"duration": "7d"})
    state = api.done("GET", "/clock")
    assert 0 <= 7 * 86_400_000 - state["ahead_ms"] < 60_000  # what came due took its time
    assert abs(api.done("GET", "/clock/now-ms") - state["now_ms"]) < 60_000


def test_a_broker_that_is_not_there_is_told(api: ControlApi) -> None:
    for path in ("configs", "cleaner", "purgatory"):
        problem = api.problem("GET", f"/brokers/7/{path}")
        assert problem["type"] == "urn:kmini:problem:no-such-broker"
        assert problem["detail"] == "there is no broker 7; this one is 1"


def test_the_only_broker_is_paused_by_its_number_or_without(api: ControlApi) -> None:
    for broker in ("1", "only"):
        api.done("POST", f"/brokers/{broker}/pause")
        assert api.any_broker.server.is_suspended
        assert "paused already" in api.problem("POST", f"/brokers/{broker}/pause")["detail"]
        api.done("POST", f"/brokers/{broker}/reconnect")
        assert not api.any_broker.server.is_suspended
    assert api.problem("POST", "/brokers/7/pause")["type"] == "urn:kmini:problem:no-such-broker"
    assert api.problem("POST", "/brokers/x/pause")["errors"][0]["pointer"] == "/broker"


def test_what_is_missing_of_the_start_is_told(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.managed, "missing", ["the topic users"])
    readiness = api.run(ControlOperations(api.managed).readiness())
    assert (readiness.is_ready, readiness.missing) == (False, ("the topic users",))
