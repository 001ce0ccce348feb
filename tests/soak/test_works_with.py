"""Frameworks that other people wrote, in the smallest program of each: it reads `orders` and writes `invoices`.

A program is fetched for its test alone, in the version that stands here; it is skipped where that fails. What they do
is in docs/works-with.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kmini import Broker
from support import apache_kafka
from support.until import until

pytestmark = pytest.mark.soak

PROGRAMS = Path(__file__).resolve().parent.parent / "support" / "works_with"
LONGEST_SESSION = "60s"
"""Until a member that died is taken out of its group: faust-streaming asks for the most."""
WAIT_S = 60.0
FETCH_S = 600.0
OWN_KAFKA_DELAY = {"group.initial.rebalance.delay.ms": 3_000}
"""Kafka's default; kmini's is 0."""


class Program(NamedTuple):
    name: str
    requirements: Sequence[str] = ()
    """Packages of Python or Node. A program in Go has them in its go.mod, one in Rust in its Cargo.toml, one in Java in
    its pom.xml."""
    group: str | None = "billing"
    """None: it keeps its offsets itself."""
    sends: bool = False
    """It writes the records of `orders` itself, in a format of its own, when it is called with `send`."""
    config: dict[str, int] = {}  # noqa: RUF012 - it is never changed
    """Of the broker."""
    exactly_once: bool = False
    """Each order has one invoice, whenever the program is killed."""


PYTHON = [
    Program("faststream_app", ["faststream[kafka]==0.7.8", "aiokafka==0.14.0"]),
    Program("faststream_confluent_app", ["faststream[confluent]==0.7.8", "confluent-kafka==2.16.1"]),
    Program("quixstreams_app", ["quixstreams==3.28.1", "confluent-kafka==2.12.2"]),
    Program("faust_app", ["faust-streaming==0.15.3", "aiokafka==0.14.0"]),
    Program(
        "celery_app",
        ["celery==5.7.0", "kombu[confluentkafka]==5.7.0", "confluent-kafka==2.15.1"],
        group="orders-consumer-group",
        sends=True,
    ),
    # It throws away what its first poll of a second returns, which is nothing while a group waits for its members.
    Program("streamz_app", ["streamz==0.6.6", "confluent-kafka==2.16.1"], config=OWN_KAFKA_DELAY),
    Program("bytewax_app", ["bytewax[kafka]==0.21.1", "confluent-kafka==2.16.1"], group=None),
]
GO = [Program("sarama_app"), Program("watermill_app"), Program("goka_app")]
KAFKA_NODE = Program("kafka_node_app", ["kafka-node@5.0.0"])
NESTJS = ["@nestjs/common@12.5.1", "@nestjs/core@12.5.1", "@nestjs/microservices@12.1.1"]
NODE = [
    Program("kafkajs_app", ["kafkajs@2.2.4"]),
    Program(
        "nestjs_app",
        [*NESTJS, "kafkajs@2.2.4", "reflect-metadata@0.2.2", "rxjs@7.8.2"],
        group="billing-server",
    ),
    KAFKA_NODE,
]
JAVA = [
    Program("spring_boot_3_app"),
    Program("spring_boot_4_app"),
    Program("spring_cloud_stream_app"),
    Program("flink_app", exactly_once=True),
]
RUST = [Program("rskafka_app", group=None)]


@pytest.mark.parametrize("program", PYTHON, ids=lambda program: program.name)
def test_a_killed_program_in_python_goes_on(program: Program, folder: Path) -> None:
    fetched([sys.executable, "-m", "venv", str(folder / "venv")])
    python = str(folder / "venv" / "bin" / "python")
    fetched([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *program.requirements])
    handles_each_order_and_goes_on(program, [python, "-I", str(PROGRAMS / f"{program.name}.py")], folder)


@pytest.mark.parametrize("program", GO, ids=lambda program: program.name)
def test_a_killed_program_in_go_goes_on(program: Program, folder: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("no go on the path")
    source, binary = PROGRAMS / program.name, str(folder / program.name)
    fetched(["go", "mod", "download"], source)
    subprocess.run(["go", "build", "-o", binary, "."], cwd=source, check=True, timeout=FETCH_S)
    handles_each_order_and_goes_on(program, [binary], folder)


@pytest.mark.parametrize("program", NODE, ids=lambda program: program.name)
def test_a_killed_program_in_node_goes_on(program: Program, folder: Path) -> None:
    handles_each_order_and_goes_on(program, in_node(program, folder), folder)


def test_kafka_node_asks_for_versions_that_apache_kafka_4_does_not_serve(folder: Path) -> None:
    command = in_node(KAFKA_NODE, folder)
    with Broker(topics=["orders", "invoices"], as_version="3.9") as broker:
        broker.topic("orders").produce(b"a")
        with starter(command, folder, {**os.environ, "BOOTSTRAP_SERVERS": broker.bootstrap_servers})():
            until(broker.topic("invoices").records, lambda: f"{broker.report()}\n{log_of(folder)}")
    with Broker(topics=["orders", "invoices"], as_version="4.0") as broker:
        start = starter(command, folder, {**os.environ, "BOOTSTRAP_SERVERS": broker.bootstrap_servers})
        with start() as process:
            assert process.wait(WAIT_S) != 0
        assert "Unable to find available brokers" in log_of(folder)


def in_node(program: Program, folder: Path) -> list[str]:
    """The command of a program in Node, which is fetched."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node or no npm on the path")
    fetched(["npm", "install", "--silent", "--no-audit", "--no-fund", *program.requirements], folder)
    shutil.copy(PROGRAMS / f"{program.name}.js", folder)  # beside its packages
    return ["node", f"{program.name}.js"]


