"""`kmini topic`."""

from __future__ import annotations

import json


def test_topics_are_created_listed_and_deleted(ask, broker) -> None:
    ask("topic", "create", "orders", "returns", "--partitions", 3)
    assert ask("topic", "list").stdout.splitlines() == ["orders", "returns"]
    assert json.loads(ask("topic", "list", "--format", "json").stdout) == ["orders", "returns"]
    ask("topic", "delete", "orders")
    assert broker.topics() == ["returns"]


def test_a_topic_is_created_with_its_partitions_as_serve_does_it(ask, refuse, broker) -> None:
    ask("topic", "create", "orders:3", "profiles:2:compact", "returns", "--partitions", 4)
    counts = {name: len(broker.topic(name).partitions()) for name in broker.topics()}
    assert counts == {"orders": 3, "profiles": 2, "returns": 4}
    assert "compact" in ask("config", "describe", "topic", "profiles").stdout
    sentence = refuse("topic", "create", "orders:many", code=2)
    assert "orders:many: NAME:PARTITIONS or NAME:PARTITIONS:compact was expected" in sentence


def test_settings_are_given_by_kafkas_names(ask, refuse) -> None:
    ask("topic", "create", "profiles", "-c", "cleanup.policy=compact")
    assert "a compacted topic" in refuse("produce", "profiles", stdin="no key\n", code=1)
    sentence = refuse("topic", "create", "other", "-c", "cleanup.policy=shred", code=1)
    assert sentence.startswith("kmini: other: INVALID_CONFIG: ")
    assert "cleanup.policy" in sentence
    assert "KEY=VALUE was expected" in refuse("topic", "create", "other", "-c", "cleanup.policy", code=2)


def test_a_topic_that_exists_is_told_unless_that_is_fine(ask, refuse) -> None:
    ask("topic", "create", "orders")
    assert refuse("topic", "create", "orders", code=1).startswith("kmini: orders: TOPIC_ALREADY_EXISTS")
    ask("topic", "create", "orders", "--if-not-exists")


def test_a_topic_that_does_not_exist_is_told(refuse) -> None:
    assert refuse("topic", "delete", "nowhere", code=1).startswith("kmini: nowhere: UNKNOWN_TOPIC_OR_PARTITION")
    assert "there is no topic nowhere" in refuse("topic", "describe", "nowhere", code=1)


def test_a_name_that_cannot_be_is_told_with_the_rule(refuse) -> None:
    assert "may hold ASCII letters" in refuse("topic", "create", "no blanks", code=1)


def test_partitions_are_described_with_their_leader_and_offsets(ask, broker) -> None:
    broker.create_topic("orders", 2)
    for _ in range(3):
        broker.produce("orders", b"v", partition=1)
    broker.delete_records("orders", 1, partition=1)
    described = ask("topic", "describe", "orders").stdout.splitlines()
    assert [line.split("\t") for line in described] == [
        ["topic", "partition", "leader", "replicas", "isr", "beginning", "end"],
        ["orders", "0", "1", "1", "1", "0", "0"],
        ["orders", "1", "1", "1", "1", "1", "3"],
    ]
    partitions = json.loads(ask("topic", "describe", "--format", "json").stdout)
    assert partitions[1] == {
        "topic": "orders",
        "partition": 1,
        "leader": 1,
        "replicas": [1],
        "isr": [1],
        "beginning": 1,
        "end": 3,
    }


def test_on_a_terminal_partitions_are_a_table(capsys, monkeypatch) -> None:
    from kmini.cli.tables import show

    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show(("topic", "isr"), [("orders", [1, 2]), ("[bold]", []), (None, None)], "table")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["topic", "isr"]
    assert lines[-3:] == [["orders", "1,2"], ["[bold]"], ["-", "-"]]


def test_topics_are_given_partitions_and_settings(ask, broker) -> None:
    broker.create_topic("orders")
    broker.create_topic("returns")
    ask("topic", "alter", "orders", "returns", "--partitions", 3, "-c", "retention.ms=60000")
    for name in ("orders", "returns"):
        assert len(ask("topic", "describe", name).stdout.splitlines()) == 1 + 3
        assert "retention.ms\t60000\tdynamic-topic" in ask("config", "describe", "topic", name).stdout
    ask("topic", "alter", "orders", "--delete-config", "retention.ms")
    assert "retention.ms" not in ask("config", "describe", "topic", "orders").stdout


def test_each_topic_that_cannot_be_altered_is_told_and_the_others_are(run, broker, ask) -> None:
    broker.create_topic("orders", 2)
    result = run("topic", "alter", "orders", "nowhere", "-p", 3, "-c", "retention.ms=1", "-b", broker.bootstrap_servers)
    assert result.exit_code == 1
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("kmini: nowhere: UNKNOWN_TOPIC_OR_PARTITION: ")
    assert len(ask("topic", "describe", "orders").stdout.splitlines()) == 1 + 3


def test_partitions_never_get_fewer(refuse, broker) -> None:
    broker.create_topic("orders", 2)
    assert refuse("topic", "alter", "orders", "-p", 1, code=1).startswith("kmini: orders: INVALID_PARTITIONS: ")
    assert "nothing to change" in refuse("topic", "alter", "orders", code=2)
    assert "KEY=VALUE was expected" in refuse("topic", "alter", "orders", "-c", "retention.ms", code=2)
