"""`kmini group reset` changes the committed offsets of groups."""

from __future__ import annotations

import pytest

from support.group_output import rows_of


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], {0: 2, 1: 0}),
        (["--to-latest"], {0: 10, 1: 5}),
        (["--to-offset", 4], {0: 4, 1: 4}),
        (["--shift-by", -1], {0: 3, 1: 2}),
        (["--shift-by", 1], {0: 5, 1: 4}),
        (["--to-datetime", "2026-01-31T12:00:06Z"], {0: 6, 1: 0}),
        (["--to-datetime", "2026-01-31T14:00:06.001+02:00"], {0: 7, 1: 0}),
        (["--to-datetime", "2999-01-01T00:00:00Z"], {0: 10, 1: 5}),
    ],
    ids=lambda value: "".join(map(str, value)) if isinstance(value, list) else None,
)
def test_a_group_goes_on_from_where_it_is_told(ask, broker, orders, offsets, target, expected) -> None:
    broker.delete_records(orders, 2, partition=0)
    ask("group", "reset", "billing", f"{orders}:0", "--to-offset", 4, "--execute")
    ask("group", "reset", "billing", f"{orders}:1", "--to-offset", 3, "--execute")
    ask("group", "reset", "billing", *target, "--execute")
    assert offsets("billing") == {(orders, partition): offset for partition, offset in expected.items()}


def test_without_execute_a_reset_only_says_what_it_would_do(ask, orders, offsets) -> None:
    ask("group", "reset", "billing", orders, "--to-offset", 3, "--execute")
    result = ask("group", "reset", "billing", "--to-latest")
    assert rows_of(result.stdout) == [
        ["group", "topic", "partition", "old", "new"],
        ["billing", "orders", "0", "3", "10"],
        ["billing", "orders", "1", "3", "5"],
    ]
    assert result.stderr == "kmini: nothing has changed: --execute does it\n"
    assert offsets("billing") == {(orders, 0): 3, (orders, 1): 3}


def test_an_offset_outside_of_a_partition_becomes_the_nearest_and_that_is_told(ask, orders, offsets) -> None:
    result = ask("group", "reset", "billing", orders, "--to-offset", 7, "--execute")
    assert result.stderr == "kmini: orders-1 has no offset 7: 5 is the nearest\n"
    ask("group", "reset", "billing", "--shift-by", -(2**40), "--execute")
    assert offsets("billing") == {(orders, 0): 0, (orders, 1): 0}


def test_partitions_can_be_named(ask, orders, offsets) -> None:
    ask("group", "reset", "billing", f"{orders}:1", "--to-latest", "--execute")
    assert offsets("billing") == {(orders, 1): 5}


def test_partitions_of_a_topic_can_be_named_one_by_one(ask, orders, offsets) -> None:
    ask("group", "reset", "g", "orders:0", "orders:1", "--to-earliest", "--execute")
    assert offsets("g") == {(orders, 0): 0, (orders, 1): 0}
    ask("group", "delete", "g", "--topic", "orders:0", "--topic", "orders:1")
    assert offsets("g") == {}


def test_a_group_with_members_is_not_reset(refuse, broker, orders, join, leave, ask, offsets) -> None:
    member = join(broker.bootstrap_servers, "billing", orders, 0, 1)
    sentence = refuse("group", "reset", "billing", orders, "--to-latest", "--execute", code=1)
    assert sentence == "kmini: group billing is Stable with 1 member: only an idle one can be reset"
    leave(broker.bootstrap_servers, "billing", member)
    ask("group", "reset", "billing", orders, "--to-latest", "--execute")
    assert offsets("billing") == {(orders, 0): 10, (orders, 1): 5}


def test_a_reset_of_nothing_is_told(refuse, orders) -> None:
    assert "has committed nothing: name the topics" in refuse("group", "reset", "billing", "--to-latest", code=1)
    assert "there is no topic nowhere" in refuse("group", "reset", "g", "nowhere", "--to-latest", code=1)
    assert "has no partition 2" in refuse("group", "reset", "g", f"{orders}:2", "--to-latest", code=1)
    assert "nothing is committed for orders-0, orders-1" in refuse(
        "group", "reset", "g", orders, "--shift-by", 1, code=1
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["g"], "exactly one of --to-earliest, --to-latest, --to-offset, --shift-by, --to-datetime was expected"),
        (["g", "--to-latest", "--to-offset", "1"], "was expected, not --to-latest and --to-offset"),
        (["g", "--to-earliest", "--to-latest"], "was expected, not --to-earliest and --to-latest"),
        (["g", "--to-datetime", "soon", "--shift-by", "0"], "was expected, not --shift-by and --to-datetime"),
        (["g", "--to-offset", "-1"], "-1 is not in the range"),
        (["g", "--to-datetime", "soon"], "--to-datetime soon: a time like 2026-01-31T12:00:00Z was expected"),
        (["g", "orders:", "--to-latest"], "orders:: TOPIC or TOPIC:PARTITION,... was expected"),
        (["g", "orders:0,,1", "--to-latest"], "TOPIC:PARTITION"),
        (["g", "orders:x", "--to-latest"], "TOPIC:PARTITION"),
        (["g", ":0", "--to-latest"], "TOPIC:PARTITION"),
        (["g", "orders:99999999999", "--to-latest"], "TOPIC:PARTITION"),
        ([], "GROUP"),
    ],
)
def test_a_reset_that_is_no_sense_is_wrong_usage(run, arguments, said) -> None:
    result = run("group", "reset", *arguments, "-b", "127.0.0.1:1")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