@pytest.mark.parametrize("program", RUST, ids=lambda program: program.name)
def test_a_killed_program_in_rust_goes_on(program: Program, folder: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("no cargo on the path")
    source = shutil.copytree(PROGRAMS / program.name, folder / "source")
    fetched(["cargo", "fetch", "--quiet"], source)
    subprocess.run(["cargo", "build", "--quiet", "--offline"], cwd=source, check=True, timeout=FETCH_S)
    handles_each_order_and_goes_on(program, [str(source / "target" / "debug" / program.name)], folder)


@pytest.mark.parametrize("program", JAVA, ids=lambda program: program.name)
def test_a_killed_program_in_java_goes_on(program: Program, folder: Path) -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("no java or no mvn on the path")
    source, jars, classes = PROGRAMS / program.name, folder / "jars", folder / "classes"
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    fetched([*copy, "-f", str(source / "pom.xml")])
    compiled = ["javac", "-parameters", "-cp", f"{jars}/*", "-d", str(classes), str(source / "Billing.java")]
    subprocess.run(compiled, check=True, timeout=FETCH_S)
    handles_each_order_and_goes_on(program, ["java", "-cp", f"{classes}:{jars}/*", "billing.Billing"], folder)


def test_a_killed_program_of_quarkus_goes_on(folder: Path) -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("no java or no mvn on the path")
    source = shutil.copytree(PROGRAMS / "quarkus_app", folder / "source")
    fetched(["mvn", "-q", "-B", "package"], source)  # its plugin fetches while it builds
    jar = source / "target" / "quarkus-app" / "quarkus-run.jar"
    handles_each_order_and_goes_on(Program("quarkus_app"), ["java", "-jar", str(jar)], folder)


def test_a_killed_program_of_kafka_streams_goes_on_with_its_table(folder: Path) -> None:
    if (why := apache_kafka.why_unavailable()) is not None:
        pytest.skip(why)
    command = [*apache_kafka.java_command(), str(PROGRAMS / "streams_app" / "Billing.java")]
    handles_each_order_and_goes_on(Program("streams_app", exactly_once=True), command, folder)


def test_a_killed_worker_of_connect_goes_on_and_its_source_writes_each_line_once(folder: Path) -> None:
    settings, read, written = folder / "worker.properties", folder / "orders.txt", folder / "invoices.txt"
    main = [*connect(folder), "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
    address = f"http://127.0.0.1:{apache_kafka.free_port()}"
    source = {"connector.class": "FileStreamSource", "file": str(read), "topic": "orders"}
    sink = {"connector.class": "FileStreamSink", "file": str(written), "topics": "orders"}

    def configured(name: str, config: dict[str, str]) -> bool:
        """Whether the worker took the connector: it refuses while it starts."""
        body, headers = json.dumps(config).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/connectors/{name}/config", body, headers, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S):
                return True
        except OSError:
            return False

    def order(names: str) -> None:
        with read.open("a") as lines:
            lines.writelines(f"{name}\n" for name in names)

    with Broker(topics=["orders"]) as broker:
        own = f"\nbootstrap.servers={broker.bootstrap_servers}\nlisteners={address}\n"
        settings.write_text((PROGRAMS / "connect_app" / "worker.properties").read_text() + own)
        start = starter(main, folder, {**os.environ})

        def through(names: str) -> None:
            """Wait until the source has committed these lines, each once, and the sink has written them."""

            def all_there() -> bool:
                lines = written.read_text().split() if written.exists() else []
                return [record.text() for record in broker.records("orders")] == [*names] and {*names} <= {*lines}

            until(all_there, lambda: f"{names} in orders, and in invoices.txt\n{broker.report()}\n{log_of(folder)}")

        order("abc")
        with start():
            for name, config in (("source", source), ("sink", sink)):
                until(lambda name=name, config=config: configured(name, config), lambda: log_of(folder))
            through("abc")
        order("def")
        expire_members(broker)
        with start():
            through("abcdef")
        order("g")
        expire_members(broker)
        with start():
            through("abcdefg")


def test_a_killed_mirror_maker_goes_on_writes_each_record_once_and_takes_offsets_over(folder: Path) -> None:
    settings = folder / "mirror.properties"
    main = [*connect(folder), "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with Broker(topics=["orders"]) as home, Broker() as away:
        own = f"\nhome.bootstrap.servers={home.bootstrap_servers}\naway.bootstrap.servers={away.bootstrap_servers}\n"
        settings.write_text((PROGRAMS / "connect_app" / "mirror.properties").read_text() + own)
        start = starter(main, folder, {**os.environ})

        def order(names: str) -> None:
            for name in names:
                home.topic("orders").produce(name.encode())

        def mirrored(names: str) -> None:
            def all_there() -> bool:
                return "home.orders" in away.topics() and [r.text() for r in away.records("home.orders")] == [*names]

            until(all_there, lambda: f"{names} in home.orders\n{away.report()}\n{log_of(folder)}")

        order("abc")
        home.group("billing").commit({("orders", 0): 3})
        with start():
            mirrored("abc")
            until(lambda: "billing" in away.groups() and ("home.orders", 0) in away.group("billing").offsets())
        order("def")
        expire_members(away)
        with start():
            mirrored("abcdef")
        order("g")
        expire_members(away)
        with start():
            mirrored("abcdefg")


def connect(folder: Path) -> list[str]:
    """The start of a command line of Java that has Connect, the connectors of files and MirrorMaker 2."""
    if (why := apache_kafka.why_unavailable()) is not None or shutil.which("mvn") is None:
        pytest.skip(why or "no mvn on the path")
    jars, pom = folder / "jars", PROGRAMS / "connect_app" / "pom.xml"
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DexcludeTransitive=true", f"-DoutputDirectory={jars}"]
    fetched([*copy, "-f", str(pom)])
    return apache_kafka.java_command(beside=jars)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not outlive the test: packages are large."""
    path = tmp_path / "program"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def fetched(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_S)
    if done.returncode:
        pytest.skip(f"`{' '.join([Path(command[0]).name, *command[1:]])}` failed: {done.stderr.strip()[-300:]}")


def handles_each_order_and_goes_on(program: Program, command: list[str], folder: Path) -> None:
    """A program is killed when it has handled three orders, and again when it has committed the next three.

    The first time its group may have no offsets yet: no order is lost. The second time it goes on behind them; one that
    keeps its offsets itself may begin again.
    """
    with Broker(topics=["orders", "invoices"], config=program.config) as broker:
        invoices = broker.topic("invoices")
        start = starter(command, folder, {**os.environ, "BOOTSTRAP_SERVERS": broker.bootstrap_servers})

        def order(*names: str) -> None:
            if program.sends:
                with start("send", *names) as process:
                    assert process.wait(WAIT_S) == 0, log_of(folder)
            else:
                for name in names:
                    broker.topic("orders").produce(name.encode())

        def invoiced(*names: str, since: int = 0) -> list[str]:
            """The invoices behind the first `since`, once those for all these names are there."""

            def all_there() -> list[str] | None:
                texts = [record.text() for record in invoices.records()][since:]
                return texts if {*names} <= {*texts} else None

            return until(all_there, lambda: f"{names} in invoices\n{broker.report()}\n{log_of(folder)}") or []

        order("a", "b", "c")
        with start():
            invoiced("A", "B", "C")
        order("d", "e", "f")
        expire_members(broker)
        with start():
            invoiced("A", "B", "C", "D", "E", "F")
            if program.group is not None:
                broker.group(program.group).caught_up("orders", timeout_ms=int(WAIT_S * 1000))
        expire_members(broker)
        handled = len(invoices.records())
        order("g")
        with start():
            again = invoiced("G", since=handled)
            assert again == ["G"] or program.group is None
        if program.exactly_once:
            assert [record.text() for record in invoices.records()] == ["A", "B", "C", "D", "E", "F", "G"]


def expire_members(broker: Broker) -> None:
    broker.clock.advance(LONGEST_SESSION, liveness=True)
    for group in broker.groups():
        broker.group(group).stable(members=0)


def starter(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]:
    """What starts the program with these arguments, and kills it and its processes (`kill -9`) in the end."""

    @contextmanager
    def start(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(WAIT_S)

    return start


def log_of(folder: Path) -> str:
    return (folder / "log").read_text(encoding="utf-8", errors="replace")[-3_000:]
