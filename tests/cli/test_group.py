"""`kmini group`."""

from __future__ import annotations

import json

from kmini import Broker
from support.group_output import rows_of
from support.small_client import SmallClient


def test_groups_are_listed_with_their_state(ask, broker, orders, join) -> None:
    assert rows_of(ask("group", "list").stdout) == [["group", "state", "protocol", "type"]]
    ask("group", "reset", "billing", orders, "--to-latest", "--execute")
    join(broker.bootstrap_servers, "audit", orders, 0, 1)
    assert rows_of(ask("group", "list").stdout)[1:] == [
        ["audit", "Stable", "consumer", "classic"],
        ["billing", "Empty", "-", "classic"],
    ]
    idle = json.loads(ask("group", "list", "--state", "empty", "--format", "json").stdout)
    assert idle == [{"group": "billing", "state": "Empty", "protocol": None, "type": "classic"}]


def test_a_group_is_described_by_offsets_lag_and_readers(ask, broker, orders, join) -> None:
    ask("group", "reset", "billing", f"{orders}:0", "--to-offset", 7, "--execute")
    member = join(broker.bootstrap_servers, "billing", orders, 1)
    assert rows_of(ask("group", "describe", "billing").stdout) == [
        ["group", "topic", "partition", "offset", "end", "lag", "member", "host", "client"],
        ["billing", "orders", "0", "7", "10", "3", "-", "-", "-"],
        ["billing", "orders", "1", "-", "5", "-", member, "127.0.0.1", "reader"],
    ]
    told = json.loads(ask("group", "describe", "--format", "json").stdout)
    assert (told[0]["lag"], told[0]["member"], told[1]["offset"]) == (3, None, None)


def test_members_and_state_are_told_on_request(ask, broker, orders, join) -> None:
    member = join(broker.bootstrap_servers, "billing", orders, 0, 1)
    (told,) = json.loads(ask("group", "describe", "billing", "--members", "--format", "json").stdout)
    assert told == {
        "group": "billing",
        "member": member,
        "instance": None,
        "host": "127.0.0.1",
        "client": "reader",
        "partitions": [["orders", 0], ["orders", 1]],
        "protocol": "classic",
        "epoch": None,
        "target": None,
        "topics": None,
        "regex": None,
    }
    assert rows_of(ask("group", "describe", "--state").stdout) == [
        ["group", "state", "protocol", "assignor", "coordinator", "members", "type", "epoch", "assignment_epoch"],
        ["billing", "Stable", "consumer", "range", f"{broker.bootstrap_servers} (1)", "1", "classic", "-", "-"],
    ]


def test_a_consumer_group_is_told_with_epochs_targets_and_subscriptions(ask, broker, orders) -> None:
    at = broker.bootstrap_servers
    with SmallClient(at, "one") as one, SmallClient(at, "two") as two:
        one.beat("billing", orders, instance_id="first")
        two.beat("billing", orders)
        broker.clock.advance("2s")
        one.beat("billing")
        listed = rows_of(ask("group", "list", "--type", "consumer").stdout)
        assert listed[1:] == [["billing", "Reconciling", "consumer", "consumer"]]
        (told,) = rows_of(ask("group", "describe", "billing", "--state").stdout)[1:]
        assert told == ["billing", "Reconciling", "consumer", "uniform", f"{at} (1)", "2", "consumer", "3", "3"]
        first, second = json.loads(ask("group", "describe", "--members", "--format", "json").stdout)
        (reads,) = {row[6] for row in rows_of(ask("group", "describe", "billing").stdout)[1:]}
    assert (first["member"], first["instance"], first["protocol"]) == (one.member_id, "first", "consumer")
    assert (first["partitions"], first["epoch"]) == ([["orders", 0], ["orders", 1]], 2)
    assert (second["partitions"], second["epoch"]) == ([], 2)
    assert sorted(first["target"] + second["target"]) == [["orders", 0], ["orders", 1]]
    assert (first["topics"], first["regex"]) == (["orders"], None)
    assert reads == one.member_id


