"""The examples in the docstrings of public names: each runs, and prints what it shows."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import kmini
from kmini import Broker, Cluster
from support.control_api import control_api

HANDLES = [
    getattr(kmini, name) for name in kmini.__all__ if not name.startswith("Async")
]  # awaitable methods have the docstrings of the blocking ones


def examples() -> Iterator[doctest.DocTest]:
    """The examples of each public class and of each of its methods. They may use the public names; `broker`, whose
    topic `orders` has three partitions; its handle `orders`; and `cluster`, which has two brokers."""
    parser = doctest.DocTestParser()
    for cls in HANDLES:
        documented: list[tuple[str, Any]] = [(cls.__name__, cls)]
        documented += [(f"{cls.__name__}.{name}", inspect.getattr_static(cls, name)) for name in dir(cls)]
        for name, one in documented:
            if name.partition(".")[2].startswith("_") or not isinstance(one.__doc__, str):
                continue
            found = parser.get_doctest(one.__doc__, {}, name, inspect.getsourcefile(cls), 0)
            if found.examples:
                yield found


EXAMPLES = [*examples()]


@pytest.fixture(scope="module")
def there() -> Iterator[dict[str, Any]]:
    """Handles of a broker and of a cluster that control servers steer."""
    with (
        control_api(topics={"orders": 3}) as one,
        control_api(2, topics={}) as two,
        kmini.connect(one.url) as broker,
        kmini.connect(two.url) as cluster,
    ):
        yield {"broker": broker, "cluster": cluster}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_shows(example: doctest.DocTest) -> None:
    with Broker(topics={"orders": 3}) as broker:
        example.globs = {**{name: getattr(kmini, name) for name in kmini.__all__}}
        example.globs |= {"broker": broker, "orders": broker.topic("orders")}
        if any("cluster" in one.source for one in example.examples):
            with Cluster(brokers=2) as cluster:
                run(example, {**example.globs, "cluster": cluster})
        else:
            run(example, example.globs)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_the_same_over_http(example: doctest.DocTest, there: dict[str, Any]) -> None:
    names = {name: getattr(kmini, name) for name in kmini.__all__} | there | {"orders": there["broker"].topic("orders")}
    try:
        run(example, names)
    finally:
        there["broker"].reset()
        there["cluster"].reset()


def run(example: doctest.DocTest, names: dict[str, Any]) -> None:
    told: list[str] = []
    example.globs = names
    doctest.DocTestRunner(verbose=False).run(example, out=told.append, clear_globs=False)
    assert not told, "".join(told)


def test_the_handles_of_topics_and_records_have_examples() -> None:
    named = {example.name for example in EXAMPLES}
    assert named >= {"Broker", "Cluster", "Mark", "Record.json", "Topic.expect", "Topic.records", "Topic.wait_for"}
