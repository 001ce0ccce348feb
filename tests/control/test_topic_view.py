"""The last records of a topic as a page shows them."""

from __future__ import annotations

import pytest

from kmini.control import topic_view
from support.control_api import ControlApi


def produce(api: ControlApi, value: str | None, partition: int = 0, **more: object) -> None:
    api.done("POST", "/topics/orders/records", {"value": value, "partition": partition, **more})


def test_the_newest_of_all_partitions_come_first(api: ControlApi) -> None:
    for number in range(6):
        produce(api, str(number), number % 2, timestamp_ms=1_000 + number)
    found = api.done("GET", "/topics/orders/latest?count=3")
    assert [(one["value"], one["partition"], one["offset"]) for one in found] == [("5", 1, 2), ("4", 0, 2), ("3", 1, 1)]


def test_records_before_an_offset_are_those_of_its_partition(api: ControlApi) -> None:
    for number in range(5):
        produce(api, str(number))
    found = api.done("GET", "/topics/orders/latest?partition=0&before=3&count=2")
    assert [one["offset"] for one in found] == [2, 1]
    assert "say of which partition" in api.problem("GET", "/topics/orders/latest?before=3")["detail"]


@pytest.mark.parametrize("count", [0, 1_001])
def test_a_number_of_records_is_neither_none_nor_more_than_a_page(api: ControlApi, count: int) -> None:
    produce(api, "placed")
    problem = api.problem("GET", f"/topics/orders/latest?count={count}")
    assert problem["status"] == 422
    assert "must be 1 to 1000" in problem["detail"]


def test_a_search_by_key_goes_back_to_the_begin_of_the_log(api: ControlApi) -> None:
    produce(api, "wanted", key="42")
    for number in range(topic_view.PAUSE_RECORDS + 200):
        produce(api, str(number), key="41")
    found = api.done("GET", "/topics/orders/latest?count=1&key=42")
    assert [one["value"] for one in found] == ["wanted"]


def test_a_text_is_sought_in_keys_values_and_headers_whatever_their_case(api: ControlApi) -> None:
    produce(api, "Alice ordered", key="1")
    produce(api, "bob ordered", key="ALICE")
    produce(api, "carol", key="3", headers=[["for", "alice"]])
    produce(api, None, key="4")
    found = api.done("GET", "/topics/orders/latest?containing=aLiCe")
    assert sorted(one["offset"] for one in found) == [0, 1, 2]
    assert [one["offset"] for one in api.done("GET", "/topics/orders/latest?containing=ordered&key=1")] == [0]


def test_what_is_not_there_is_sought_in_the_end_of_a_log_alone(
    api: ControlApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        produce(api, str(number), key=str(number))
    monkeypatch.setattr(topic_view, "MOST_SEARCHED", 10)
    assert [one["offset"] for one in api.done("GET", "/topics/orders/latest?key=10")] == [10]
    assert api.done("GET", "/topics/orders/latest?key=9") == []
    assert len(api.done("GET", "/topics/orders/latest")) == 20


def test_long_values_are_cut_and_their_size_is_told(api: ControlApi) -> None:
    produce(api, "x" * (topic_view.MOST_BYTES + 1), key=None)
    (cut,) = api.done("GET", "/topics/orders/latest")
    assert (len(cut["value"]), cut["value_bytes"]) == (topic_view.MOST_BYTES, topic_view.MOST_BYTES + 1)
    assert (cut["key"], cut["key_bytes"]) == (None, -1)
    (whole,) = api.done("GET", "/topics/orders/latest?most_bytes=0")
    assert len(whole["value"]) == topic_view.MOST_BYTES + 1


def test_a_deleted_record_is_not_shown(api: ControlApi) -> None:
    for number in range(3):
        produce(api, str(number))
    api.done("POST", "/topics/orders/delete-records", {"offset": 2, "partition": 0})
    assert [one["offset"] for one in api.done("GET", "/topics/orders/latest?count=50")] == [2]


def test_the_records_of_the_other_partitions_are_there_where_one_has_no_leader(cluster_api: ControlApi) -> None:
    for partition in (0, 1):
        cluster_api.done("POST", "/topics/orders/records", {"value": str(partition), "partition": partition})
    leaders = [one["leader"] for one in cluster_api.done("GET", "/topics/orders/partitions")]
    assert sorted(leaders) == [1, 2]
    cluster_api.done("POST", "/brokers/2/kill")
    try:
        found = cluster_api.done("GET", "/topics/orders/latest")
        assert [one["partition"] for one in found] == [leaders.index(1)]
        gone = cluster_api.problem("GET", f"/topics/orders/latest?partition={leaders.index(2)}")
        assert gone["kafka_error"] == "LEADER_NOT_AVAILABLE"
    finally:
        cluster_api.done("POST", "/brokers/2/restart")


def test_tombstones_are_counted_with_the_horizon_that_a_pass_has_given_them(api: ControlApi) -> None:
    configs = {"cleanup.policy": "compact", "delete.retention.ms": 60_000}
    api.done("POST", "/topics", {"name": "users", "configs": configs})
    for value in ("1", None):
        api.done("POST", "/topics/users/records", {"key": "alice", "value": value, "partition": 0})
    found = api.done("GET", "/topics/users/tombstones?partition=0")
    assert (found["from_offset"], found["tombstone_count"]) == (0, 1)
    assert found["batches"] == [{"base_offset": 1, "last_offset": 1, "tombstones": 1, "horizon_ms": None}]
    api.done("POST", "/topics/users/roll", {"partition": 0})
    begun_ms = api.done("GET", "/clock/now-ms")
    api.done("POST", "/topics/users/compact", {"partition": 0})
    (batch,) = api.done("GET", "/topics/users/tombstones?partition=0")["batches"]
    assert begun_ms + 60_000 <= batch["horizon_ms"] <= api.done("GET", "/clock/now-ms") + 60_000


def test_tombstones_are_looked_for_in_the_last_segments_alone(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_view, "MOST_READ_BYTES", 1)
    for _ in range(2):
        produce(api, None, key="alice")
        api.done("POST", "/topics/orders/roll", {"partition": 0})
    produce(api, None, key="bob")
    found = api.done("GET", "/topics/orders/tombstones?partition=0")
    assert (found["from_offset"], found["tombstone_count"]) == (2, 1)
