"""The control server over HTTP: what a call answers, and that a broker and a cluster have the calls of the test kit."""

from __future__ import annotations

import json
import os
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.scheduler import Turn
from kmini.control.control_server import METRICS_TYPE, bad_request
from support.control_api import ControlApi, problem_of


def test_a_record_that_is_produced_is_read_again(api: ControlApi) -> None:
    made = api.done("POST", "/topics/orders/records", {"value": "placed", "key": "42", "headers": {"source": "web"}})
    assert (made["topic"], made["partition"], made["offset"]) == ("orders", 0, 0)
    (read,) = api.done("GET", "/topics/orders/records?key=42")
    assert read == made
    assert (read["key"], read["value"], read["headers"]) == ("42", "placed", [["source", "web"]])


def test_a_long_list_is_whole_and_is_written_in_turns(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [{"topic": "orders", "partition": 0, "value": f"order {number}"} for number in range(250)]
    api.done("POST", "/seed", {"records": seeds})
    turns: list[None] = []

    class ShortTurn(Turn):
        def __init__(self) -> None:
            super().__init__(0.0)

        async def next(self) -> None:
            turns.append(None)
            await super().next()

    monkeypatch.setattr("kmini.control.control_server.Turn", ShortTurn)
    found = api.done("GET", "/topics/orders/records")
    assert [record["value"] for record in found] == [seed["value"] for seed in seeds]
    assert len(turns) == 250


def test_arguments_of_a_query_have_the_types_of_the_method(api: ControlApi) -> None:
    for value in ("one", "two"):
        api.done("POST", "/topics/orders/records", {"value": value, "partition": 1})
    found = api.done("GET", "/topics/orders/records?partition=1&since=1&isolation=all")
    assert [record["value"] for record in found] == ["two"]


def test_a_method_that_returns_nothing_answers_204_without_a_body(api: ControlApi) -> None:
    answer = api.ask("DELETE", "/topics/orders")
    assert (answer.status, answer.body) == (204, b"")
    assert api.done("GET", "/topics") == []


@pytest.mark.parametrize("settings", ["config", "configs"])
def test_a_topic_is_answered_as_created_with_what_it_is_and_where(api: ControlApi, settings: str) -> None:
    answer = api.ask("POST", "/topics", {"name": "users", settings: {"cleanup.policy": "compact"}})
    assert (answer.status, answer.headers["Location"]) == (201, "/api/v1/topics/users")
    assert answer.document == api.done("GET", "/topics/users")
    assert answer.document["configs"] == {"cleanup.policy": "compact"}


def test_a_broker_answers_for_itself_as_a_cluster_of_one(api: ControlApi) -> None:
    assert api.done("GET", "/brokers") == [1]


def test_the_offsets_of_a_group_are_reset(api: ControlApi) -> None:
    for value in ("one", "two"):
        api.done("POST", "/topics/orders/records", {"value": value, "partition": 0})
    assert api.done("POST", "/groups/billing/reset-offsets", {"position": "latest", "topic": "orders"})
    assert api.done("GET", "/groups/billing/offsets") == {"orders-0": 2, "orders-1": 0}
    problem = api.problem("POST", "/groups/billing/reset-offsets", {"position": "first"})
    assert problem["errors"][0]["pointer"] == "/position"


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("/brokers/1/start", "/api/v1/brokers/1/restart"), ("/topics/orders/move-leader", "/api/v1/topics/orders/leader")],
)
def test_a_path_that_does_not_exist_is_answered_with_the_nearest(api: ControlApi, path: str, nearest: str) -> None:
    problem = api.problem("POST", path)
    assert problem["status"] == 404
    assert f"nearest: {nearest};" in problem["detail"]


