"""A rule that can never match or act is refused when it is made, with what is possible and the nearest name."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.faults.documented_errors import possible
from kmini.broker.faults.rule_checks import Possible, rules_from_json
from kmini.broker.handlers import HANDLERS
from support.fault_rules import ALL_APIS, rule

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"api": "Prodce"}, "the API 'Prodce' does not exist; did you mean Produce?"),
    ({"api": "Zzz"}, "the API 'Zzz' does not exist; there are: AddOffsetsToTxn, "),
    ({"api": []}, "a rule needs an API; there are: AddOffsetsToTxn"),
    ({"topc": "orders"}, "when has no 'topc'; did you mean topic? It has: api, topic"),
    ({"version": ">20"}, "version='>20': Produce is served in versions 0 to 13"),
    ({"version": "new"}, "version='new': must be a version or a range"),
    ({"broker": 2}, "there is no broker 2; there are: 1"),
    ({"partition": -1}, "partition=-1: must be 0 or more"),
    ({"group": "billing"}, "Produce requests name no group; they name: partition, topic, transactional_id"),
    ({"api": "ApiVersions", "topic": "t"}, "ApiVersions requests name no topic; they name: none of topic"),
    ({"api": "connect", "topic": "t", "do": [{"refuse": True}]}, "a new connection has no topic"),
    ({"api": "disk", "client_id": "x", "do": [{"disk": "full"}]}, "an operation on a file has no client_id"),
    ({"which": {"times": 0}}, "times=0: must be 1 or more"),
    ({"which": {"tims": 1}}, "a rule has no selection 'tims'; did you mean times?"),
    ({"which": {"probability": 0}}, "a rule of 0 never acts"),
    ({"which": {"for": "soon"}}, "'soon' is no duration"),
    ({"which": {"for": 0}}, "for=0: must be at least 1 ms"),
    ({"which": {"until": "EndTx"}}, "the API 'EndTx' does not exist; did you mean EndTxn?"),
    ({"which": {"on_call": [2], "times": 2}}, "times=2: on_call names 1 requests only"),
    ({"do": []}, "a rule needs an act; there are: error, respond, delay"),
    ({"do": [{"eror": "NONE"}]}, "did you mean error?"),
    ({"do": [{"error": "NOT_LEADER"}]}, "there is no error 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER?"),
    ({"do": [{"error": "REBALANCE_IN_PROGRESS"}]}, "Produce cannot answer REBALANCE_IN_PROGRESS"),
    ({"api": "*", "do": [{"error": "NOT_COORDINATOR"}]}, "not every API can answer NOT_COORDINATOR: every one can"),
    ({"do": [{"error": "INVALID_RECORD", "record_errors": {-1: "x"}}]}, "record_errors=-1: must be 0 or more"),
    ({"do": [{"error": "INVALID_RECORD", "message": "x"}], "version": "<8"}, "have no error_message in version 0 to 7"),
    (
        {"api": "Fetch", "do": [{"error": "CORRUPT_MESSAGE", "record_errors": {"0": "x"}}]},
        "of Fetch have no record_err",
    ),
    ({"do": [{"corrupt": "crc"}]}, "corrupt crc is for Fetch alone; not for Produce"),
    ({"do": [{"corrupt": "crcs"}]}, "what='crcs': must be one of crc, codec, partial"),
    ({"do": [{"no_records": True}]}, "no_records is for Fetch alone"),
    ({"do": [{"leader": 1}]}, "leader is for Metadata alone; not for Produce"),
    ({"api": "Metadata", "do": [{"without_broker": 2}]}, "there is no broker 2; there are: 1"),
    ({"api": "Metadata", "do": [{"leader": -2}]}, "broker=-2: must be -1 or more"),
    ({"do": [{"without_broker": 1}]}, "without_broker is for Metadata and DescribeCluster alone; not for Produce"),
    ({"do": [{"refuse": True}]}, "refuse is no act on a request; there are: error, "),
    ({"do": [{"disk": "full"}]}, "disk is no act on a request"),
    ({"do": [{"drop": True}, {"truncate": 1}]}, "a rule decides once on the answer, not by drop and by truncate"),
    ({"do": [{"throttle": 10}], "version": "0"}, "the answers of Produce have no throttle_time_ms in these versions"),
    ({"api": "Fetch", "version": "0", "do": [{"delay": "1x"}]}, "'1x' is no duration"),
    ({"do": [{"delay": 1, "jiter": 2}]}, "delay has no option 'jiter'; did you mean jitter?"),
    ({"do": [{"trickle": "fast"}]}, "bytes_per_second='fast': must be bytes a second"),
]


@pytest.mark.parametrize(("wrong", "told"), REFUSED, ids=lambda value: value[:30] if isinstance(value, str) else "")
def test_what_can_never_match_or_act_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as refused:
        rule(**wrong)
    assert told in str(refused.value)


WRONG_TYPES: list[dict[str, Any]] = [
    {"topic": 1},
    {"topic": ""},
    {"partition": "0"},
    {"broker": True},
    {"where": "topic"},
    {"api": 3},
    {"which": {"times": "2"}},
    {"which": {"probability": "half"}},
    {"do": {"drop": True}},
    {"do": [{"drop": 1}]},
    {"do": [{"error": 6}]},
    {"do": [{"error": "INVALID_RECORD", "message": 1}]},
    {"do": [{"error": "INVALID_RECORD", "record_errors": {"first": "x"}}]},
    {"do": [{"error": "INVALID_RECORD", "record_errors": ["x"]}]},
    {"do": [{"delay": None}]},
    {"do": [{"respond": 1}]},
    {"name": ""},
]


@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=str)
def test_a_value_of_a_wrong_type_is_a_type_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        rule(**wrong)


def test_an_api_that_the_release_does_not_serve_is_refused() -> None:
    can = Possible({0: HANDLERS[0]}, [1])
    with pytest.raises(ValueError, match="the API 'Fetch' is not served by this broker"):
        rules_from_json([{"when": {"api": "Fetch"}, "do": [{"drop": True}]}], can)


def test_a_list_of_rules_says_which_of_them_is_wrong() -> None:
    good = {"when": {"api": "Produce"}, "do": [{"drop": True}]}
    with pytest.raises(ValueError, match=r"rules\[1\]: a rule has no 'wen'; did you mean when\?"):
        rules_from_json([good, {"wen": {}}], ALL_APIS)
    with pytest.raises(TypeError, match="must be a list of rules"):
        rules_from_json("x", ALL_APIS)
    with pytest.raises(ValueError, match="2 rules have the name 'Produce drop'"):
        rules_from_json([good, good], ALL_APIS)


def test_a_rule_without_a_name_gets_one_from_what_it_does() -> None:
    (made,) = rules_from_json(
        [{"when": {"api": ["Produce", "Fetch"]}, "do": [{"error": "UNKNOWN_TOPIC_ID"}]}], ALL_APIS
    )
    assert made.name == "Produce/Fetch error UNKNOWN_TOPIC_ID"


@pytest.mark.parametrize("api", ["Produce", "Fetch", "Metadata", "JoinGroup", "EndTxn"])
def test_every_documented_error_of_an_api_makes_a_rule(api: str) -> None:
    for code in possible(api):
        assert rule(api, do=[{"error": code}]).do[0].to_json() == {"error": code}
