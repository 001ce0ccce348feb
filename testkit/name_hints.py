"""What users call a method that has another name here: the sentence that an unknown attribute or keyword ends in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kmini.protocol.similar_names import similar_names

ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "SharedMethods": {
        "port": 'bootstrap_servers, which is "host:port"',
        "host": 'bootstrap_servers, which is "host:port"',
        "address": "bootstrap_servers",
        "bootstrap": "bootstrap_servers",
        "delete_group": "reset(), which removes groups, too",
        "send": 'produce("orders", b"…")',
        "consume": 'records("orders")',
        "wait_for": 'topic("orders").wait_for(3)',
        "expect": 'topic("orders").expect(count=3)',
        "list_topics": "topics()",
        "on": 'faults.on("Produce")',
        "rule": 'faults.on("Produce")',
        "advance": 'clock.advance("7d")',
        "journal": "requests",
        "clear": "reset()",
    },
    "BrokerMethods": {"restart": "stop() and then start(), or crash(), as kill -9 does", "kill": "crash()"},
    "ClusterMethods": {
        "kill_leader": 'kill(cluster.leader("orders", 0))',
        "kill_broker": "kill(2)",
        "restart_broker": "restart(2)",
        "leader_of": 'leader("orders", 0)',
        "coordinator_of": 'coordinator("billing")',
        "elect_leader": 'move_leader("orders", 0, to=2)',
    },
    "_TopicHandle": {
        "delete": 'delete_topic("orders") of the broker',
        "clear": "delete_records()",
        "truncate": "delete_records()",
        "purge": "delete_records()",
        "count": "len(topic.records())",
        "read": "records()",
        "consume": "records()",
        "send": 'produce(b"…")',
        "wait": "wait_for(3)",
        "config": "a client's AlterConfigs, or `config` of create_topic",
    },
    "_GroupHandle": {
        "state": "describe().state",
        "members": "describe().members",
        "committed": "offsets()",
        "reset": 'reset_offsets("earliest")',
        "seek": 'commit({("orders", 0): 7})',
        "delete": "reset() of the broker, or a client's DeleteGroups",
        "wait_stable": "stable(members=2)",
        "kick": "expel()",
    },
    "_ClockHandle": {
        "now": "now_ms()",
        "time": "now_ms()",
        "move": 'advance("7d")',
        "travel": 'advance("7d")',
        "set": 'advance("7d") or turn_back("7d")',
        "freeze": 'nothing: log time goes on with the wall clock, and advance("7d") moves it',
    },
    "_RequestsHandle": {
        "list": "all()",
        "wait": 'wait_for("Fetch")',
        "assert_one": 'assert_some("Fetch")',
        "clear": "mark()",
    },
    "_Faults": {"all": "rules()", "list": "rules()", "add": 'on("Produce")', "remove_all": "clear()"},
    "FaultDraft": {
        "nth": "on_call(3)",
        "after": "skip(2)",
        "sometimes": "with_probability(0.1)",
        "twice": "times(2)",
        "raise_error": 'error("NOT_LEADER_OR_FOLLOWER")',
        "close": "disconnect()",
        "timeout": "silent()",
    },
    "_TransactionsHandle": {"list": "open()", "all": "open()", "wait": 'wait_ended("order-tx")'},
}
"""By the class that lists the methods of a handle: what is written instead."""

KEYWORDS: Mapping[str, str] = {
    "n": "count",
    "min_count": "count",
    "timeout": "timeout_ms, in milliseconds",
    "timeout_s": "timeout_ms, in milliseconds",
    "json": "value=json.dumps(…).encode()",
    "days": 'advance("8d")',
    "hours": 'advance("8h")',
    "minutes": 'advance("8m")',
    "seconds": 'advance("8s")',
    "num_partitions": "partitions",
    "partitions_count": "partitions",
    "replicas": "replication_factor",
    "msg": "value",
    "message": "value",
}
"""What is written instead of a keyword."""


def unknown_attribute(owner: type, name: str) -> str:
    """Say that a handle has no such attribute, and what it has instead, if that is known or has a similar name."""
    what = owner.__name__
    for one in owner.__mro__:
        if name in (found := ATTRIBUTES.get(one.__name__, {})):
            return f"{what!r} object has no attribute {name!r}; here it is {found[name]}"
    public = [one for one in dir(owner) if not one.startswith("_")]
    return f"{what!r} object has no attribute {name!r}{similar(name, public)}"


def unknown_keyword(keywords: Iterable[str], parameters: Iterable[str]) -> str:
    """The end of a sentence about a call with keywords that it does not take: what is meant, if that is known."""
    known = [*parameters]
    for name in keywords:
        if name in known:
            continue
        meant = KEYWORDS.get(name, "")
        if meant and ("(" in meant or meant.partition(",")[0] in known):
            return f"; here it is {meant}"
        return similar(name, known)
    return ""


def similar(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about a name that does not exist: the most similar one, if one is similar."""
    near = similar_names(name, names)
    return f" (did you mean {near[0]!r}?)" if near else ""
