"""Brokers in a network like that of a container, with published ports: prints the addresses that each client is told
by each broker, and how many records a client reads that it has produced. The argument is the number of brokers.

To be run as root in a network namespace of its own (`unshare -n`). A namespace stands for a container, a bridge for
Docker's, and a proxy from the host's loopback to the container for a published port, as Docker has one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

from support.docker.published_port import forward

NETWORK = "172.31.77"
PORT = 9092

SERVE = """
from kmini.broker.network import port_mapping
port_mapping.MARKS = ("/proc",)  # what marks a container
from kmini.cli import kmini
kmini(["serve", "--env"])
"""

ASK = """
import sys
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire
with Wire(sys.argv[1]) as wire:
    for node in sorted(wire.ask(MetadataRequest(topics=[]), 9).brokers, key=lambda node: node.node_id):
        print(f"{node.host}:{node.port}")
"""


EXCHANGE = """
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
producer = KafkaProducer(bootstrap_servers=sys.argv[1], acks="all")
for partition in range(3):
    producer.send("orders", b"hello", partition=partition).get(timeout=60)
producer.close()
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
consumer.assign([TopicPartition("orders", partition) for partition in range(3)])
read = 0
for _ in range(600):
    read += sum(map(len, consumer.poll(timeout_ms=100).values()))
    if read >= int(sys.argv[2]):
        break
consumer.close()
print(read)
"""


def ip(*arguments: str, inside: int | None = None) -> None:
    subprocess.run([*_inside(inside), "ip", *arguments], check=True)


def _inside(namespace: int | None) -> list[str]:
    return [] if namespace is None else ["nsenter", "-t", str(namespace), "-n"]


def container(number: int, stack: ExitStack) -> int:
    """A network namespace on the bridge, with the bridge as its gateway; the process that holds it."""
    holder = stack.enter_context(
        subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    stack.callback(holder.kill)
    assert holder.stdout is not None
    holder.stdout.readline()  # it is there
    ip("link", "add", f"v{number}", "type", "veth", "peer", "name", f"e{number}")
    ip("link", "set", f"v{number}", "master", "bridge0", "up")
    ip("link", "set", f"e{number}", "netns", str(holder.pid))
    ip("link", "set", "lo", "up", inside=holder.pid)
    ip("link", "set", f"e{number}", "name", "eth0", inside=holder.pid)
    ip("addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0", inside=holder.pid)
    ip("link", "set", "eth0", "up", inside=holder.pid)
    ip("route", "add", "default", "via", f"{NETWORK}.1", inside=holder.pid)
    return holder.pid


def publish(port: int, target: tuple[str, int]) -> None:
    """Pass connections to the host's port on to the container, for as long as this process lives."""
    listening = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=forward, args=(listening, target), daemon=True).start()


def told(host: str, ports: range, inside: int | None = None) -> list[list[str]]:
    """The addresses of all brokers, as each of them says them to a client that connects to its port."""
    commands = [[*_inside(inside), sys.executable, "-c", ASK, f"{host}:{port}"] for port in ports]
    return [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
        for command in commands
    ]


def exchanged(host: str, records: int, inside: int | None = None) -> int:
    """Produce a record to each of three partitions; how many a consumer reads, where there are `records` then."""
    command = [*_inside(inside), sys.executable, "-c", EXCHANGE, f"{host}:{PORT}", str(records)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout)


def main() -> None:
    brokers = int(sys.argv[1])
    ports = range(PORT, PORT + brokers)
    with ExitStack() as stack:
        ip("link", "set", "lo", "up")
        ip("link", "add", "bridge0", "type", "bridge")
        ip("addr", "add", f"{NETWORK}.1/24", "dev", "bridge0")
        ip("link", "set", "bridge0", "up")
        ours, beside = container(2, stack), container(3, stack)
        broker = stack.enter_context(
            subprocess.Popen(
                [*_inside(ours), sys.executable, "-c", SERVE],
                env={
                    **os.environ,
                    "KMINI_BROKERS": str(brokers),
                    "KAFKA_CREATE_TOPICS": f"orders:3:{brokers}",
                    "KAFKA_MIN_INSYNC_REPLICAS": str(min(brokers, 2)),
                },
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(broker.terminate)
        assert broker.stdout is not None
        for port in ports:
            assert broker.stdout.readline() == f"127.0.0.1:{port}\n"
            publish(port, (f"{NETWORK}.2", port))
        answers = {
            "the host, through the published port": told("127.0.0.1", ports),
            "a container beside it": told(f"{NETWORK}.2", ports, beside),
            "a program in the container": told("127.0.0.1", ports, ours),
        }
        read = [exchanged("127.0.0.1", 3), exchanged(f"{NETWORK}.2", 6, beside), exchanged("127.0.0.1", 9, ours)]
        print(json.dumps({"told": answers, "read": read}))


if __name__ == "__main__":
    main()
