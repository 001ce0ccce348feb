"""The table of routes: whole, and without two that mean the same."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from kmini import Broker, Cluster
from kmini.control.control_operations import ControlOperations, TopicControl
from kmini.control.fault_control import FaultControl, RuleControl
from kmini.control.record_pages import HostPages, TopicPages
from kmini.control.report_control import ReportControl
from kmini.control.routes import ROUTE_OF, ROUTES, Route
from kmini.testkit.clock_handle import Clock, ClockOperations
from kmini.testkit.fault_handle import Fault, Faults
from kmini.testkit.group_handle import Group, GroupOperations
from kmini.testkit.journal_handle import RequestOperations, Requests
from kmini.testkit.operations import Operations
from kmini.testkit.topic_handle import Topic, TopicOperations
from kmini.testkit.transaction_handle import TransactionOperations, Transactions
from support.for_each import for_each

HOST = (Operations, HostPages, ControlOperations)

HANDLES = {
    Topic: (TopicOperations, TopicPages),
    Group: (GroupOperations,),
    Faults: (FaultControl,),
    Fault: (RuleControl,),
    Clock: (ClockOperations,),
    Requests: (RequestOperations,),
    Transactions: (TransactionOperations,),
    Broker: HOST,
    Cluster: HOST,
}
"""The test kit's handles, each with the tables that stand for it in a request."""

A_RULE = "it makes a rule, which is JSON for POST /faults"
A_HANDLE = "it returns a handle: its methods have the routes"

WITHOUT_A_ROUTE = {
    "Topic.expect": "it is a block of Python: a mark, and a wait for what came since",
    "Fault.assert_hit": "it compares the hits that GET /faults/{rule} returns",
    "Fault.to_json": "GET /faults/{rule} returns it as `rule`",
    "Faults.rules": "GET /faults returns them",
    "Broker.client_config": "its certificates are files where the broker runs: kmini client-config tells the settings",
    "Broker.close": "it ends what the program has of it: the broker goes on",
    "Broker.group": A_HANDLE,
    "Broker.load": "a path of the broker's file system would be open to clients: POST /seed takes the records",
    "Broker.report": "GET /report returns it",
    "Broker.topic": A_HANDLE,
    "Cluster.address_of": "GET /api/v1 returns the addresses",
    "Cluster.client_config": "its certificates are files where the brokers run: kmini client-config tells the settings",
    "Cluster.close": "it ends what the program has of it: the cluster goes on",
    "Cluster.group": A_HANDLE,
    "Cluster.load": "a path of the broker's file system would be open to clients: POST /seed takes the records",
    "Cluster.report": "GET /report returns it",
    "Cluster.topic": A_HANDLE,
} | {
    f"Faults.{story}": A_RULE
    for story in (
        "broker_missing_from_metadata",
        "commit_answer_is_lost",
        "controller_moved",
        "coordinator_load_in_progress",
        "coordinator_moved",
        "disk_full",
        "leader_moved",
        "leader_not_available",
        "network_partition",
        "no_coordinator",
        "on",
        "outage",
        "produce_succeeds_but_answer_is_lost",
        "producer_fenced",
        "rebalance_storm",
        "slow_broker",
        "slow_fetch",
        "stale_leader",
        "transaction_hangs",
        "unknown_topic_until",
    )
}
"""The methods that a request cannot call by their name, and why."""


def public_methods(handle: type) -> Iterator[str]:
    """Those without an underscore; a property is no call."""
    for name in dir(handle):
        if not name.startswith("_") and callable(inspect.getattr_static(handle, name)):
            yield name


def test_every_public_method_of_the_test_kit_has_a_route_or_a_reason() -> None:
    found = {
        f"{handle.__name__}.{name}"
        for handle, tables in HANDLES.items()
        for name in public_methods(handle)
        if not any((table, name) in ROUTE_OF for table in tables)
    }
    assert found == WITHOUT_A_ROUTE.keys()


def shape(route: Route) -> tuple[str, str]:
    """What a request is matched by."""
    return route.verb, re.sub(r"{\w+}", "{}", route.path)


def test_no_two_routes_are_for_the_same_requests() -> None:
    assert len({shape(route) for route in ROUTES}) == len(ROUTES)


def test_no_method_has_two_routes() -> None:
    assert len(ROUTE_OF) == len(ROUTES)


def test_the_routes_of_a_path_call_its_arguments_the_same() -> None:
    """Otherwise OpenAPI takes them for two paths."""
    paths: dict[str, set[str]] = {}
    for route in ROUTES:
        paths.setdefault(shape(route)[1], set()).add(route.path)
    assert [found for found in paths.values() if len(found) > 1] == []


@for_each("route", ROUTES, ids=lambda route: f"{route.verb}-{route.path.replace('/', '.')}")
def test_a_route_is_plain_and_its_method_exists(route: Route) -> None:
    assert route.verb in ("GET", "POST", "PUT", "PATCH", "DELETE")
    assert re.fullmatch(r"(/([a-z-]+|{[a-z_]+}))+|/", route.path)
    assert route.path_arguments == re.findall(r"{(\w+)}", route.path)
    tables = [route.table] if route.table is not Operations else [Broker, Cluster, Operations]
    methods = [method for table in tables if (method := getattr(table, route.method, None)) is not None]
    assert methods
    assert all(inspect.getdoc(method) for method in methods)


def test_what_reads_changes_nothing_and_is_a_get() -> None:
    waits = {"wait_for", "wait_hit", "arrived", "stable", "caught_up", "wait_ended", "wait_until_in_sync"}
    for route in ROUTES:
        if route.verb == "GET":
            assert route.method not in waits | {"reset", "produce", "stop", "start", "advance"}


def test_a_path_gives_a_method_its_name_for_the_argument() -> None:
    delete = ROUTE_OF[Operations, "delete_topic"]
    assert delete.named({"topic": "orders"}, ["name"]) == {"name": "orders"}
    assert delete.named({"topic": "orders"}, ["topic"]) == {"topic": "orders"}


def test_metrics_and_reports_are_texts_and_all_else_is_json() -> None:
    assert {(route.verb, route.path) for route in ROUTES if route.is_text} == {
        ("GET", "/metrics"),
        ("GET", "/report"),
        ("POST", "/report"),
    }
    assert {ReportControl, TopicControl} < {route.table for route in ROUTES}
