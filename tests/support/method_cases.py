"""Every public method, with right and wrong values of each argument."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import kmini
from kmini import Broker, Cluster

GOOD: dict[str, Any] = {
    "broker": 1,
    "client_id": "billing-1",
    "count": 1,
    "duration": 0,
    "group": "billing",
    "host": "proxy.example",
    "kind": "java",
    "member": "billing-1",
    "offsets": {("orders", 0): 0},
    "name": "orders",
    "path": "seed.jsonl",
    "position": "earliest",
    "snapshot": "seed",
    "timeout_ms": 1,
    "to": 1,
    "topic": "orders",
    "torn": "orders",
    "transactional_id": "billing-1",
    "unindexed": "orders",
    "value": b"v",
    "version": 4,
    "wanted": 1,
}
"""What the arguments beside the wrong one are."""


WRONG_TYPES: dict[str, list[Any]] = {
    "broker": ["1", None, 1.0, True],
    "client_id": [1, None, b"billing-1"],
    "config": [["retention.ms"], {"retention.ms": None}, {1: "a"}, "a"],
    "count": ["1", None, 1.5],
    "duration": [1.5, None, True, b"1s"],
    "group": [1, None, b"billing"],
    "host": [1, b"proxy.example"],
    "headers": ["trace", 1, [("trace",)], [("trace", 1)], {"trace": 1}, {1: b""}, [1], None],
    "isolation": [1, None],
    "keep": [1, None, "app-*", [1], b"app"],
    "key": ["42", 42, ["42"]],
    "kind": [1, None, b"java"],
    "liveness": [1, None, "yes"],
    "member": [1, None, b"billing-1"],
    "members": ["2", 1.5, True],
    "name": [1, None, b"orders"],
    "offset": ["1", None, 1.5],
    "offsets": [None, 7, ["orders"], {"orders": 7}, {("orders",): 7}, {("orders", "0"): 7}, {("orders", 0): "7"}],
    "partition": ["0", 1.0, True],
    "partitions": ["3", None, 3.0],
    "port": ["9092", 1.5, True],
    "path": [1, None, b"seed.jsonl"],
    "replication_factor": ["3", None],
    "since": ["1", 1.5, True, ("orders", 1)],
    "position": ["first", None, 1.5],
    "snapshot": [1, None, b"seed"],
    "timeout_ms": ["1s", None, 1.5, timedelta(seconds=1)],
    "timestamp_ms": ["now", 1.5],
    "to": ["2", 2.0],
    "topic": [1, None, b"orders", ["orders"]],
    "torn": [1, b"orders", ["orders"]],
    "transactional_id": [1, None],
    "unindexed": [1, b"orders", ["orders"]],
    "user": [1, b"alice"],
    "value": ["str", 1, {"a": 1}],
    "version": ["4", 4.0],
    "wanted": ["1", None, 1.5, asyncio.sleep],
    "where": ["key", 1, b"42", asyncio.sleep],
    "within_ms": ["1s", 1.5, timedelta(seconds=1)],
}


WRONG_VALUES: dict[str, list[Any]] = {
    "broker": [-1],
    "count": [-1],
    "duration": [-1, "soon", "", "-1s", timedelta(-1), 1 << 62],
    "isolation": ["comitted", ""],
    "keep": [["app-*", ""]],
    "kind": ["pulsar", "", "Java"],
    "members": [-1],
    "offset": [-2, 1 << 63],
    "offsets": [{("orders", -1): 7}, {("orders", 0): -1}],
    "partition": [-1, 1 << 31],
    "partitions": [0, -2],
    "port": [0, 65_536],
    "path": [""],
    "replication_factor": [0, -2],
    "since": [-1, 1 << 63],
    "position": [-1, 1 << 63],
    "snapshot": [""],
    "timeout_ms": [-1],
    "timestamp_ms": [-2, 1 << 63],
    "to": [-1],
    "version": [-1, 99],
    "wanted": [-1],
    "within_ms": [-1],
}


class Case(NamedTuple):
    """A method of a handle."""

    path: str
    """As an attribute of a Broker or Cluster, with a handle before it if it is one's: "clock.advance"."""
    host: str
    parameters: tuple[inspect.Parameter, ...]

    def __str__(self) -> str:
        return f"{self.host}.{self.path}"


def methods_of(cls: type, host: str, prefix: str = "") -> Iterator[Case]:
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        parameters = tuple(inspect.signature(method).parameters.values())[1:]
        if not name.startswith("_"):
            yield Case(prefix + name, host, parameters)


METHODS = [
    *methods_of(Broker, "broker"),
    *methods_of(kmini.Topic, "broker", 'topic("orders").'),
    *methods_of(kmini.Clock, "broker", "clock."),
    *methods_of(kmini.Group, "broker", 'group("billing").'),
    *methods_of(kmini.Transactions, "broker", "transactions."),
    *methods_of(Cluster, "cluster"),
    *methods_of(kmini.Topic, "cluster", 'topic("orders").'),
    *methods_of(kmini.Clock, "cluster", "clock."),
    *methods_of(kmini.Group, "cluster", 'group("billing").'),
    *methods_of(kmini.Transactions, "cluster", "transactions."),
]


TAKING = [method for method in METHODS if method.parameters]


def find(host: Any, path: str) -> Callable[..., Any]:
    handle, _, name = path.rpartition(".")
    if handle in ("clock", "transactions"):
        host = getattr(host, handle)
    elif handle.startswith("group"):
        host = host.group("billing")
    elif handle:
        host = host.topic("orders")
    method: Callable[..., Any] = getattr(host, name)
    return method


def callers(hosts: dict[str, Any], case: Case) -> list[Callable[..., Any]]:
    """The blocking method and the one that is awaited."""
    awaited = find(hosts[case.host].aio, case.path)
    if not inspect.iscoroutinefunction(awaited):  # what gives a handle or an address
        return [find(hosts[case.host], case.path), awaited]

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await awaited(*args, **kwargs)

    return [find(hosts[case.host], case.path), lambda *args, **kwargs: asyncio.run(call(*args, **kwargs))]


def arguments(case: Case, wrong: str, value: Any) -> dict[str, Any]:
    needed = [parameter.name for parameter in case.parameters if parameter.default is inspect.Parameter.empty]
    return {**{name: GOOD[name] for name in needed}, wrong: value}


def check_sentence(error: BaseException) -> None:
    """A person can read it: no names of ours that are not public, no addresses, no words of Python's internals."""
    told = str(error)
    assert len(told.split()) >= 4, told
    assert not re.search(r"object at 0x|NoneType|Operations|has no attribute|__|struct\.error", told), told


def check_documented(hosts: dict[str, Any], case: Case, error: type[Exception]) -> None:
    """The docstring, from which docs/api.md is written, names the error."""
    assert error.__name__ in (find(hosts[case.host], case.path).__doc__ or "")
