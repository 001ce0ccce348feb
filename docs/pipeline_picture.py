"""The picture on docs/pipelines.md, drawn from a real run: `python docs/pipeline_picture.py` writes it (two minutes).

Records keep coming, one stage copies them to a topic between two stages, another one reads them from there. Meanwhile
the size of that topic's folders is looked at: with purges, and, in a run of its own, without. The figures depend on the
machine; that one line stays where it is and the other one does not is what a test looks for.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from kmini.pipeline import Files, Kafka, Pipeline, Stage, Topic
from kmini.pipeline.admin import Admin
from kmini.pipeline.session import spark_session
from support.server_process import ServerProcess, kmini_command

PICTURES = Path(__file__).resolve().parent / "pictures"
FILE, DATA = PICTURES / "pipeline.svg", PICTURES / "pipeline.json"
SECONDS, PER_SECOND, VALUE_BYTES, PARTITIONS = 45, 4000, 500, 2
BROKER = {"log.retention.check.interval.ms": "1000"}
BETWEEN = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "1000"}


class Sample(NamedTuple):
    """The topic between the stages, at one moment."""

    second: float
    written_mib: float
    """Bytes written to it since the start, computed from its end offsets and the size of a record."""
    on_disk_mib: float


def same(frame: Any) -> Any:
    return frame.select("key", "value")


@contextmanager
def records(servers: str) -> Iterator[None]:
    from confluent_kafka import Producer

    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": "2"})
        while not stop.wait(0.05):
            for number in range(PER_SECOND // 20):
                producer.produce("raw", b"v" * VALUE_BYTES, partition=number % PARTITIONS)
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def size_of(data: Path, topic: str) -> int:
    """Bytes of a topic's files, those included that wait for their deletion."""
    total = 0
    for path in data.glob(f"broker-1/{topic}-*/*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def run(spark: Any, *, is_purged: bool) -> list[Sample]:
    """The size on disk, once a second."""
    from confluent_kafka import Consumer, TopicPartition

    samples = []
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        server = ServerProcess(kmini_command(Path(folder) / "data", BROKER), Path(folder) / "log")
        try:
            kafka = Kafka(server.bootstrap_servers)
            Admin(kafka).create("raw", PARTITIONS)
            pipeline = Pipeline(
                "picture",
                [
                    Stage("copy", same, reads="raw", writes="between"),
                    Stage("keep", same, reads="between", writes=Files("kept")),
                ],
                [Topic("between", PARTITIONS, BETWEEN, purge=is_purged)],
                kafka=kafka,
                directory=folder,
            )
            look = Consumer({"bootstrap.servers": kafka.servers, "group.id": "looks", "log_level": "2"})
            with pipeline.start(spark=spark), records(kafka.servers):  # stages end when they have no more records
                began = time.monotonic()
                while (second := time.monotonic() - began) < SECONDS:
                    ends = [look.get_watermark_offsets(TopicPartition("between", n), timeout=30)[1] for n in range(2)]
                    written = sum(ends) * (VALUE_BYTES + 8)
                    samples.append(Sample(second, written / 2**20, size_of(Path(folder) / "data", "between") / 2**20))
                    time.sleep(1.0)
            look.close()
            if not samples[-1].written_mib:
                raise RuntimeError("nothing came through: is the machine busy?")
        finally:
            server.kill()
    return samples


def draw(runs: dict[str, list[Sample]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "kmini"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2))
    for name, color in (("not purged", "#c05621"), ("purged", "#2f855a")):
        samples = runs[name]
        axes.plot([one.second for one in samples], [one.on_disk_mib for one in samples], color=color, label=name)
    written = runs["purged"]
    axes.plot(
        [one.second for one in written],
        [one.written_mib for one in written],
        color="#9aa5b1",
        linestyle="--",
        label="written, in the run that is purged",
    )
    axes.set_xlabel("seconds")
    axes.set_ylabel("MiB")
    axes.set_title("The topic between two stages, on disk", fontsize=11)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FILE, metadata={"Date": None, "Creator": None})


def read() -> dict[str, list[Sample]]:
    """The runs that the picture shows."""
    return {name: [Sample(*one) for one in samples] for name, samples in json.loads(DATA.read_text()).items()}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    session = spark_session("picture", master="local[2]", settings={"spark.log.level": "ERROR"})
    run(session, is_purged=True)  # the first one is slow: the JVM compiles
    found = {name: run(session, is_purged=name == "purged") for name in ("not purged", "purged")}
    session.stop()
    rounded = {name: [[round(value, 2) for value in one] for one in samples] for name, samples in found.items()}
    DATA.write_text(json.dumps(rounded, indent=None) + "\n", encoding="utf-8")
    draw(read())
