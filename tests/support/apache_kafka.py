"""Run one Apache Kafka broker (KRaft) in the foreground, with the contract of `kmini serve`.

The first line on stdout is the address; the process then becomes Kafka's JVM, so that signals sent to it reach Kafka.
The same data directory may be started again, on the same or another port.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CLUSTER_ID = "a21pbmktdGVzdHMtb25lIQ"

ADOPTED_EPOCH = 1000
"""The leader epoch of adopted partitions: above any that a test's broker reached."""

FIRST_OWN_PRODUCER_ID = 1_000_000
"""Above every producer id in the adopted logs."""

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={log_directory}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.num.partitions=8
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=10000
broker.heartbeat.interval.ms=200
"""


def jars() -> Path:
    """The folder that holds Kafka's jars, whether or not they are there yet."""
    return Path(os.environ.get("KMINI_KAFKA_JARS") or REPOSITORY / ".peers" / "kafka" / "lib")


def give_logs_to_kmini(log_directory: Path, data_dir: Path) -> None:
    """Copy the logs of an Apache Kafka that was stopped to where `kmini serve --data-dir` takes them up."""
    foreign = shutil.ignore_patterns("bootstrap.checkpoint", "__cluster_metadata-0", "*.lock")
    shutil.copytree(log_directory, data_dir / "broker-1", ignore=foreign)


def why_unavailable() -> str | None:
    """Return why Apache Kafka cannot run here, or None when it can."""
    if shutil.which("java") is None:
        return "no java on the path"
    if not any(jars().glob("kafka-clients-*.jar")):
        return f"Kafka's jars are not in {jars()} (make kafka-jars fetches them)"
    return None


def java_command(*options: str, beside: Path | None = None) -> list[str]:
    """The start of every Java command line of ours: quick to start, quiet, with Kafka on the class path, and with the
    jars of the folder `beside`."""
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    path = ":".join(f"{folder}/*" for folder in (jars(), beside) if folder)
    return ["java", "-Djava.awt.headless=true", "-XX:+UseSerialGC", *options, logging, "-cp", path]


def free_port() -> int:
    """A port without a listener. Not one of those that the system gives to connections that go out: one of these
    would have it before Java has started."""
    while True:
        port = 15_000 + secrets.randbelow(15_000)  # `random` may be seeded, alike in all workers
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def write_properties(data_dir: Path, port: int, overrides: list[str]) -> Path:
    path = data_dir / "server.properties"
    text = PROPERTIES.format(port=port, controller_port=free_port(), log_directory=data_dir / "log")
    path.write_text(text + "".join(f"{override}\n" for override in overrides), encoding="utf-8")
    return path


def format_storage(properties: Path) -> None:
    """Write meta.properties, once for each data directory; a directory that already holds logs is adopted."""
    command = java_command("-XX:TieredStopAtLevel=1", "-Xmx128m")
    command += ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    run(command)


def adopt_logs(log_directory: Path) -> None:
    """Make partition folders that another broker wrote known to this one, before its first start."""
    arguments = [str(HERE / "AdoptLogs.java"), str(log_directory), str(ADOPTED_EPOCH), str(FIRST_OWN_PRODUCER_ID)]
    run([*java_command("-XX:TieredStopAtLevel=1"), *arguments])


def run(command: list[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(f"{command[-4:]} failed: {finished.stdout}{finished.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("-c", dest="overrides", metavar="key=value", action="append", default=[])
    parser.add_argument("--adopt", action="store_true", help="take over the partition folders in DATA_DIR/log")
    parser.add_argument("--fast", action="store_true", help="settings for benchmarks: 1 GiB heap, G1, all compilers")
    options = parser.parse_args()
    if reason := why_unavailable():
        sys.exit(f"cannot run Apache Kafka: {reason}")
    options.data_dir.mkdir(parents=True, exist_ok=True)
    port = options.port or free_port()
    properties = write_properties(options.data_dir.resolve(), port, options.overrides)
    if not (options.data_dir / "log" / "meta.properties").exists():
        format_storage(properties)
        if options.adopt:
            adopt_logs(options.data_dir.resolve() / "log")
    print(f"127.0.0.1:{port}", flush=True)
    if options.fast:
        command = java_command("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
        command.remove("-XX:+UseSerialGC")
    else:
        command = java_command("-Xmx384m", "-XX:TieredStopAtLevel=1")
    os.execvp("java", [*command, "kafka.Kafka", str(properties)])


if __name__ == "__main__":
    main()
