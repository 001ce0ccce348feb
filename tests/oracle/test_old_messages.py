"""Messages of magic 0 and 1: Apache Kafka's own classes read what we write, and we read what they write."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kmini.protocol.errors import KafkaError, UnknownServerError
from kmini.protocol.records.batch import build_batch, is_crc_valid, iter_batches
from kmini.protocol.records.batch_records import decode_all, decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.down_conversion import down_convert
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.background_work import Deletions
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.old_formats.message_set_validation import validate_messages
from kmini.storage.recovery import load_log
from support import apache_kafka, message_sets

CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4}
CREATE_TIME, APPEND_TIME, NO_TIME = "CreateTime", "LogAppendTime", "NoTimestampType"
APPENDED_MS = 77

RECORDS = [
    Record(
        100 + 2 * i,
        1000 + i % 10,
        None if i % 3 == 0 else b"k%d" % i,
        None if i % 7 == 0 else b"value %d" % i,
    )
    for i in range(1000)
]
"""As ExchangeOldMessages.java writes them."""


class Format(NamedTuple):
    magic: int
    codec: str
    time: str

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @property
    def append_time(self) -> int | None:
        return APPENDED_MS if self.time == APPEND_TIME else None

    def of_records(self, records: list[Record]) -> list[Record]:
        """What of them a reader gets."""
        if not self.magic:
            return [record._replace(timestamp=-1) for record in records]
        return [record._replace(timestamp=self.append_time or record.timestamp) for record in records]


FORMATS = [
    Format(magic, codec, time)
    for magic in (0, 1)
    for codec in CODECS
    for time in (CREATE_TIME, APPEND_TIME)[: 1 + magic]
]


def written(form: Format, records: list[Record]) -> bytes:
    if form.codec == "none":
        return bytes(build_messages(records, form.magic, log_append_time_ms=form.append_time))
    chunks = [records[:300], records[300:]]
    return build_wrapper(chunks, form.magic, CODECS[form.codec], log_append_time_ms=form.append_time)


def converted(form: Format, records: list[Record]) -> bytes:
    batch = build_batch(records, base_offset=100, codec=CODECS[form.codec], log_append_time_ms=form.append_time)
    return down_convert(batch, form.magic, 100, limit=1 << 20).records


def lines_of(name: str, form: Format, records: list[Record]) -> Iterator[str]:
    """What Kafka's classes say of a set that is as it should be."""
    for offset, timestamp, key, value, _ in form.of_records(records):
        last = offset if form.codec == "none" else records[-1].offset
        fields = ["null" if field is None else f"'{field.decode()}'" for field in (key, value)]
        time = form.time if form.magic else NO_TIME
        yield " ".join([name, str(form.magic), form.codec, time, str(last), str(offset), str(timestamp), *fields])


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_kafkas_classes_and_ours_read_each_other(tmp_path: Path) -> None:
    expected = []
    for form in FORMATS:
        for name, data in (
            (f"{form}-built.ours", written(form, RECORDS)),
            (f"{form}-converted.ours", converted(form, RECORDS)),
            (f"{form}-first.ours", written(form, [RECORDS[0]._replace(offset=0)])),
        ):
            (tmp_path / name).write_bytes(data)
            records = [RECORDS[0]._replace(offset=0)] if "first" in name else RECORDS
            expected.append((name, [*lines_of(name, form, records)]))
    source = Path(__file__).with_name("ExchangeOldMessages.java")
    command = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(source), str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == [line for _, lines in sorted(expected) for line in lines]

    for form in FORMATS:
        theirs = (tmp_path / f"{form}.theirs").read_bytes()
        assert all(is_crc_valid(theirs, position, header) for position, header in iter_batches(theirs)), form
        assert decode_all(theirs) == form.of_records(RECORDS), form
        if form.codec == "none":
            assert theirs == written(form, RECORDS)
        if form.codec == "lz4":  # with the right checksum of the frame's header, or the wrong one
            at = theirs.index(b"\x04\x22\x4d\x18")
            ours = written(form, RECORDS)
            assert theirs[at + 4 : at + 7] == ours[at + 4 : at + 7], form


