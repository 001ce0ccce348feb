"""A control server with its broker or its cluster, on a thread with a loop of its own, and an HTTP client for it."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple, TypeVar

from kmini.broker.broker import BrokerServer
from kmini.broker.controller.topics import create as create_topic
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.control.control_server import ControlServer
from kmini.control.managed_brokers import ManagedBrokers
from kmini.control.routes import PREFIX
from kmini.testkit.argument_checks import topics as new_topics
from kmini.testkit.loop_thread import LoopThread

T = TypeVar("T")

DEADLINE_S = 60.0
"""Seconds that a call may take on a busy machine."""


ORDERS: Mapping[str, int] = {"orders": 2}
"""The topics that are there unless a test says otherwise, with their partitions."""


PATH_NAMES = {
    "topic": "orders",
    "group": "billing",
    "broker": "1",
    "transactional_id": "tx-1",
    "rule": "lost",
    "snapshot": "seeded",
    "client_id": "test-*",
    "subject": "orders-value",
}
"""What the paths of calls name in tests that ask all of them."""


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON that it has; None without a body."""
        return json.loads(self.body, parse_constant=_refuse) if self.body else None

    @property
    def is_problem(self) -> bool:
        return self.headers.get("Content-Type", "").startswith("application/problem+json")


class ControlApi:
    """Serves from `start` to `end`, and asks itself over HTTP."""

    def __init__(
        self,
        data_dir: str,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] = ORDERS,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        configs = [
            BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **(config or {}), "node.id": str(number)})
            for number in range(1, brokers + 1)
        ]
        self.managed = ManagedBrokers(configs, data_dir, _create(new_topics("topics", topics)), is_temporary=True)
        self.token: str | None = None
        self.server: ControlServer
        self.port = 0
        self._thread = LoopThread("control server")

    def start(self, token: str | None = None) -> ControlApi:
        """Start the broker and the server."""
        self.token = token
        self._thread.start()
        self.run(self.managed.start())
        self.run(self._serve(socket.create_server(("127.0.0.1", 0))))
        return self

    async def _serve(self, listening: socket.socket) -> None:
        self.server = ControlServer(self.managed, self.token)
        self.port = listening.getsockname()[1]
        await self.server.start(listening)

    def end(self) -> None:
        """Stop the server and the broker."""
        try:
            self.run(self.server.stop())
            self.run(self.managed.stop())
        finally:
            self._thread.end()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the broker."""
        return self._thread.run(coroutine, deadline_s=DEADLINE_S)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop of the broker."""

        async def called() -> T:
            return function()

        return self.run(called())

    @property
    def url(self) -> str:
        """The address of the control server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def any_broker(self) -> BrokerServer:
        return self.managed.operations.any_broker()

    @contextmanager
    def connection(self) -> Iterator[HTTPConnection]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def raw(self) -> Iterator[socket.socket]:
        """A connection for what no HTTP client sends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as connection:
            yield connection

    def send(
        self,
        verb: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to a request as it is given; an iterable is sent in chunks."""
        with self.connection() as connection:
            connection.request(verb, path, body, dict(headers or {}), encode_chunked=not isinstance(body, bytes | None))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())  # type: ignore[arg-type]

    def ask(self, verb: str, path: str, document: object = None) -> Answer:
        """The answer to a request with JSON; `path` is below the prefix of the API."""
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        if document is None:
            return self.send(verb, PREFIX + path, None, headers)
        body = json.dumps(document).encode()
        return self.send(verb, PREFIX + path, body, {**headers, "Content-Type": "application/json"})

    def done(self, verb: str, path: str, document: object = None) -> Any:
        """What a request returns that must succeed: JSON, or a text."""
        answer = self.ask(verb, path, document)
        assert answer.status in (200, 201, 204), answer.body.decode()
        if answer.headers.get("Content-Type", "").startswith("text/plain"):
            return answer.body.decode()
        return answer.document

    def problem(self, verb: str, path: str, document: object = None) -> dict[str, Any]:
        """The problem of a request that must be refused."""
        return problem_of(self.ask(verb, path, document))

    def reset(self) -> None:
        """As right after the start, whatever a test has done."""
        if not self.managed.is_running:
            self.run(self.managed.start())
        self.done("DELETE", "/faults")
        self.done("POST", "/reset")


@contextmanager
def control_api(
    brokers: int = 1,
    *,
    topics: Mapping[str, int] = ORDERS,
    config: Mapping[str, str] | None = None,
    token: str | None = None,
) -> Iterator[ControlApi]:
    """Serve for the time of a block, over a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="kmini-") as directory:
        api = ControlApi(directory, brokers=brokers, topics=topics, config=config).start(token)
        try:
            yield api
        finally:
            api.end()


def problem_of(answer: Answer) -> dict[str, Any]:
    """The problem document that an answer has."""
    assert answer.is_problem, answer
    document: dict[str, Any] = answer.document
    assert document["status"] == answer.status
    assert document["type"].startswith("urn:kmini:problem:")
    assert document["title"]
    assert b"Traceback" not in answer.body
    return document


def _create(wanted: list[Any]) -> Callable[[BrokerServer], None]:
    def create(broker: BrokerServer) -> None:
        for topic in wanted:
            if broker.controller.topic(topic.name) is None:
                create_topic(
                    broker,
                    topic.name,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    configs=topic.configs,
                )

    return create


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