def test_a_share_group_is_told_with_start_offsets_lag_and_readers(ask, broker) -> None:
    broker.create_topic("jobs", partitions=2)
    at = broker.bootstrap_servers
    with SmallClient(at, "worker") as worker:
        worker.share("workers", "jobs")
        worker.acquire("workers")  # the group begins at the end
        for _ in range(3):
            broker.produce("jobs", b"job", partition=0)
        assert worker.acquire("workers") == [(0, 2, 1)]
        worker.acquire("workers", (0, 0, 1), (2, 2, 1))
        assert rows_of(ask("group", "describe", "workers").stdout)[1:] == [
            ["workers", "jobs", "0", "0", "3", "1", "-", "-", "-"],  # the start offset is written with the next change
            ["workers", "jobs", "1", "-", "0", "-", "-", "-", "-"],
        ]
        (state,) = rows_of(ask("group", "describe", "workers", "--state").stdout)[1:]
        (member,) = json.loads(ask("group", "describe", "workers", "--members", "--format", "json").stdout)
    assert state == ["workers", "Stable", "share", "simple", f"{at} (1)", "1", "share", "3", "3"]
    assert (member["member"], member["client"], member["protocol"]) == (worker.member_id, "worker", "share")
    assert (member["partitions"], member["epoch"], member["topics"]) == ([["jobs", 0], ["jobs", 1]], 3, ["jobs"])
    assert (member["instance"], member["target"], member["regex"]) == (None, None, None)


def test_a_streams_group_is_told_with_the_partitions_that_its_tasks_read(run) -> None:
    at_once = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
    with Broker(topics={"t": 3, "shorter": 2}, config=at_once) as broker:
        at = broker.bootstrap_servers
        with SmallClient(at, "app-1") as app:
            app.stream("app", "t", "shorter")
            (state,) = rows_of(run("group", "describe", "app", "--state", "-b", at).stdout)[1:]
            told = json.loads(run("group", "describe", "app", "--members", "--format", "json", "-b", at).stdout)
            owners = {row[6] for row in rows_of(run("group", "describe", "app", "-b", at).stdout)[1:]}
    (member,) = told
    assert owners == {app.member_id}
    assert state[:4] == ["app", "Stable", "streams", "-"]
    assert (member["member"], member["protocol"], member["topics"]) == (app.member_id, "streams", ["shorter", "t"])
    read = [["shorter", 0], ["shorter", 1], ["t", 0], ["t", 1], ["t", 2]]
    assert member["partitions"] == member["target"] == read


def test_a_topic_that_is_gone_does_not_keep_a_group_from_being_described(ask, orders) -> None:
    ask("group", "reset", "billing", orders, "--to-latest", "--execute")
    ask("topic", "delete", orders)
    assert rows_of(ask("group", "list").stdout)[1:] in ([], [["billing", "Empty", "-", "classic"]])


def test_two_views_of_a_group_are_refused(run) -> None:
    result = run("group", "describe", "--members", "--state")
    assert result.exit_code == 2
    assert "one of --members, --state, --offsets was expected, not --members and --state" in result.stderr


def test_an_unknown_state_or_type_of_groups_is_refused_with_the_known_ones(run) -> None:
    states = run("group", "list", "--state", "Stabel")
    assert states.exit_code == 2
    assert "'Stabel' is not one of 'Empty', 'PreparingRebalance', 'CompletingRebalance', 'Stable'" in states.stderr
    types = run("group", "list", "--type", "old")
    assert types.exit_code == 2
    assert "'old' is not one of 'classic', 'consumer', 'share', 'streams'" in types.stderr


def test_states_and_types_are_known_in_any_case(ask, orders) -> None:
    ask("consume", orders, "--group", "g")
    for state, type_ in (("Empty", "classic"), ("empty", "Classic")):
        listed = ask("group", "list", "--state", state, "--type", type_).stdout
        assert rows_of(listed)[1][0] == "g"


def test_a_group_that_does_not_exist_is_told(refuse) -> None:
    assert refuse("group", "describe", "nobody", code=1).startswith("kmini: nobody: GROUP_ID_NOT_FOUND: ")
    assert refuse("group", "delete", "nobody", code=1).startswith("kmini: nobody: GROUP_ID_NOT_FOUND: ")


def test_groups_are_deleted_if_nobody_is_in_them(ask, refuse, broker, orders, join) -> None:
    ask("group", "reset", "billing", orders, "--to-latest", "--execute")
    join(broker.bootstrap_servers, "audit", orders, 0, 1)
    assert refuse("group", "delete", "audit", "billing", code=1).startswith("kmini: audit: NON_EMPTY_GROUP: ")
    assert [row[0] for row in rows_of(ask("group", "list").stdout)[1:]] == ["audit"]