def old_log(first: int = 0) -> bytes:
    """Sets of every format, and batches, one after the other."""
    data = b""
    for number, form in enumerate(FORMATS * 3):
        records = [
            Record(first + 10 * number + n, 1_700_000_000_000 + 10 * number + n, b"k", b"v%d" % n) for n in range(10)
        ]
        data += written(form, records)
    return data + bytes(build_batch([Record(0, 1_700_000_000_999, None, b"new")], base_offset=first + 10 * number + 10))


def test_kafkas_dump_finds_our_recovery_of_an_old_log_sound(tmp_path: Path, dump: Callable[..., list[str]]) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(old_log())
    filesystem = OsFileSystem()
    environment = LogEnvironment(filesystem, [], Deletions(filesystem), lambda: 1_700_000_001_000)
    config = LogConfig(index_interval_bytes=400)
    recovered = load_log(environment, str(tmp_path), TopicPartition("old", 0), config, is_clean=False)
    assert recovered.log_end_offset == 10 * len(FORMATS) * 3 + 1
    recovered.close()
    assert log.read_bytes() == old_log()
    lines = dump(log, "--deep-iteration")
    assert [int(line.split()[2]) for line in lines if line.startswith("| offset:")] == [*range(361)]
    entries = dump(log.with_suffix(".index"))
    assert sum(line.startswith("offset:") for line in entries) > 10
    dump(log.with_suffix(".index"), "--verify-index-only")
    assert sum(line.startswith("timestamp:") for line in dump(log.with_suffix(".timeindex"))) > 5


NOW_MS = 1_700_000_000_000
CONFIGS = {
    "plain": LogConfig(),
    "compacted": LogConfig.parse({"cleanup.policy": "compact"}),
    "stamped": LogConfig.parse({"message.timestamp.type": "LogAppendTime"}),
    "strict": LogConfig.parse({"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}),
    "lz4": LogConfig.parse({"compression.type": "lz4"}),
}
"""By the names that ValidateOldMessages.java has for them."""
FIRST_OFFSET = 5_000


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_kafkas_validator_makes_the_same_batches_and_finds_the_same_errors(tmp_path: Path) -> None:
    sets = [*message_sets.sets_that_producers_send(random.Random("sets"), NOW_MS)]
    for number, data in enumerate(sets):
        for kind in CONFIGS:
            (tmp_path / f"{number}-{kind}.set").write_bytes(data)
    source = Path(__file__).with_name("ValidateOldMessages.java")
    command = [*apache_kafka.java_command("-XX:TieredStopAtLevel=1"), str(source), str(tmp_path), str(NOW_MS)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    theirs = dict(line.split() for line in finished.stdout.splitlines())
    assert len(theirs) == len(sets) * len(CONFIGS)
    differences, accepted = [], 0
    for number, data in enumerate(sets):
        for kind, config in CONFIGS.items():
            name = f"{number}-{kind}"
            try:
                ours: object = comparable(bytes(validate_messages(data, config, NOW_MS).records), 0)
                accepted += 1
            except KafkaError as error:
                ours = error.code
            other: object = int(theirs[name])
            if other == 0:
                other = comparable((tmp_path / f"{name}.batch").read_bytes(), FIRST_OFFSET)
            if ours != other and not (other == UnknownServerError.code and isinstance(ours, int)):
                differences.append((name, kind, data[:40].hex(), ours, other))
    assert not differences, "\n".join(map(str, [len(differences), *differences[:10]]))
    assert accepted > 300


def comparable(batch: bytes, first_offset: int) -> tuple[object, ...]:
    """What of a batch depends neither on the server that assigned its offset nor on the library that compressed it."""
    if not batch:
        return ()
    ((_, header),) = iter_batches(batch)
    records = [record._replace(offset=record.offset - first_offset) for record in decode_records(batch, 0, header)]
    named = header._replace(base_offset=0, batch_length=0, partition_leader_epoch=0, crc=0)
    return named, batch[61:] if header.codec == Codec.NONE else b"", records
