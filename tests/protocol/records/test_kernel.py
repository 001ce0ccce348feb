"""The kernel's two forms agree, and a block may come in pieces."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kmini.protocol.records import batch_records, load_kernel
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.batch_records import check_records, decode_records, first_record_since
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record, RecordFacts

octets = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), octets), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 2**62), octets, octets, headers), min_size=1, max_size=20
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(records=some_records, codec=st.sampled_from(Codec))
def test_what_was_built_is_read(kernel: Any, records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    assert decode_records(batch, 0, header) == [r._replace(offset=n) for n, r in enumerate(records)]
    assert check_records(batch, 0, header) == _facts(records)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_a_block_in_chunks_tells_the_same_as_the_whole(
    kernel: Any, monkeypatch: pytest.MonkeyPatch, codec: Codec, chunk: int
) -> None:
    dice = random.Random(chunk)
    records = [Record(0, dice.randrange(10**6), b"k", dice.randbytes(dice.randrange(200))) for _ in range(50)]
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    whole = decode_records(batch, 0, header)
    decompress_chunks = batch_records.decompress_chunks

    def finer(*args: Any) -> Any:
        for piece in decompress_chunks(*args):
            yield from (piece[start : start + chunk] for start in range(0, len(piece), chunk))

    monkeypatch.setattr(batch_records, "decompress_chunks", finer)
    assert check_records(batch, 0, header) == _facts(records)
    assert decode_records(batch, 0, header) == whole


@pytest.mark.parametrize(("timestamp", "offset", "found"), [(0, 0, (30, 5)), (31, 0, (50, 7)), (10, 7, (50, 7))])
def test_the_first_record_at_or_beyond_both_is_found(kernel: Any, timestamp: int, offset: int, found: Any) -> None:
    records = [Record(5, 30, None, b""), Record(6, 10, None, b""), Record(7, 50, None, b"")]
    batch = build_batch(records, base_offset=5)
    assert first_record_since(batch, 0, read_header(batch), timestamp, offset) == found


def test_no_record_is_found_behind_the_last(kernel: Any) -> None:
    batch = build_batch([Record(0, 30, None, b"")])
    assert first_record_since(batch, 0, read_header(batch), 31, 0) is None


@pytest.mark.parametrize(("timestamp", "found"), [(700, (700, 0)), (701, None)])
def test_log_append_time_is_the_timestamp_of_every_record(kernel: Any, timestamp: int, found: Any) -> None:
    batch = build_batch([Record(0, 9000, None, b"")], log_append_time_ms=700)
    header = read_header(batch)
    assert decode_records(batch, 0, header)[0].timestamp == 700
    assert first_record_since(batch, 0, header, timestamp, 0) == found


def test_kmini_pure_chooses_the_interpreted_kernel() -> None:
    code = "from kmini.protocol.records import load_kernel as k; print(k._kernel.__file__)"
    environment = {**os.environ, "KMINI_PURE": "1"}
    chosen = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert chosen.stdout.strip().endswith("kernel.py")


KERNELS = [
    path.stem
    for path in sorted(Path(load_kernel.__file__).parent.glob("*.py"))
    if "\nimport cython\n" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", KERNELS)
def test_an_interpreted_kernel_needs_no_cython(name: str) -> None:
    """And it leaves no trace by which other packages would take Cython for installed."""
    code = f"""
import sys
sys.modules["cython"] = sys.modules["Cython"] = None
from kmini.protocol.records import load_kernel
kernel = load_kernel.load({name!r}, interpreted=True)
print(kernel.__file__, sys.modules["cython"])
"""
    environment = {**os.environ, "KMINI_PURE": "1"}
    loaded = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert loaded.stdout.split() == [str(Path(load_kernel.__file__).with_name(f"{name}.py")), "None"]


def test_every_kernel_is_compiled_by_setup_py() -> None:
    setup = (Path(load_kernel.__file__).parent.parent.parent / "setup.py").read_text(encoding="utf-8")
    assert KERNELS
    assert [name for name in KERNELS if f'"{name}"' not in setup] == []


def test_where_no_kernel_was_compiled_its_source_is_loaded_and_needs_no_cython() -> None:
    code = """
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from kmini.protocol.records import load_kernel
sys.modules["cython"] = sys.modules["Cython"] = None
sys.path_hooks[:] = [FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))]
sys.path_importer_cache.clear()
print(load_kernel.load("flagging", interpreted=False).__file__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "KMINI_PURE"}
    loaded = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (loaded.stderr, loaded.stdout.strip()) == ("", str(Path(load_kernel.__file__).with_name("flagging.py")))


def test_both_kernels_have_the_same_reasons() -> None:
    assert load_kernel.load(interpreted=True).REASONS == load_kernel.load(interpreted=False).REASONS


def _facts(records: list[Record]) -> RecordFacts:
    timestamps = [r.timestamp for r in records]
    newest = max(timestamps)
    null_keys = sum(r.key is None for r in records)
    oldest = min((timestamp for timestamp in timestamps if timestamp != -1), default=-1)
    return RecordFacts(len(records), null_keys, True, oldest, newest, timestamps.index(newest))
