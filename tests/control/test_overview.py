"""What the page shows first: counters, findings in words, tables of topics and groups."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kmini.control import overview
from kmini.pipeline import Kafka
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages.topic_owner import OWNERS_GROUP, Owner
from kmini.testkit.report.facts import Facts
from support.control_api import ControlApi
from support.small_client import SmallClient


@pytest.fixture
def client(api: ControlApi) -> Any:
    with SmallClient(api.any_broker.address, "web-shop") as connected:
        yield connected


def finding(api: ControlApi, part: str) -> dict[str, Any]:
    """The finding that has this text."""
    found = [one for one in api.done("GET", "/overview/findings")["findings"] if part in one["text"]]
    assert len(found) == 1, part
    return dict(found[0])


def test_the_state_counts_what_is_there(api: ControlApi, client: SmallClient) -> None:
    client.produce("orders")
    state = api.done("GET", "/overview")
    assert (state["topic_count"], state["partition_count"], state["group_count"], state["rule_count"]) == (1, 2, 0, 0)
    assert [one["client_id"] for one in state["clients"]] == ["web-shop"]
    assert state["traffic"]["records_in"] == 1
    assert state["traffic"]["bytes_in"] > 0
    (broker,) = state["brokers"]
    assert (broker["is_running"], broker["leads"], broker["out_of_sync"]) == (True, 2, 0)


def test_the_revision_changes_with_the_records_and_not_by_itself(api: ControlApi) -> None:
    def revision() -> int:
        return int(api.done("GET", "/overview")["revision"])

    before = revision()
    assert revision() == before
    api.done("POST", "/topics/orders/records", {"value": "placed", "partition": 0})
    appended = revision()
    assert appended != before
    api.done("POST", "/topics/orders/delete-records", {"partition": 0})
    assert revision() != appended


def test_a_finding_says_what_it_is_about(api: ControlApi, client: SmallClient) -> None:
    client.metadata("oders")
    assert finding(api, "misspelled 'orders'")["kind"] == "topic"
    assert finding(api, "misspelled 'orders'")["name"] == "oders"
    api.done("POST", "/faults", {"rules": [{"name": "lost ack", "when": {"api": ["Produce"]}, "do": [{"drop": True}]}]})
    assert finding(api, "never acted")["kind"] == "rule"


def test_names_are_compared_beside_the_loop(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def likely_beside(facts: Facts) -> Iterator[str]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        yield f"{len(facts.topics)} topics were looked at"

    monkeypatch.setattr(overview, "likely", likely_beside)
    assert finding(api, "1 topics were looked at")["kind"] == ""


def test_errors_are_counted_with_the_rules_that_caused_them(api: ControlApi, client: SmallClient) -> None:
    rule = {"name": "moved", "when": {"api": ["Produce"]}, "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]}
    api.done("POST", "/faults", {"rules": [rule]})
    for _ in range(2):
        client.produce("orders")
    found = api.done("GET", "/overview/findings")
    assert found["errors"] == [
        {"error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "times": 2, "rules": ["moved"]},
    ]


def test_findings_of_many_topics_look_at_those_that_clients_name(
    api: ControlApi, client: SmallClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        api.done("POST", "/topics", {"name": f"a-{number}"})
    client.metadata("oders")
    client.metadata("orders")
    monkeypatch.setattr(overview, "MOST_TOPICS", 2)
    assert finding(api, "misspelled 'orders'")["name"] == "oders"


def test_the_table_of_topics_comes_in_pages(api: ControlApi) -> None:
    for number in range(5):
        api.done("POST", "/topics", {"name": f"region-{number}"})
    found = api.done("GET", "/overview/topics?containing=REGION&start=1&count=2")
    assert found["total"] == 5
    assert [row["name"] for row in found["topics"]] == ["region-1", "region-2"]
    assert api.done("GET", "/overview/topics?containing=missing") == {"total": 0, "topics": []}


def test_a_row_has_what_the_table_shows(api: ControlApi, client: SmallClient) -> None:
    api.done("POST", "/topics", {"name": "users", "configs": {"cleanup.policy": "compact", "retention.ms": -1}})
    client.produce("users", b"x" * 1_000, key=b"alice")
    client.metadata("oders")
    rows = {row["name"]: row for row in api.done("GET", "/overview/topics")["topics"]}
    users = rows["users"]
    assert (users["policy"], users["retention_ms"], users["records"], users["records_in"]) == (["compact"], -1, 1, 1)
    assert users["size_bytes"] > 1_000
    assert (users["last"]["key"], users["last"]["value"]) == ("alice", "x" * overview.MOST_SHOWN_BYTES)
    assert (rows["orders"]["last"], rows["orders"]["auto_created_by"]) == (None, "")
    assert rows["oders"]["auto_created_by"] == "web-shop"


def test_a_topic_that_a_pipeline_purges_names_it(api: ControlApi, leaky_clients: None) -> None:
    pytest.importorskip("confluent_kafka")
    assert overview.PIPELINES_GROUP == OWNERS_GROUP

    def purged_by() -> str:
        (row,) = api.done("GET", "/overview/topics")["topics"]
        return str(row["purged_by"])

    assert purged_by() == ""
    owner = Owner("1", "sessions", "/checkpoints", "h")
    admin = Admin(Kafka(api.any_broker.address))
    for text, told in (
        ("a note", ""),
        (json.dumps(asdict(owner)), "pipeline 'sessions' (checkpoints /checkpoints on h)"),
    ):
        admin.commit_metadata(OWNERS_GROUP, {"orders": text})
        assert purged_by() == told


def test_the_table_of_topics_is_sorted_by_any_figure(api: ControlApi, client: SmallClient) -> None:
    api.done("POST", "/topics", {"name": "users", "partitions": 7})
    api.done("POST", "/topics", {"name": "views"})
    client.produce("users")
    client.produce("users")
    client.produce("views", b"x" * 1_000)

    def names(sort: str) -> list[str]:
        return [row["name"] for row in api.done("GET", f"/overview/topics?sort={sort}")["topics"]]

    assert names("-name") == ["views", "users", "orders"]
    assert names("-records_in") == names("-records") == ["users", "views", "orders"]
    assert names("records") == ["orders", "views", "users"]
    assert names("-size_bytes") == ["views", "users", "orders"]
    assert names("-partition_count")[0] == "users"
    assert names("last")[0] == "orders"
    assert "must be one of name, partition_count," in api.problem("GET", "/overview/topics?sort=age")["detail"]


def test_each_column_of_topics_that_the_page_sorts_by_is_an_order(api: ControlApi) -> None:
    view = (Path(overview.__file__).parent / "page" / "topics.js").read_text(encoding="utf-8")
    orders = re.findall(r', "(?:number)?", "(-?\w+)"\]', view)
    assert {"name", "-partition_count", "-last"} <= {*orders}
    for order in orders:
        api.done("GET", f"/overview/topics?sort={order}")


def test_the_table_of_groups_has_their_lag_by_topic(api: ControlApi) -> None:
    for value in ("one", "two", "three"):
        api.done("POST", "/topics/orders/records", {"value": value, "partition": 0})
    api.done("PATCH", "/groups/billing/offsets", {"offsets": {"orders-0": 1}})
    (row,) = api.done("GET", "/overview/groups")
    assert (row["name"], row["state"], row["member_count"], row["lags"]) == ("billing", "Empty", 0, {"orders": 2})


def test_a_killed_broker_is_a_finding_about_it(cluster_api: ControlApi) -> None:
    cluster_api.done("POST", "/topics", {"name": "users", "replication_factor": 2})
    cluster_api.done("POST", "/brokers/2/kill")
    try:
        assert finding(cluster_api, "broker 2 does not run")["kind"] == "broker"
        assert finding(cluster_api, "not in sync") == {
            "text": "users-0 has replicas that are not in sync",
            "kind": "topic",
            "name": "users",
        }
        states = {one["number"]: one for one in cluster_api.done("GET", "/overview")["brokers"]}
        assert (states[2]["is_running"], states[2]["out_of_sync"]) == (False, 1)
    finally:
        cluster_api.done("POST", "/brokers/2/restart")
