"""A log in the formats of an old Kafka, and all that reads logs here: the embedded broker, the client, the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kmini import Broker
from kmini.client import Client
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record

RECORDS = [Record(n, 1_700_000_000_000 + n, b"k%d" % n, b"v%d" % n) for n in range(12)]
LOG = "00000000000000000000.log"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("old")
    (folder,) = tmp_path.glob("broker-*/old-0")
    (folder.parent / ".kafka_cleanshutdown").unlink()
    data = bytes(build_messages(RECORDS[:3], 1)) + build_wrapper([RECORDS[3:6]], 1, Codec.LZ4)
    data += build_wrapper([RECORDS[6:9]], 1, Codec.GZIP) + build_batch(RECORDS[9:], base_offset=9)
    (folder / LOG).write_bytes(data)
    return tmp_path


def test_the_embedded_broker_reads_it(data_dir: Path) -> None:
    with Broker(data_dir=data_dir) as broker:
        assert [record[:5] for record in broker.records("old")] == RECORDS
        broker.produce("old", b"new")
        assert [record.offset for record in broker.records("old")] == [*range(13)]


async def test_the_client_reads_it_from_any_offset(data_dir: Path) -> None:
    async with Broker(data_dir=data_dir) as broker, Client(broker.bootstrap_servers) as client:
        end = await client.end([("old", 0)])
        for start in range(12):
            found = [one async for one in client.consume({("old", 0): start}, until=end)]
            assert [(one.offset, one.timestamp, one.key, one.value) for one in found] == [
                record[:4] for record in RECORDS[start:]
            ]


def test_the_program_dumps_it(data_dir: Path) -> None:
    (path,) = data_dir.glob(f"broker-*/old-0/{LOG}")
    command = [sys.executable, "-m", "kmini", "log", "dump", "--records", str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = [line.split() for line in finished.stdout.splitlines() if line.startswith("    ")]
    assert [line[0] for line in lines] == [f"offset={n}" for n in range(12)]
