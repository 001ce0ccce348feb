"""How fast records are checked, decoded and built: compiled, interpreted, and beside the checksum of the same bytes.

    python bench/kernel.py [records]

The checksum is the floor: a broker computes it for every batch, and every check of the records costs at least as much.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from kmini.protocol.records import batch, batch_records, load_kernel
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.batch_records import check_records, decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.crc import crc32c
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record

ROUNDS = 15


def best_of(work: Callable[[], object]) -> float:
    """Seconds of the quickest round: the others had to share the machine."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def use_kernel(*, interpreted: bool) -> str | None:
    """Make everything use this form of the kernel; what it is called, or None if it is not there."""
    module = load_kernel.load(interpreted=interpreted)
    if not interpreted and module.__file__.endswith(".py"):
        return None
    vars(batch_records).update(RecordWalker=module.RecordWalker, RecordReader=module.RecordReader)
    vars(batch).update(encode_records=module.encode_records)
    return "interpreted" if interpreted else "compiled"


def main(count: int) -> None:
    print(f"{'':<30}{'ns/record':>12}{'M records/s':>14}{'MB/s':>10}{'x checksum':>12}")
    for value_bytes in (100, 1000):
        print(f"{value_bytes} bytes a record")
        records = [Record(0, 1_700_000_000_000 + n // 50, None, text(n, value_bytes)) for n in range(count)]
        plain = build_batch(records)
        floor = best_of(lambda plain=plain: crc32c(plain))  # type: ignore[misc]
        show("checksum", floor, floor, count, len(plain))
        for interpreted in (False, True):
            form = use_kernel(interpreted=interpreted)
            if form is None:
                print("  (the kernel is not compiled here)")
                continue
            build = best_of(lambda records=records: build_batch(records))  # type: ignore[misc]
            show(f"build, {form}", build, floor, count, len(plain))
            for name, work in (("check", check_records), ("decode", decode_records)):
                taken = best_of(lambda work=work, plain=plain: work(plain, 0, read_header(plain)))  # type: ignore[misc]
                show(f"{name}, {form}", taken, floor, count, len(plain))
        use_kernel(interpreted=False)
        for codec in list(Codec)[1:]:
            stored = build_batch(records, codec=codec)
            taken = best_of(lambda stored=stored: check_records(stored, 0, read_header(stored)))  # type: ignore[misc]
            show(f"check, {codec.name.lower()}", taken, floor, count, len(plain))
        for interpreted in (False, True):
            measure_flags(records, floor, interpreted=interpreted)


def measure_flags(records: list[Record], floor: float, *, interpreted: bool) -> None:
    """Measure the tombstone flag (KIP-87): looking for it, and writing it where records have the header alone."""
    module = load_kernel.load("flagging", interpreted=interpreted)
    if not interpreted and module.__file__.endswith(".py"):
        return
    form = "interpreted" if interpreted else "compiled"
    plain = bytes(build_batch(records)[61:])
    named = bytes(build_batch([r._replace(headers=((TOMBSTONE_HEADER, b""),)) for r in records])[61:])
    marks = module.marks_of(named)[1]
    for name, work, block in (
        ("look for flags", lambda: module.marks_of(plain), plain),
        ("write flags", lambda: module.flagged(named, marks), named),
    ):
        show(f"{name}, {form}", best_of(work), floor, len(records), len(block))


def text(number: int, size: int) -> bytes:
    """Bytes that compress to about a third."""
    return random.Random(number).randbytes(size // 4).hex().encode().ljust(size, b".")


def show(name: str, seconds: float, floor: float, count: int, size: int) -> None:
    rate = count / seconds / 1e6
    print(
        f"  {name:<28}{seconds / count * 1e9:>12.1f}{rate:>14.2f}{size / seconds / 1e6:>10.0f}{seconds / floor:>12.1f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
