"""The checks of a heartbeat before its group is looked at, in Kafka's order."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.groups.consumer.heartbeat_fields import Beat, check_fields
from kmini.protocol.errors import InvalidRequest, KafkaError, UnsupportedAssignor

TOPIC_ID = bytes(range(16))


def beat(**fields: Any) -> Beat:
    """A plain heartbeat at epoch 5, but for these fields."""
    plain = Beat("g", "m", 5, None, None, -1, None, None, None, None, "client", "/host", 1)
    return plain._replace(**fields)


def joining(**fields: Any) -> Beat:
    return beat(member_epoch=0, rebalance_timeout_ms=1000, topic_names=["t"], owned={})._replace(**fields)


def check(one: Beat) -> KafkaError | None:
    """The error of a heartbeat where the assignors "uniform" and "range" are offered."""
    failure = None
    try:
        check_fields(one, ["uniform", "range"])
    except KafkaError as error:
        failure = error
    assert failure is None or failure.message
    return failure


@pytest.mark.parametrize(
    "one",
    [
        beat(),
        beat(version=0),
        beat(rack_id="r", instance_id="i", assignor="range"),
        beat(owned={TOPIC_ID: frozenset({1})}),
        beat(topic_names=[]),
        beat(member_epoch=-1),
        beat(member_epoch=-2, instance_id="i"),
        joining(),
        joining(version=0, member_id=""),
        joining(topic_names=None, topic_regex=""),
        joining(topic_names=[]),
        joining(rebalance_timeout_ms=0),
        beat(version=0, member_id="", member_epoch=-2, instance_id="i"),
    ],
)
def test_what_kafka_accepts_passes(one: Beat) -> None:
    assert check(one) is None


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
@pytest.mark.parametrize("field", ["member_id", "group_id", "instance_id", "rack_id"])
def test_names_are_not_blank(field: str, blank: str) -> None:
    assert isinstance(check(beat(**{field: blank})), InvalidRequest)
    assert isinstance(check(joining(**{field: blank})), InvalidRequest)


@pytest.mark.parametrize("epoch", [1, 5, -1])
def test_only_a_member_that_joins_may_be_without_id_and_only_in_version_0(epoch: int) -> None:
    assert isinstance(check(beat(version=0, member_id=" ", member_epoch=epoch)), InvalidRequest)
    assert isinstance(check(joining(member_id=" ")), InvalidRequest)


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {TOPIC_ID: frozenset({0})}},
        {"owned": {TOPIC_ID: frozenset()}},
        {"topic_names": None},
    ],
)
def test_a_member_that_joins_tells_everything(fields: dict[str, Any]) -> None:
    assert isinstance(check(joining(**fields)), InvalidRequest)
    assert check(beat(**fields)) is None


def test_only_a_static_member_leaves_for_a_while() -> None:
    assert isinstance(check(beat(member_epoch=-2)), InvalidRequest)


@pytest.mark.parametrize("epoch", [-3, -100, -(2**31)])
def test_lower_epochs_are_none(epoch: int) -> None:
    assert isinstance(check(beat(member_epoch=epoch, instance_id="i")), InvalidRequest)


@pytest.mark.parametrize("assignor", ["sticky", "", "Range"])
def test_an_assignor_is_one_that_is_offered(assignor: str) -> None:
    error = check(joining(assignor=assignor))
    assert isinstance(error, UnsupportedAssignor)
    assert "uniform, range" in str(error.message)


@pytest.mark.parametrize("field", ["member_id", "instance_id", "rack_id", "topic_regex"])
def test_names_that_no_record_has_room_for_are_refused(field: str) -> None:
    assert check(joining(**{field: "x" * 0x7FFF})) is None
    assert isinstance(check(joining(**{field: "ä" * 0x4000})), InvalidRequest)


ORDER: list[dict[str, Any]] = [
    {"member_id": ""},
    {"group_id": ""},
    {"instance_id": ""},
    {"rack_id": ""},
    {"rebalance_timeout_ms": -1},
    {"owned": None},
    {"topic_names": None},
    {"assignor": "none"},
]


def test_the_first_failed_check_in_kafkas_order_is_answered() -> None:
    """With all later ones failing, too."""
    alone = [check(joining(**fields)) for fields in ORDER]
    assert len({str(error.message) for error in alone if error is not None}) == len(ORDER)
    for position, error in enumerate(alone):
        together = {name: value for fields in ORDER[position:] for name, value in fields.items()}
        found = check(joining(**together))
        assert (type(found), found and found.message) == (type(error), error and error.message)


@pytest.mark.parametrize(
    ("one", "is_full"),
    [
        (joining(), True),
        (beat(), False),
        (beat(rebalance_timeout_ms=1, topic_names=["t"], owned={}), True),
        (beat(rebalance_timeout_ms=1, topic_regex="", owned={}), True),
        (beat(rebalance_timeout_ms=1, topic_names=["t"]), False),
        (beat(rebalance_timeout_ms=1, owned={}), False),
        (beat(topic_names=["t"], owned={}), False),
    ],
)
def test_a_heartbeat_with_everything_is_full(one: Beat, is_full: bool) -> None:
    assert one.is_full == is_full


@pytest.mark.parametrize(("epoch", "is_leaving"), [(0, False), (5, False), (-1, True), (-2, True)])
def test_negative_epochs_leave(epoch: int, is_leaving: bool) -> None:
    assert beat(member_epoch=epoch).is_leaving == is_leaving
