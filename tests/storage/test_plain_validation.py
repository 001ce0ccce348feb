"""One look at a batch settles what the general validation settles, compiled and interpreted: same acceptance, same
error and message, same bytes and header."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.errors import KafkaError
from kmini.protocol.records import batch_records, load_kernel
from kmini.protocol.records.batch import build_batch
from kmini.storage import log_config, validation
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import validate, validate_plain
from support.odd_batches import NOW_MS, every_batch, plain_batches, records

BATCHES = [bytes(batch) for batch in every_batch()]

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "compacted": {"cleanup_policy": ("compact",)},
    "narrow": {"message_timestamp_before_max_ms": 0, "message_timestamp_after_max_ms": 1, "max_message_bytes": 150},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "uncompressed": {"compression_type": "uncompressed"},
    "lz4": {"compression_type": "lz4"},
}

Outcome = tuple[Any, ...]


def use(monkeypatch: pytest.MonkeyPatch, *, interpreted: bool) -> Any:
    """Let validation use one form of the kernel."""
    kernel = load_kernel.load(interpreted=interpreted)
    monkeypatch.setattr(batch_records, "RecordWalker", kernel.RecordWalker)
    monkeypatch.setattr(validation, "fault_of_claims", kernel.fault_of_claims)
    monkeypatch.setattr(log_config, "PlainBatches", kernel.PlainBatches)
    return kernel


def general(batch: bytes, config: LogConfig) -> Outcome:
    """The outcome of the general validation: what is stored, or the error."""
    sent = bytearray(batch)
    try:
        validated = validate(memoryview(sent), config, NOW_MS, 1 << 20)
    except KafkaError as error:
        return type(error), error.message, getattr(error, "record_errors", None)
    return bytes(validated.records), validated.header, validated.log_append_time_ms


def at_one_look(batch: bytes, config: LogConfig) -> Outcome | None:
    """The outcome of the look; None if it leaves the batch to the general validation."""
    sent = bytearray(batch)
    validated = validate_plain(memoryview(sent), config, NOW_MS)
    assert sent == batch, "the look changed the batch"
    if validated is None:
        return None
    return bytes(validated.records), validated.header, validated.log_append_time_ms


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_what_a_look_settles_the_general_validation_settles_likewise(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], interpreted: bool
) -> None:
    use(monkeypatch, interpreted=interpreted)
    config = LogConfig(**settings)
    settled = 0
    for batch in BATCHES:
        found = at_one_look(batch, config)
        if found is not None:
            settled += 1
            assert found == general(batch, config), batch.hex()
    assert (settled > 0) == (config.plain_batches is not None)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_both_forms_find_the_same(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    found = {}
    for interpreted in (False, True):
        use(monkeypatch, interpreted=interpreted)
        config = LogConfig(**settings)
        found[interpreted] = [(at_one_look(batch, config), general(batch, config)) for batch in BATCHES]
    for batch, compiled, read in zip(BATCHES, found[False], found[True], strict=True):
        assert compiled == read, batch.hex()


def test_the_batches_have_every_outcome() -> None:
    """Otherwise the two tests above would say less than they seem to."""
    config = LogConfig(cleanup_policy=("compact",), message_timestamp_before_max_ms=10**6)
    outcomes = [general(batch, config) for batch in BATCHES]
    messages = {str(outcome[1]) for outcome in outcomes if isinstance(outcome[0], type)}
    said = (
        "no complete batch",
        "one batch at a time",
        "magic",
        "base offset",
        "checksum",
        "no codec",
        "claims",
        "control batches",
        "gives no sequence",
        "without a key",
        "is not within",
        "log append time",
        "offset deltas",
        "malformed",
        "something follows",
    )
    assert [words for words in said if not any(words in message for message in messages)] == []
    assert sum(at_one_look(batch, config) is not None for batch in BATCHES) > 20


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_plain_batches_need_no_more_than_a_look(monkeypatch: pytest.MonkeyPatch, interpreted: bool) -> None:
    use(monkeypatch, interpreted=interpreted)
    config = LogConfig()
    assert [bytes(batch).hex() for batch in plain_batches() if at_one_look(batch, config) is None] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "gzip"},
        {"kmini_tombstone_flag_enable": True},
        {"flush_messages": 1},
        {"flush_ms": 1},
    ],
)
def test_a_topic_that_changes_or_flushes_what_is_sent_has_no_plain_batches(settings: dict[str, Any]) -> None:
    assert validate_plain(build_batch(records(1)), LogConfig(**settings), NOW_MS) is None


def test_plain_batches_follow_the_settings_and_are_none_of_them() -> None:
    narrow = LogConfig().replace(max_message_bytes=10)
    assert validate_plain(build_batch(records(1)), narrow, NOW_MS) is None
    assert LogConfig() == LogConfig()
    assert "plain" not in repr(narrow)


def test_a_batch_that_would_hold_up_the_loop_gets_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = build_batch(records(1))
    monkeypatch.setattr(validation, "_CHEAP_BYTES", len(batch))
    assert validate_plain(batch, LogConfig(), NOW_MS) is not None
    monkeypatch.setattr(validation, "_CHEAP_BYTES", len(batch) - 1)
    assert validate_plain(batch, LogConfig(), NOW_MS) is None