def test_an_error_of_kafkas_is_a_problem_with_its_name(api: ControlApi) -> None:
    problem = api.problem("GET", "/topics/missing/records")
    assert (problem["status"], problem["kafka_error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert problem["detail"] == "there is no topic missing; there are: orders"
    assert api.problem("POST", "/topics", {"name": "orders"})["kafka_error"] == "TOPIC_ALREADY_EXISTS"


def test_a_wait_in_vain_is_a_time_out_that_says_what_was_there(api: ControlApi) -> None:
    problem = api.problem("POST", "/topics/orders/wait-for", {"wanted": 1, "timeout_ms": 0})
    assert (problem["type"], problem["status"]) == ("urn:kmini:problem:records-missing", 408)
    assert "1 record" in problem["detail"]


def test_the_arguments_of_a_failed_call_change_nothing(api: ControlApi) -> None:
    api.problem("POST", "/topics/orders/records", {"value": "placed", "partition": 7})
    api.problem("POST", "/topics/orders/records", {"value": "placed", "offset": 7})
    assert api.done("GET", "/topics/orders/records") == []


def test_a_call_for_a_cluster_alone_is_refused_by_a_broker(api: ControlApi) -> None:
    problem = api.problem("POST", "/brokers/1/kill")
    assert problem["status"] == 409
    assert problem["detail"] == "POST /brokers/{broker}/kill is for a cluster, and this is none"


def test_a_cluster_is_steered_broker_by_broker(cluster_api: ControlApi) -> None:
    assert cluster_api.done("GET", "/brokers") == [1, 2]
    cluster_api.done("POST", "/brokers/2/kill")
    assert cluster_api.done("GET", "/brokers") == [1]
    assert cluster_api.send("GET", "/health/ready").status == 503
    cluster_api.done("POST", "/brokers/2/restart")
    assert cluster_api.send("GET", "/health/ready").status == 200


def test_health_says_what_is_missing_while_the_broker_is_stopped(api: ControlApi) -> None:
    api.done("POST", "/stop")
    for path in ("/health", "/health/ready"):
        answer = api.send("GET", path)
        assert (answer.status, answer.document["is_ready"]) == (503, False)
        assert answer.document["missing"] == ["the broker was stopped: POST /api/v1/start starts it"]
    assert api.send("GET", "/health/live").status == 200
    api.done("POST", "/start")
    assert api.send("GET", "/health/ready").document == {"is_ready": True, "missing": []}


def test_a_stopped_broker_answers_calls_with_how_to_start_it(api: ControlApi) -> None:
    api.done("POST", "/topics/orders/records", {"value": "kept"})
    api.done("POST", "/stop")
    api.done("POST", "/stop")
    assert "POST /api/v1/start" in api.problem("GET", "/topics/orders/records")["detail"]
    assert "/api/v1/start" in api.done("GET", "/openapi.json")["paths"]
    api.done("POST", "/start")
    assert api.problem("POST", "/start")["detail"] == "the broker runs already"
    assert [record["value"] for record in api.done("GET", "/topics/orders/records")] == ["kept"]


def test_prometheus_reads_the_metrics_at_both_paths(api: ControlApi) -> None:
    api.done("POST", "/topics/orders/records", {"value": "placed"})
    scraped = api.send("GET", "/metrics")
    assert scraped.headers["Content-Type"] == METRICS_TYPE
    for text in (scraped.body.decode(), api.done("GET", "/metrics")):
        families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = families["kafka_server_brokertopicmetrics_messagesin"].samples
        assert {sample.labels.get("topic"): sample.value for sample in samples}["orders"] == 1


def test_each_broker_of_a_cluster_has_metrics(cluster_api: ControlApi) -> None:
    for broker in (1, 2):
        text = cluster_api.send("GET", f"/metrics?broker={broker}").body.decode()
        assert "kafka_server_replicamanager_leadercount" in text
    assert problem_of(cluster_api.send("GET", "/metrics?broker=7"))["status"] == 404
    assert problem_of(cluster_api.send("GET", "/metrics?broker=x"))["errors"][0]["pointer"] == "/broker"


def test_the_report_is_a_text_with_the_waits_of_the_test(api: ControlApi) -> None:
    wait = {"topic": "orders", "group": None, "message": "no record came", "ended_s": time.time()}
    told = api.done("POST", "/report", {"waits": [{"call": "topic('orders').wait_for(1)", **wait}]})
    assert "topic('orders').wait_for(1)" in told
    assert "topic('orders').wait_for(1)" not in api.done("GET", "/report")
    assert len(told.splitlines()) <= 40


@pytest.mark.parametrize("decode", ["text", "json", "hex", "base64"])
def test_a_query_says_how_keys_and_values_are_written(api: ControlApi, decode: str) -> None:
    api.done("POST", "/topics/orders/records", {"value": {"state": "placed"}})
    (record,) = api.done("GET", f"/topics/orders/records?decode={decode}")
    written = {
        "text": '{"state":"placed"}',
        "json": {"state": "placed"},
        "hex": b'{"state":"placed"}'.hex(),
        "base64": "eyJzdGF0ZSI6InBsYWNlZCJ9",
    }
    assert record["value"] == written[decode]
    problem = api.problem("GET", "/topics/orders/records?decode=xml")
    assert problem["errors"] == [{"pointer": "/decode", "message": problem["detail"]}]


def test_json_in_a_record_that_is_no_unicode_does_not_fail_the_answer(api: ControlApi) -> None:
    for number, value in enumerate((r'"\ud800"', "NaN", "[" * 100_000)):
        api.done("POST", "/topics/orders/records", {"value": value})
        record = api.done("GET", "/topics/orders/records?decode=json")[number]
        assert record["value"] == value


def test_no_answer_tells_the_data_directory(api: ControlApi) -> None:
    api.done("POST", "/snapshots", {"name": "seeded"})
    os.remove(os.path.join(api.data_dir, "snapshots", "seeded", "snapshot.json"))
    os.makedirs(os.path.join(api.data_dir, "snapshots", "empty"))
    with open(os.path.join(api.data_dir, "snapshots", "empty", "snapshot.json"), "w") as file:
        json.dump({}, file)
    for verb, path in (
        ("POST", "/snapshots/seeded/restore"),
        ("POST", "/snapshots/empty/restore"),
        ("GET", "/brokers/1/configs"),
        ("GET", "/metrics"),
        ("GET", "/report"),
    ):
        assert api.data_dir.encode() not in api.ask(verb, path).body, path
    assert api.data_dir.encode() not in api.send("GET", "/metrics").body
    assert api.problem("POST", "/snapshots/empty/restore")["detail"].startswith("DATA_DIR/snapshots/empty is no ")


def test_the_message_of_the_parser_is_told_without_the_bytes_that_it_shows() -> None:
    assert bad_request("no", "illegal request line: bytearray(b'x')")["detail"] == "no: illegal request line"
    assert bad_request("no", "Got more than 8 bytes: bytearray(b'/secret')")["detail"] == "no: Got more than 8 bytes"
    assert bad_request("no", "")["detail"] == "no"
