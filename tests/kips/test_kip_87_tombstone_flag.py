"""KIP-87: a delete is explicit, and may have a value. Each sentence of it that asks for something has a test here.

What Apache Kafka has done since with the magic and the request numbers of the proposal is told in `docs/kips.md`; old
clients, with the flag off, are in `test_kip_87_compatibility.py`, the six use cases in
`test_kip_87_tombstone_use_cases.py`, the switch and its two spellings in `test_kip_87_tombstone_settings.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol.errors import NONE, MessageTooLarge
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.protocol.records.tombstones import FLAG, HEADER, NULL
from kmini.records import TOMBSTONE, is_tombstone, tombstone
from support.batches import CODECS, Item, batch
from support.flagged_records import (
    BIT,
    BOTH,
    IN_HEADER,
    PLAIN,
    UNFLAGGED_NULL,
    Fetch,
    Produce,
    compact_until_tombstones_go,
    marks,
)


class TestMotivation:
    """A map API map.put(key, null) is not the same as map.remove(key): a delete should be explicit."""

    def test_a_delete_carries_a_value_and_headers(self, broker: Broker, create: Callable[..., None]) -> None:
        create()
        broker.produce("t", b"1", key=b"a")
        broker.produce("t", **tombstone(b"a", b"the last words", headers=[("by", b"me")]))
        (record,) = [record for record in broker.records("t") if is_tombstone(record)]
        assert (record.value, record.headers) == (b"the last words", (("by", b"me"), TOMBSTONE))
        assert compact_until_tombstones_go(broker) == []

    def test_until_it_goes_it_takes_the_place_of_what_it_deletes(
        self, broker: Broker, create: Callable[..., None]
    ) -> None:
        create()
        broker.produce("t", b"1", key=b"a")
        broker.produce("t", **tombstone(b"a", b"the last words"))
        (report,) = broker.topic("t").compact()
        assert (report.superseded, report.tombstones_waiting) == (1, 1)
        assert [record.value for record in broker.records("t")] == [b"the last words"]

    def test_an_empty_value_is_no_delete(self, broker: Broker, create: Callable[..., None]) -> None:
        create()
        broker.produce("t", b"", key=b"a")
        assert [record.value for record in compact_until_tombstones_go(broker)] == [b""]

    def test_a_value_put_after_a_delete_is_there(self, broker: Broker, create: Callable[..., None]) -> None:
        create()
        broker.produce("t", **tombstone(b"a", b"why"))
        broker.produce("t", b"2", key=b"a")
        assert [record.value for record in compact_until_tombstones_go(broker)] == [b"2"]


class TestPublicInterfaces:
    @pytest.mark.parametrize("codec", CODECS)
    def test_an_attribute_bit_of_the_record_is_the_flag(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch, codec: str
    ) -> None:
        """1. Use an attribute bit as a tombstone flag on the core message format."""
        create()
        assert produce(batch([BIT, PLAIN, IN_HEADER, BOTH, UNFLAGGED_NULL], codec=codec)).error_code == NONE
        flagged = FLAG | HEADER
        assert marks(fetch(12)) == [flagged, 0, flagged, flagged, NULL | flagged]

    def test_without_compaction_it_is_set_and_read_and_deletes_nothing(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch
    ) -> None:
        """2. It is only used by the broker when a topic is configured for compaction. a. Otherwise it is set on the
        record and available to be read, but does not cause deletion."""
        create(cleanup_policy="delete", retention_ms=-1)
        produce(batch([PLAIN, BIT, UNFLAGGED_NULL]))
        before = broker.records("t")
        broker.topic("t").roll()
        broker.topic("t").apply_retention()
        broker.clock.advance("60d")
        assert broker.records("t") == before
        assert [is_tombstone(record) for record in before] == [False, True, True]
        assert marks(fetch(12)) == [0, FLAG | HEADER, NULL | FLAG | HEADER]

    def test_without_compaction_a_tombstone_needs_no_key(
        self, broker: Broker, create: Callable[..., None], produce: Produce
    ) -> None:
        create(cleanup_policy="delete")
        assert produce(batch([IN_HEADER._replace(key=None)])).error_code == NONE
        assert is_tombstone(broker.records("t")[0])

    def test_it_deletes_once_the_topic_is_compacted(
        self, broker: Broker, create: Callable[..., None], produce: Produce, alter: Callable[..., None]
    ) -> None:
        create(cleanup_policy="delete", retention_ms=-1)
        produce(batch([PLAIN, BIT]))
        alter(cleanup_policy="compact")
        assert compact_until_tombstones_go(broker) == []

    def test_end_users_can_read_that(self) -> None:
        """2. b. This will need to be added to end user documentation."""
        page = Path(__file__).parents[2] / "docs" / "tombstones.md"
        assert "cleanup.policy=delete" in page.read_text(encoding="utf-8")

    def test_a_producer_has_a_tombstone_to_construct_a_record_with(self) -> None:
        """3. and 4. A tombstone field of ProducerRecord, and a parameter to set it."""
        assert tombstone(b"k", b"v", [("h", b"1")]) == {"key": b"k", "value": b"v", "headers": [("h", b"1"), TOMBSTONE]}
        assert tombstone(b"k") == {"key": b"k", "value": None, "headers": [TOMBSTONE]}

    def test_a_consumer_can_ask_a_record(self, broker: Broker, create: Callable[..., None]) -> None:
        """5. Accessor methods boolean isTombstone() (the clients': test_kip_87_tombstone_use_cases.py)."""
        create()
        broker.produce("t", **tombstone(b"a", b"why"))
        broker.produce("t", b"1", key=b"b")
        assert [is_tombstone(record) for record in broker.records("t")] == [True, False]

    @pytest.mark.parametrize("version", range(3, 13))
    def test_every_produce_request_with_batches_takes_the_flag(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch, version: int
    ) -> None:
        """6. ProduceRequest V3, which uses the new message format: today from version 3 on."""
        create()
        assert produce(batch([BIT]), version).error_code == NONE
        assert marks(fetch(12)) == [FLAG | HEADER]

    @pytest.mark.parametrize("version", range(4, 13))
    def test_every_fetch_request_with_batches_gives_records_as_they_are_stored(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch, version: int
    ) -> None:
        """7. FetchRequest V3, which uses the new message format: today from version 4 on."""
        create()
        produce(batch([BIT]))
        assert marks(fetch(version)) == [FLAG | HEADER]
        assert decode_all(fetch(version)) == [record[:5] for record in broker.records("t")]
        assert broker.data_dir is not None
        stored = Path(broker.data_dir, "broker-1", "t-0", f"{0:020}.log").read_bytes()
        assert fetch(version) == stored


class TestWireProtocol:
    @pytest.mark.parametrize("item", [IN_HEADER, BOTH, PLAIN])
    def test_the_bit_keeps_the_size_the_same(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch, item: Item
    ) -> None:
        """The attributes flag bit is used to keep the message size the same as before."""
        create()
        sent = batch([item])
        produce(sent)
        assert len(fetch(12)) == len(sent)

    def test_a_batch_in_which_bit_and_header_agree_is_stored_as_it_was_sent(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch
    ) -> None:
        create()
        sent = batch([BOTH, PLAIN, BOTH._replace(value=None)], codec="zstd")
        produce(sent)
        assert fetch(12)[61:] == sent[61:]

    def test_a_header_that_outgrows_the_largest_message_is_too_large(
        self, create: Callable[..., None], produce: Produce
    ) -> None:
        sent = batch([BIT])
        create(max_message_bytes=len(sent) + 16)
        assert produce(sent).error_code == MessageTooLarge.code
        assert produce(batch([PLAIN])).error_code == NONE

    def test_it_fits_if_there_is_room_for_its_17_bytes(self, create: Callable[..., None], produce: Produce) -> None:
        sent = batch([BIT])
        create(max_message_bytes=len(sent) + 17)
        assert produce(sent).error_code == NONE


class TestLogCleaner:
    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("codec", [0, 1])
    def test_with_magic_0_and_1_the_null_value_is_used(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch, magic: int, codec: int
    ) -> None:
        """If the magic byte is 0 or 1, the broker should use the null value for log compaction."""
        create()
        now = 1_000_000
        records = [Record(0, now, b"a", b"1"), Record(1, now, b"b", b"2"), Record(2, now, b"a", None)]
        old = build_wrapper([records], magic, codec) if codec else build_messages(records, magic)
        assert produce(bytes(old), 1 + magic).error_code == NONE
        assert marks(fetch(12)) == [0, 0, NULL | FLAG | HEADER]
        assert [record.key for record in compact_until_tombstones_go(broker)] == [b"b"]

    def test_with_magic_2_the_tombstone_bit_is_used(
        self, broker: Broker, create: Callable[..., None], produce: Produce
    ) -> None:
        """If the magic byte is 2, the broker should use the tombstone bit for log compaction."""
        create()
        produce(batch([PLAIN]))
        produce(batch([BIT]))
        assert compact_until_tombstones_go(broker) == []

    @pytest.mark.parametrize("codec", CODECS)
    def test_it_is_done_at_the_per_message_level(
        self, broker: Broker, create: Callable[..., None], produce: Produce, codec: str
    ) -> None:
        """This will be done at the per message level."""
        create()
        kinds = {b"bit": BIT, b"header": IN_HEADER, b"null": UNFLAGGED_NULL, b"plain": PLAIN, b"empty": Item(value=b"")}
        produce(batch([PLAIN._replace(key=key) for key in kinds], codec=codec))
        produce(batch([item._replace(key=key) for key, item in kinds.items()], codec=codec))
        assert [record.key for record in compact_until_tombstones_go(broker)] == [b"plain", b"empty"]

    def test_records_from_before_the_switch_stay_deletions(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch, alter: Callable[..., None]
    ) -> None:
        create(kmini_tombstone_flag_enable="false")
        produce(batch([PLAIN]))
        produce(batch([UNFLAGGED_NULL]))
        alter(kmini_tombstone_flag_enable="true")
        assert marks(fetch(12)) == [0, NULL]
        assert compact_until_tombstones_go(broker) == []

    def test_a_header_from_before_the_switch_deletes_nothing(
        self, broker: Broker, create: Callable[..., None], produce: Produce, alter: Callable[..., None]
    ) -> None:
        """It was a header like any other when it was written."""
        create(kmini_tombstone_flag_enable="false")
        produce(batch([IN_HEADER]))
        alter(kmini_tombstone_flag_enable="true")
        assert [record.value for record in compact_until_tombstones_go(broker)] == [b"why"]

    def test_flagged_tombstones_live_for_delete_retention_ms_and_then_go(
        self, broker: Broker, create: Callable[..., None]
    ) -> None:
        """KIP-534."""
        create(delete_retention_ms=3_600_000)
        broker.produce("t", b"1", key=b"a")
        broker.produce("t", **tombstone(b"a", b"why"))
        broker.topic("t").compact()
        broker.clock.advance("55m")
        assert [record.value for record in broker.records("t")] == [b"why"]
        broker.clock.advance("6m")
        assert broker.records("t") == []

    def test_the_dump_shows_the_flag_and_the_horizon(
        self, broker: Broker, create: Callable[..., None], run_command: Callable[..., Any]
    ) -> None:
        create()
        broker.produce("t", **tombstone(b"a", b"why"))
        broker.produce("t", b"1", key=b"b")
        broker.topic("t").compact()
        assert broker.data_dir is not None
        path = f"{broker.data_dir}/broker-1/t-0/{0:020}.log"
        finished = run_command("kmini", "log", "dump", "--records", "--format", "json", path)
        told = [json.loads(line) for line in finished.stdout.splitlines()]
        assert [record.get("tombstone") for record in told if record["kind"] == "record"] == [True, None]
        assert ["delete_horizon" in entry for entry in told if entry["kind"] == "batch"] == [True, False]
        lines = run_command("kmini", "log", "dump", "--records", path).stdout.splitlines()
        assert [line for line in lines if ' value="why" tombstone ' in line]
        assert [line for line in lines if " delete_horizon=2" in line]
