"""What TLS 1.3 adds, beside the floor and Apache Kafka: to records, handshakes, memory; prints a line of JSON a peer.

kmini and Apache Kafka have a listener with TLS and one without, and two floors are one of each. All have the same key
and certificate, and the same client, librdkafka; they take turns, another one begins each round, and each figure is
the median of `--rounds`.
`_added_us` is the p50 of an acknowledged record with TLS less that without. Handshakes are those that a second of the
broker's processor time is enough for; `kib_a_connection` is memory at rest, a while after the first request.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from peers import PORT, ServerProcess, apache_kafka, kafka_command, kmini_command
from roundtrip import bulk, latencies

from kmini.client.made_certificates import Authority
from support.server_process import API_VERSIONS_V0

BENCH = Path(__file__).resolve().parent
PLAIN, TLS = "plain", "tls"
SETTLING_S = 2.0


class Peer(NamedTuple):
    """A server, or two of them, with TLS and without."""

    addresses: dict[str, str]
    process: ServerProcess
    """The one with TLS."""


def started(name: str, pem: Path, stack: ExitStack) -> Peer:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-tls-{name}-")))
    ports = {PLAIN: apache_kafka.free_port(), TLS: apache_kafka.free_port()}
    addresses = {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}
    if name == "floor":
        processes = [
            ServerProcess(
                [
                    sys.executable,
                    str(BENCH / "floor.py"),
                    str(port),
                    str(directory / kind),
                    *([str(pem)] * (kind == TLS)),
                ],
                directory / f"{kind}.log",
                port=port,
                has_tls=kind == TLS,
            )
            for kind, port in ports.items()
        ]
        for process in processes:
            stack.callback(process.kill)
        return Peer(addresses, processes[-1])
    listeners = f"PLAINTEXT://{addresses[PLAIN]},SSL://{addresses[TLS]}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
    }
    command = kmini_command(directory / "data", settings)
    if name == "kafka":
        controller = apache_kafka.free_port()
        settings |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        }
        command = kafka_command(directory / "data", settings, "--fast")
    launch = [part.replace(PORT, str(ports[PLAIN])) for part in command]
    process = ServerProcess(launch, directory / "log", port=ports[PLAIN])
    stack.callback(process.kill)
    return Peer(addresses, process)


def connected(address: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = address.rpartition(":")
    connection = context.wrap_socket(socket.create_connection((host, int(port)), 60), server_hostname="localhost")
    connection.sendall(API_VERSIONS_V0)
    connection.recv(65_536)
    return connection


def at_rest(peer: Peer, context: ssl.SSLContext, count: int) -> dict[str, float]:
    """Handshakes that a second of processor time is enough for, and the memory of a connection."""
    for _ in range(20):
        connected(peer.addresses[TLS], context).close()
    time.sleep(SETTLING_S)
    memory, cpu_s = peer.process.resident_bytes(), peer.process.processor_seconds()
    connections = [connected(peer.addresses[TLS], context) for _ in range(count)]
    cpu_s = peer.process.processor_seconds() - cpu_s
    time.sleep(SETTLING_S)
    memory = peer.process.resident_bytes() - memory
    for connection in connections:
        connection.close()
    return {"handshakes_a_cpu_s": count / cpu_s, "kib_a_connection": memory / 1024 / count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count, after one that does not")
    parser.add_argument("--single", type=int, default=3_000, help="records sent one by one")
    parser.add_argument("--bulk", type=int, default=200_000, help="records of 1 KB")
    parser.add_argument("--connections", type=int, default=500)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-tls-")))
        authority = Authority()
        trusted, pem = folder / "authority.pem", folder / "server.pem"
        trusted.write_text(authority.pem)
        signed = authority.sign("bench", ["localhost", "127.0.0.1"])
        pem.write_text(signed.key + signed.certificate)
        context = ssl.create_default_context(cafile=trusted)
        settings = {PLAIN: {}, TLS: {"security.protocol": "SSL", "ssl.ca.location": str(trusted)}}
        names = ["kmini", "floor"] if apache_kafka.why_unavailable() else ["kmini", "floor", "kafka"]
        peers = {name: started(name, pem, stack) for name in names}
        measured: dict[str, dict[str, list[float]]] = {name: {} for name in peers}
        for number in range(options.rounds + 1):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                time.sleep(SETTLING_S)  # the one before is at rest then, and has written its files
                peer = peers[name]
                found: dict[str, float] = {}
                for kind, address in peer.addresses.items():
                    run = f"{kind}-{time.time_ns()}"
                    found[f"{kind}_ack_p50_us"] = latencies(address, f"single-{run}", options.single, **settings[kind])[
                        "ack_p50_us"
                    ]
                    for key, value in bulk(address, f"bulk-{run}", 1000, options.bulk, **settings[kind]).items():
                        found[f"{kind}_{key}"] = value
                found["ack_added_us"] = found["tls_ack_p50_us"] - found["plain_ack_p50_us"]
                print(f"round {number} {name}: {json.dumps(found)}", file=sys.stderr, flush=True)
                if number:
                    for key, value in found.items():
                        measured[name].setdefault(key, []).append(value)
        for name, peer in peers.items():
            figures = {key: statistics.median(values) for key, values in measured[name].items()}
            figures |= at_rest(peer, context, options.connections)
            print(json.dumps({"peer": name, **{key: round(value, 2) for key, value in figures.items()}}))


if __name__ == "__main__":
    main()
