"""Kafka Streams itself, with its own group protocol (KIP-1071) and with the classic one: what it writes is exact,
though instances come, go and are killed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kmini import Broker
from support.for_each import sampled
from support.streams_applications import Application, compile_application, wait_until_shared, why_unavailable
from support.until import until

PARTITIONS = 4
SESSION_MS = 3_000
SETTINGS = {
    "group.min.session.timeout.ms": SESSION_MS,
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.min.session.timeout.ms": SESSION_MS,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.num.standby.replicas": 1,
}
TASKS, COUNTING = 2 * PARTITIONS, "1_"
"""The tasks of the application that counts words, and how the names of those begin that count."""
JOINING = "0_"
"""How the names of all tasks begin that join."""
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")

Start = Callable[..., Application]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := why_unavailable():
        pytest.skip(reason)
    return compile_application(tmp_path_factory.mktemp("classes"))


PROTOCOLS = ("streams", "classic")


@pytest.fixture
def broker() -> Iterator[Broker]:
    topics = dict.fromkeys(("lines", "counts", "left", "right", "joined"), PARTITIONS)
    with Broker(topics=topics, config=SETTINGS) as broker:
        yield broker


@pytest.fixture(params=PROTOCOLS)
def start(request: pytest.FixtureRequest, broker: Broker, classes: Path, tmp_path: Path) -> Iterator[Start]:
    """A maker of applications that speak one of the group protocols."""
    with ExitStack() as stack:

        def make(name: str, guarantee: str) -> Application:
            settings: dict[str, object] = {
                "application.id": name,
                "bootstrap.servers": broker.bootstrap_servers,
                "group.protocol": request.param,
                "processing.guarantee": guarantee,
                "producer.transaction.timeout.ms": 10_000,
            }
            if request.param == "classic":
                settings |= {
                    "num.standby.replicas": 1,
                    "session.timeout.ms": SESSION_MS,
                    "heartbeat.interval.ms": 300,
                    "probing.rebalance.interval.ms": 60_000,
                    "acceptable.recovery.lag": 0,
                }
            return stack.enter_context(Application(classes, name, tmp_path, settings).running())

        yield make


# --- words


class Text:
    """Lines of words, and how often each word was counted."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lines = 0
        self._written: Counter[str] = Counter()

    def write(self, lines: int) -> None:
        for _ in range(lines):
            words = [WORDS[(self._lines * step + 1) % len(WORDS)] for step in (1, 2, 3)]
            self._broker.produce("lines", " ".join(words).encode(), partition=self._lines % PARTITIONS)
            self._written.update(words)
            self._lines += 1

    def counts(self) -> dict[str, list[int]]:
        """The counts of each word, in the order in which they were written; without those of open transactions."""
        found: dict[str, list[int]] = defaultdict(list)
        for record in self._broker.records("counts"):
            assert record.key is not None
            assert record.value is not None
            found[record.key.decode()].append(int(record.value))
        return found

    def wait_until_counted(self) -> None:
        total = self._written.total()
        until(lambda: sum(map(len, self.counts().values())) >= total, lambda: f"{total} words: {self.counts()}")

    def assert_each_word_was_counted_once(self) -> None:
        assert self.counts() == {word: [*range(1, count + 1)] for word, count in self._written.items()}


@pytest.mark.parametrize("start", sampled(PROTOCOLS, "streams"), indirect=True)
def test_words_are_counted_exactly_once_though_an_instance_is_killed_and_its_standby_takes_over(
    broker: Broker, start: Start
) -> None:
    text = Text(broker)
    application = start("words", "exactly_once_v2")
    first, second = application.start(), application.start()
    wait_until_shared(first, second, tasks=TASKS, stateful=COUNTING)
    text.write(40)
    text.wait_until_counted()
    text.write(20)
    first.kill()
    text.write(20)
    wait_until_shared(second, tasks=TASKS)
    text.write(20)
    text.wait_until_counted()
    text.assert_each_word_was_counted_once()
    third = application.start()
    wait_until_shared(second, third, tasks=TASKS, stateful=COUNTING)
    second.close()
    text.write(20)
    wait_until_shared(third, tasks=TASKS)
    text.wait_until_counted()
    text.assert_each_word_was_counted_once()
    third.close()
    until(lambda: broker.group("words").describe().state == "Empty")  # a classic member leaves with its session


# --- tables


class Tables:
    """Two tables of the same keys, and what a join of them says."""

    KEYS = tuple(f"k{number}" for number in range(12))

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._now = {"left": "", "right": ""}
        self._expected: list[str] = []
        """What is to be said of each key."""

    def write(self, table: str, *values: str) -> None:
        """Give every row of a table these values, one after the other."""
        for value in values:
            for number, key in enumerate(self.KEYS):
                self._broker.produce(table, value.encode(), key=key.encode(), partition=number % PARTITIONS)
            self._now[table] = value
            if all(self._now.values()):
                self._expected.append("+".join(self._now.values()))

    def joined(self) -> dict[str, list[str]]:
        """What was said of each key, in that order; without that of open transactions."""
        found: dict[str, list[str]] = {key: [] for key in self.KEYS}
        for record in self._broker.records("joined"):
            assert record.key is not None
            assert record.value is not None
            found[record.key.decode()].append(record.value.decode())
        return found

    def assert_each_change_is_said_once(self) -> None:
        """Wait until all is said. Until then the other table must not change, or either may be read first."""
        total = len(self.KEYS) * len(self._expected)
        until(lambda: sum(map(len, self.joined().values())) >= total, self.joined)
        assert self.joined() == dict.fromkeys(self.KEYS, self._expected)


@pytest.mark.parametrize("start", sampled(PROTOCOLS, "classic"), indirect=True)
def test_tables_are_joined_exactly_once_though_an_instance_is_killed_and_its_standby_takes_over(
    broker: Broker, start: Start
) -> None:
    tables = Tables(broker)
    application = start("join", "exactly_once_v2")
    first, second = application.start(), application.start()
    wait_until_shared(first, second, tasks=PARTITIONS, stateful=JOINING)
    tables.write("left", "a")
    tables.write("right", "x")
    tables.assert_each_change_is_said_once()
    tables.write("left", "b", "c")
    first.kill()
    tables.write("left", "d", "e")
    wait_until_shared(second, tasks=PARTITIONS)
    tables.assert_each_change_is_said_once()
    tables.write("right", "y", "z")
    tables.assert_each_change_is_said_once()
    second.close()
    third = application.start()
    wait_until_shared(third, tasks=PARTITIONS)
    tables.write("right", "x")  # with what is restored from the changelogs alone
    tables.assert_each_change_is_said_once()
    third.close()
    assert {name for name in broker.topics() if name.startswith("join-")} == {
        f"join-{store}-changelog" for store in ("left-STATE-STORE-0000000000", "right-STATE-STORE-0000000003")
    }
