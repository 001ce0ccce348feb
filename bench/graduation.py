"""How long `kmini graduate` takes, beside `cp -r` of the same directory in the same minute; prints one line of JSON.

Two data directories are made: of 1 KB records in segments of 64 MiB, and of records each second of which is a flagged
tombstone with a value, so that all of it has to be written anew. In each round the first is copied by `cp -r` with
`sync` behind it, graduated, and graduated with --link; then the second is graduated. Graduate ends with its
files on the disk, so `sync` counts for `cp`; the start of Python counts for graduate. A rate is MiB (2^20
bytes) of batches a second, of the median round; memory is the largest that the process had.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kmini import Broker
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.log_dir_files import read_meta_properties
from kmini.storage.log_manager import LogManager
from kmini.storage.validation import validate

MIB = 2**20
BATCH_RECORDS = 1_000
VALUE_BYTES = 1_000
SEGMENT_BYTES = 64 * MIB
FLAGGED_CODEC = Codec.LZ4


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make(data_dir: Path, topics: dict[str, tuple[int, int, bool]]) -> int:
    """A data directory, closed in order; bytes of batches in it. Each topic: partitions, bytes, and whether its records
    are flagged tombstones (each second one)."""
    settings = {"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true"}
    with Broker(data_dir=data_dir) as broker:
        for name, (partitions, _, is_flagged) in topics.items():
            broker.create_topic(name, partitions=partitions, config=settings if is_flagged else {})
    directory = str(data_dir / "broker-1")
    filesystem = OsFileSystem()
    meta = read_meta_properties(filesystem, directory)
    assert meta is not None
    configs = {
        name: LogConfig(segment_bytes=SEGMENT_BYTES, kmini_tombstone_flag_enable=is_flagged)
        for name, (_, _, is_flagged) in topics.items()
    }
    manager = LogManager.open(
        filesystem,
        directory,
        node_id=meta.node_id,
        cluster_id=meta.cluster_id,
        config_of=lambda topic: configs.get(topic, LogConfig()),
        now_ms=now_ms,
    )
    chance = random.Random(1)
    text = chance.randbytes(2 * MIB).hex().encode()
    written = 0
    for (topic, _), log in manager.logs.items():
        if topic in topics:
            partitions, size, is_flagged = topics[topic]
            while log.size_bytes < size // partitions:
                batch = _batch(chance, text, is_flagged)
                log.append_as_leader(
                    validate(batch, configs[topic], now_ms=now_ms(), max_decompressed_bytes=64 * MIB),
                    leader_epoch=0,
                    now_ms=now_ms(),
                )
            written += log.size_bytes
    manager.close()
    return written


def _batch(chance: random.Random, text: bytes, is_flagged: bool) -> bytearray:
    records = []
    for number in range(BATCH_RECORDS):
        start = chance.randrange(len(text) - VALUE_BYTES)
        headers = (("kmini.tombstone", b""),) if is_flagged and number % 2 else ()
        key = b"%012d" % chance.randrange(10**12)
        records.append(Record(0, now_ms(), key, text[start : start + VALUE_BYTES], headers))
    return build_batch(records, codec=FLAGGED_CODEC if is_flagged else Codec.NONE)


def timed(command: list[str], out: Path) -> tuple[float, int]:
    """Seconds, and the largest resident size in bytes, of a command that makes `out`, which is removed."""
    os.sync()
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} has failed")
    seconds = time.perf_counter() - began
    shutil.rmtree(out)
    return seconds, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1_536, help="of ordinary records")
    parser.add_argument("--flagged-mib", type=int, default=128, help="of flagged tombstones, as they are stored")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kmini-bench-") as directory:
        place = Path(directory)
        out = place / "out"
        plain, flagged = place / "plain", place / "flagged"
        size = make(plain, {"orders": (options.partitions, options.mib * MIB, False)})
        flagged_size = make(flagged, {"profiles": (2, options.flagged_mib * MIB, True)})
        graduate = [sys.executable, "-m", "kmini", "graduate", "--format", "json"]
        commands: dict[str, Callable[[], tuple[float, int]]] = {
            "cp": lambda: timed(["sh", "-c", f"cp -r {plain} {out} && sync"], out),
            "graduate": lambda: timed([*graduate, str(plain), str(out)], out),
            "link": lambda: timed([*graduate, "--link", str(plain), str(out)], out),
            "flagged": lambda: timed([*graduate, str(flagged), str(out)], out),
        }
        found: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                found[name].append(command())
                print(f"{name}: {found[name][-1][0]:.2f} s", file=sys.stderr)
    seconds = {name: statistics.median(each for each, _ in its) for name, its in found.items()}
    memory = {name: max(each for _, each in its) / MIB for name, its in found.items()}
    ratio = statistics.median(
        copied / graduated for (copied, _), (graduated, _) in zip(found["cp"], found["graduate"], strict=True)
    )
    print(
        json.dumps(
            {
                "mib": round(size / MIB),
                "cp_and_sync_mib_s": round(size / MIB / seconds["cp"]),
                "graduate_mib_s": round(size / MIB / seconds["graduate"]),
                "graduate_to_cp": round(ratio, 2),
                "link_s": round(seconds["link"], 2),
                "flagged_mib": round(flagged_size / MIB),
                "flagged_mib_s": round(flagged_size / MIB / seconds["flagged"]),
                "memory_mib": {name: round(most) for name, most in memory.items() if name != "cp"},
            }
        )
    )


if __name__ == "__main__":
    main()
