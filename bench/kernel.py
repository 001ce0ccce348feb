"""How fast records are checked, decoded and built: compiled, interpreted, and beside the checksum of the same bytes.

    python bench/kernel.py [records]

The checksum is the floor: a broker computes it for every batch, and no check of the records can be had for less.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from kmini.protocol.records import load_kernel, record
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.crc import crc32c
from kmini.protocol.records.record import Record, check_records, decode_records

ROUNDS = 7


def best_of(work: Callable[[], object]) -> float:
    """Seconds of the quickest round: the others had to share the machine."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main(count: int) -> None:
    print(f"{'':<22}{'ns/record':>12}{'M records/s':>14}{'MB/s':>10}{'x checksum':>12}")
    for value_bytes in (100, 1000):
        records = [Record(0, 1_700_000_000_000 + n // 50, None, bytes(value_bytes)) for n in range(count)]
        batch = build_batch(records)
        header = read_header(batch)
        print(f"{value_bytes} bytes a record")
        floor = best_of(lambda batch=batch: crc32c(batch))  # type: ignore[misc]
        show("checksum", floor, floor, count, len(batch))
        show("build_batch", best_of(lambda records=records: build_batch(records)), floor, count, len(batch))  # type: ignore[misc]
        for interpreted in (False, True):
            module = load_kernel.load(interpreted=interpreted)
            if not interpreted and module.__file__.endswith(".py"):
                print("  (the kernel is not compiled here)")
                continue
            vars(record).update(RecordWalker=module.RecordWalker, RecordReader=module.RecordReader)
            form = "interpreted" if interpreted else "compiled"
            for name, work in (("check", check_records), ("decode", decode_records)):
                taken = best_of(lambda work=work, batch=batch, header=header: work(batch, 0, header))  # type: ignore[misc]
                show(f"{name}, {form}", taken, floor, count, len(batch))


def show(name: str, seconds: float, floor: float, count: int, size: int) -> None:
    rate = count / seconds / 1e6
    print(
        f"  {name:<20}{seconds / count * 1e9:>12.1f}{rate:>14.2f}{size / seconds / 1e6:>10.0f}{seconds / floor:>12.1f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