def test_offsets_of_one_topic_are_forgotten(ask, refuse, broker, orders, offsets, join) -> None:
    broker.create_topic("returns")
    ask("group", "reset", "billing", orders, "returns", "--to-latest", "--execute")
    ask("group", "delete", "billing", "--topic", f"{orders}:1")
    assert set(offsets("billing")) == {("orders", 0), ("returns", 0)}
    ask("group", "delete", "billing", "--topic", orders)
    assert set(offsets("billing")) == {("returns", 0)}
    assert "has committed nothing there" in refuse("group", "delete", "billing", "--topic", orders, code=1)
    join(broker.bootstrap_servers, "billing", "returns", 0)
    sentence = refuse("group", "delete", "billing", "--topic", "returns", code=1)
    assert sentence.startswith("kmini: billing: returns-0: GROUP_SUBSCRIBED_TO_TOPIC: ")


def test_apache_kafkas_groups_are_told_in_the_same_words(run, apache_kafka_server, topic_names, join, leave) -> None:
    server = apache_kafka_server.bootstrap_servers
    topic = topic_names("group")
    name = f"readers-of-{topic}"

    def ask(*arguments: object, stdin: str | None = None, code: int = 0) -> str:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=server)
        assert result.exit_code == code, result.output
        return str(result.stdout or result.stderr)

    ask("topic", "create", topic)
    ask("produce", topic, stdin="one\ntwo\nthree\n")
    ask("group", "reset", name, topic, "--to-offset", 2, "--execute")
    assert rows_of(ask("group", "describe", name))[1:] == [[name, topic, "0", "2", "3", "1", "-", "-", "-"]]
    member = join(server, name, topic, 0)
    assert rows_of(ask("group", "describe", name))[1][6:] == [member, "127.0.0.1", "reader"]
    assert rows_of(ask("group", "describe", name, "--state"))[1][:4] == [name, "Stable", "consumer", "range"]
    assert [name, "Stable", "consumer", "classic"] in rows_of(ask("group", "list", "--state", "Stable"))
    assert "only an idle one can be reset" in ask("group", "reset", name, "--to-latest", code=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in ask("group", "delete", name, "--topic", topic, code=1)
    assert "NON_EMPTY_GROUP" in ask("group", "delete", name, code=1)
    leave(server, name, member)
    ask("group", "reset", name, "--shift-by", -1, "--execute")
    assert rows_of(ask("group", "describe", name))[1][3:6] == ["1", "3", "2"]
    ask("group", "delete", name, "--topic", topic)
    ask("group", "delete", name)
    assert "GROUP_ID_NOT_FOUND" in ask("group", "describe", name, code=1)


def test_what_is_told_is_what_kafkas_own_command_tells(run, server, java, topic_names, join) -> None:
    at = server.bootstrap_servers
    topic = topic_names("group")
    name = f"readers-of-{topic}"

    def ask(*arguments: object, stdin: str | None = None) -> list[list[str]]:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=at)
        assert result.exit_code == 0, result.output
        return rows_of(result.stdout)

    def kafkas(*arguments: str) -> list[list[str]]:
        finished = java.run("ConsumerGroupCommand", "--bootstrap-server", at, *arguments)
        assert finished.exit == 0, finished.stderr
        return [line.split() for line in finished.lines if name in line.split()]

    ask("topic", "create", topic, "-p", 2)
    ask("produce", topic, "-p", 0, stdin="one\ntwo\nthree\n")
    ask("group", "reset", name, f"{topic}:0", "--to-offset", 2, "--execute")
    join(at, name, topic, 0, 1)
    ours = ask("group", "describe", name)[1:]
    # Theirs has an address with a slash in front.
    theirs = [[cell.removeprefix("/") for cell in row] for row in kafkas("--describe", "--offsets", "--group", name)]
    assert sorted(ours) == sorted(theirs)
    ((_, member, instance, host, client, partitions, *_),) = ask("group", "describe", name, "--members")[1:]
    ((_, consumer_id, their_host, client_id, count),) = kafkas("--describe", "--members", "--group", name)
    assert (member, f"/{host}", client) == (consumer_id, their_host, client_id)
    assert (instance, partitions, count) == ("-", f"{topic}-0,{topic}-1", "2")
    ((_, state, _, assignor, coordinator, members, *_),) = ask("group", "describe", name, "--state")[1:]
    ((_, address, number, strategy, their_state, their_members),) = kafkas("--describe", "--state", "--group", name)
    assert [state, assignor, coordinator, members] == [their_state, strategy, f"{address} {number}", their_members]
    assert [name, "Stable"] in kafkas("--list", "--state")
