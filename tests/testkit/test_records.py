"""`kmini.records`: tombstones for and from any client library, without any of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kmini import Broker
from kmini.protocol.records.record import Record
from kmini.records import TOMBSTONE, TOMBSTONE_HEADER, is_tombstone, tombstone
from support.for_each import for_each


class Fields(NamedTuple):
    """A record with fields, as of kafka-python and aiokafka."""

    value: Any
    headers: Any


class Methods:
    """A record with methods, as of confluent-kafka."""

    def __init__(self, value: Any, headers: Any) -> None:
        self._value, self._headers = value, headers

    def value(self) -> Any:
        return self._value

    def headers(self) -> Any:
        return self._headers


def test_a_tombstone_is_the_keyword_arguments_of_a_client() -> None:
    assert tombstone(b"k") == {"key": b"k", "value": None, "headers": [TOMBSTONE]}
    assert tombstone("k", {"a": 1}) == {"key": "k", "value": {"a": 1}, "headers": [TOMBSTONE]}


def test_its_headers_are_what_every_client_takes() -> None:
    """A list of pairs of str and bytes: kafka-python refuses anything else."""
    (only,) = tombstone(b"k")["headers"]
    assert (type(only), type(only[0]), type(only[1])) == (tuple, str, bytes)
    assert type(tombstone(b"k")["headers"]) is list


@pytest.mark.parametrize(
    "headers", [[("by", b"me")], (("by", b"me"),), {"by": b"me"}, {"by": "me"}, iter([("by", "me")])]
)
def test_other_headers_come_in_any_shape(headers: Any) -> None:
    assert tombstone(b"k", headers=headers)["headers"] == [("by", b"me"), TOMBSTONE]


def test_a_header_that_is_there_is_not_added() -> None:
    assert tombstone(b"k", headers={TOMBSTONE_HEADER: "by a job"})["headers"] == [(TOMBSTONE_HEADER, b"by a job")]


@pytest.mark.parametrize("text", ["false", b"False", b"0", b"\0"])
def test_one_that_says_no_is_an_error(text: Any) -> None:
    with pytest.raises(ValueError, match=r"kmini\.tombstone"):
        tombstone(b"k", headers=[(TOMBSTONE_HEADER, text)])


@pytest.mark.parametrize("headers", [5, "by", [("by",)], [("by", 5)], {5: b""}])
def test_what_are_no_headers_is_told_by_name(headers: Any) -> None:
    with pytest.raises(TypeError, match=r"^headers.*: must be "):
        tombstone(b"k", headers=headers)


@pytest.mark.parametrize("record", [5, None, b"record"])
def test_what_is_no_record_is_told_by_name(record: Any) -> None:
    with pytest.raises(TypeError, match=r"^record=.*: must be a record of kafka-python"):
        is_tombstone(record)


def test_what_one_call_returns_no_other_call_shares() -> None:
    tombstone(b"k")["headers"].append(("h", b""))
    assert tombstone(b"k")["headers"] == [TOMBSTONE]


@for_each("shape", [Fields, Methods])
@for_each(
    ("value", "headers", "expected"),
    [
        (b"v", [], False),
        (b"v", None, False),
        (b"", (), False),
        (None, None, True),
        (None, [], True),
        (b"v", [TOMBSTONE], True),
        (b"v", ((TOMBSTONE_HEADER, None),), True),
        (b"v", [("h", b"1"), (TOMBSTONE_HEADER, b"by a job")], True),
        ({"decoded": True}, [TOMBSTONE], True),
        (b"v", [(TOMBSTONE_HEADER, b"false")], False),
        (b"v", [(TOMBSTONE_HEADER, "0")], False),
        (b"v", [("tombstone", b"")], False),
    ],
)
def test_a_null_value_or_the_header_makes_a_tombstone(shape: Any, value: Any, headers: Any, expected: bool) -> None:
    assert is_tombstone(shape(value, headers)) is expected


def test_a_record_of_an_embedded_broker_will_do() -> None:
    assert is_tombstone(Record(0, 0, b"k", b"v", (TOMBSTONE,)))
    assert not is_tombstone(Record(0, 0, b"k", b"v"))


def test_an_embedded_broker_takes_one() -> None:
    with Broker() as broker:
        broker.create_topic("t", config={"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true"})
        broker.produce("t", b"1", key=b"k")
        broker.produce("t", **tombstone(b"k", b"why", {"by": "me"}))
        assert [is_tombstone(record) for record in broker.records("t")] == [False, True]
