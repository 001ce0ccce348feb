"""A broker or a cluster with a control server, on a thread of this process."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kmini.argument_checks import topics as checked_topics
from kmini.broker.broker import BrokerServer
from kmini.broker.controller.topics import create
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.control.control_server import ControlServer
from kmini.control.steered import Steered
from kmini.loop_thread import LoopThread


class ControlServerThread:
    """What runs, and where it is."""

    def __init__(self, steered: Steered, server: ControlServer, thread: LoopThread, port: int) -> None:
        self.steered = steered
        self.server = server
        self.thread = thread
        self.url = f"http://127.0.0.1:{port}"


@contextmanager
def control_server(
    brokers: int = 1,
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
    token: str | None = None,
) -> Iterator[ControlServerThread]:
    """Run brokers, numbered from 1, and their control server, each on any free port."""
    configs = [
        BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", "node.id": str(number), **(config or {})})
        for number in range(1, brokers + 1)
    ]

    def create_topics(broker: BrokerServer) -> None:
        for topic in checked_topics("topics", topics):
            if broker.controller.topic(topic.name) is None:
                create(broker, topic.name, partitions=topic.partitions)

    async def begin() -> None:
        await steered.start()
        await server.start(listening)

    async def end() -> None:
        await server.stop()
        await steered.stop()

    thread: LoopThread = LoopThread("control server")
    with tempfile.TemporaryDirectory(prefix="kmini-") as directory:
        steered = Steered(configs, directory, create_topics, is_temporary=True)
        server = ControlServer(steered, token)
        listening = socket.create_server(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        thread.start()
        try:
            thread.run(begin(), deadline_s=60)
            yield ControlServerThread(steered, server, thread, port)
        finally:
            thread.run(end(), deadline_s=60)
            thread.end()
