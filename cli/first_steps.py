"""The two commands that `kmini serve` prints on stderr once clients can connect: how to produce and how to consume.

They work in another shell of the same machine. `--log-level warning` or `error`, `--log-format json` and `--env`
suppress them.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kmini.cli.log_output import logs_json, notice
from kmini.protocol.topics import is_internal

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer

TOPIC = "try"
"""Name of the topic in the commands where there is none yet; the first record creates it."""


def show_first_steps(broker: BrokerServer, client_properties: Sequence[str] = ()) -> None:
    """Print how to produce to this broker and how to consume from it. `client_properties` are files for
    `--command-config`, of each user."""
    if logs_json() or not logging.getLogger().isEnabledFor(logging.INFO):
        return
    for line in _lines(broker, client_properties):
        notice(line)


def _lines(broker: BrokerServer, client_properties: Sequence[str]) -> Iterator[str]:
    listeners = broker.server.listeners
    listener = next((one for one in listeners if one.sasl is None and one.tls is None), listeners[0])
    is_open = listener.sasl is None and listener.tls is None
    asks = f"-b {listener.address}"
    if not is_open:
        asks += f" --command-config {shlex.quote(next(iter(client_properties), 'client.properties'))}"
    program = _program()
    topics = sorted(name for name in broker.controller.topics if not is_internal(name))
    topic = topics[0] if topics else TOPIC
    if not topics and not broker.config.current.auto_create_topics_enable:
        yield f"to create a topic: {program} topic create {topic} {asks}"
    yield f"to produce: echo hello | {program} produce {topic} {asks}"
    yield f"to consume: {program} consume {topic} {asks}"
    if client_properties:
        yield f"for other clients: {program} client-config aiokafka {asks}"
        for path in client_properties[1:]:
            yield f"as another user: --command-config {shlex.quote(path)}"
    elif not is_open:
        yield "client.properties has security.protocol, sasl.mechanism, ssl.truststore.location, as for Kafka's tools"


def _program() -> str:
    """Return the words that call kmini in a shell: `kmini` where that is this program, else its path."""
    called = sys.argv[0]
    if os.path.basename(called) == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m kmini"
    if not os.path.exists(called):
        return "kmini"
    # As shutil.which does: that module imports the codecs of archives, which delays the first answer.
    installed = next(filter(_is_executable, (os.path.join(path, "kmini") for path in os.get_exec_path())), None)
    return "kmini" if installed is not None and os.path.samefile(installed, called) else shlex.quote(called)


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
