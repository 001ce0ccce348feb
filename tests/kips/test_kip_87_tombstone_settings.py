"""KIP-87: clients without the flag, a header that says no, a topic without the setting, and the setting itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol.errors import NONE, InvalidRecord
from kmini.protocol.messages.describe_configs import TOPIC, DescribeConfigsRequest
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.old_formats.messages import build_messages
from kmini.protocol.records.record import Record
from kmini.protocol.records.tombstones import FLAG, HEADER, NULL
from kmini.records import TOMBSTONE, is_tombstone, tombstone
from kmini.testing import Wire
from support.batches import Item, batch
from support.flagged_records import (
    BIT,
    BOTH,
    IN_HEADER,
    NAME,
    PLAIN,
    UNFLAGGED_NULL,
    Fetch,
    Produce,
    compact_until_tombstones_go,
    marks,
)


class TestCompatibility:
    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("refuse", ["false", "true"])
    def test_old_produce_requests_work_as_they_do_today(
        self, broker: Broker, create: Callable[..., None], produce: Produce, version: int, refuse: str
    ) -> None:
        """ProduceRequest V2 will work as it does today: its null is a tombstone, which it cannot flag."""
        create(kmini_tombstone_null_refuse=refuse)
        records = [Record(0, 1_000_000, b"a", b"1"), Record(1, 1_000_000, b"a", None)]
        assert produce(bytes(build_messages(records, int(version == 2))), version).error_code == NONE
        assert [is_tombstone(record) for record in broker.records("t")] == [False, True]
        assert compact_until_tombstones_go(broker) == []

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_the_downgrade_makes_the_value_null_for_a_tombstone(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch, version: int, codec: str
    ) -> None:
        """To note on a downgrade for a non-upgraded consumer, the downgrade would make the value null."""
        create()
        produce(batch([PLAIN, IN_HEADER, BIT, UNFLAGGED_NULL], codec=codec))
        assert [record.value for record in decode_all(fetch(version))] == [b"1", None, None, None]

    def test_also_of_a_topic_that_is_not_compacted(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch
    ) -> None:
        create(cleanup_policy="delete")
        produce(batch([PLAIN, BIT]))
        assert [record.value for record in decode_all(fetch(2))] == [b"1", None]

    def test_a_null_value_that_is_no_tombstone_is_not_allowed_where_that_is_asked_for(
        self, broker: Broker, create: Callable[..., None], produce: Produce
    ) -> None:
        """NOTE: a non tombstone (tombstone bit not set) and null value should not be allowed."""
        create(kmini_tombstone_null_refuse="true")
        answer = produce(batch([PLAIN, UNFLAGGED_NULL, BIT, UNFLAGGED_NULL]))
        assert answer.error_code == InvalidRecord.code
        assert [error.batch_index for error in answer.record_errors] == [1, 3]
        assert all("kmini.tombstone" in error.batch_index_error_message for error in answer.record_errors)
        assert broker.records("t") == []

    @pytest.mark.parametrize("item", [BIT, IN_HEADER, BOTH])
    def test_a_null_value_that_is_one_is_allowed(
        self, broker: Broker, create: Callable[..., None], produce: Produce, item: Item
    ) -> None:
        create(kmini_tombstone_null_refuse="true")
        assert produce(batch([item._replace(value=None)])).error_code == NONE
        assert is_tombstone(broker.records("t")[0])

    def test_upgrading_and_changing_nothing_needs_no_change(self, broker: Broker, create: Callable[..., None]) -> None:
        """If simply upgrading (e.g. still sending null tombstones via existing constructors), we do not expect any app
        changes needed. For a null value the default of the old constructors is that the tombstone is set."""
        create()
        broker.produce("t", b"1", key=b"a")
        broker.produce("t", None, key=b"a")
        assert broker.records("t")[1].headers == (TOMBSTONE,)
        assert compact_until_tombstones_go(broker) == []

    @pytest.mark.parametrize("version", [0, 3, 4, 12])
    def test_the_value_for_a_null_tombstone_is_still_null(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch, version: int
    ) -> None:
        """Existing flows that use null tombstones and continue to do so will not be affected as the value for a
        tombstone will still be null."""
        create()
        produce(batch([UNFLAGGED_NULL]))
        assert [record.value for record in decode_all(fetch(version))] == [None]

    def test_what_is_no_tombstone_is_not_changed(
        self, create: Callable[..., None], produce: Produce, fetch: Fetch
    ) -> None:
        create()
        items = [Item(value=b"%d" % n, headers=((b"h", None), (b"h", b"x"))) for n in range(9)]
        sent = batch(items, codec="lz4")
        produce(sent)
        assert fetch(12)[61:] == sent[61:]


class TestAHeaderThatSaysNo:
    """`false` must not delete anything, nor be taken for a flag by clients that look for the header alone."""

    @pytest.mark.parametrize("text", [b"false", b"False", b"FALSE", b"0", b"\0"])
    def test_is_refused_with_the_index_of_its_record(
        self, create: Callable[..., None], produce: Produce, text: bytes
    ) -> None:
        create()
        answer = produce(batch([PLAIN, Item(headers=((NAME, text),)), BOTH]))
        assert answer.error_code == InvalidRecord.code
        assert [error.batch_index for error in answer.record_errors] == [1]

    @pytest.mark.parametrize("text", [None, b"", b"true", b"1", b"by the nightly job"])
    def test_any_other_value_means_yes_and_stays(self, broker: Broker, create: Callable[..., None], text: Any) -> None:
        create()
        broker.produce("t", b"1", key=b"a", headers=[("kmini.tombstone", text)])
        assert broker.records("t")[0].headers == (("kmini.tombstone", text),)
        assert compact_until_tombstones_go(broker) == []

    def test_an_embedded_broker_says_so_too(self, broker: Broker, create: Callable[..., None]) -> None:
        create()
        with pytest.raises(InvalidRecord, match=r"kmini\.tombstone"):
            broker.produce("t", b"1", key=b"a", headers=[("kmini.tombstone", b"false")])


class TestOff:
    """The default: as in Apache Kafka, where neither bit nor header means anything."""

    @pytest.mark.parametrize("version", [0, 3, 4, 12])
    def test_bit_and_header_mean_nothing(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch, version: int
    ) -> None:
        create(kmini_tombstone_flag_enable="false", kmini_tombstone_null_refuse="true")
        sent = batch([BIT, IN_HEADER._replace(key=b"b"), BOTH._replace(key=b"c"), Item(b"d", b"1")])
        assert produce(sent).error_code == NONE
        assert fetch(12)[61:] == sent[61:]
        assert [record.value for record in decode_all(fetch(version))] == [b"why", b"why", b"why", b"1"]
        assert len(compact_until_tombstones_go(broker)) == 4

    def test_null_is_the_tombstone(self, broker: Broker, create: Callable[..., None], produce: Produce) -> None:
        create(kmini_tombstone_flag_enable="false", kmini_tombstone_null_refuse="true")
        assert produce(batch([PLAIN, UNFLAGGED_NULL])).error_code == NONE
        assert broker.records("t")[1].headers == ()
        assert compact_until_tombstones_go(broker) == []

    def test_it_is_the_default(self, broker: Broker) -> None:
        broker.create_topic("t", config={"cleanup.policy": "compact"})
        broker.produce("t", **tombstone(b"a", b"why"))
        assert [record.value for record in compact_until_tombstones_go(broker)] == [b"why"]


class TestSettings:
    def test_they_are_in_force_at_once(
        self, broker: Broker, create: Callable[..., None], produce: Produce, fetch: Fetch, alter: Callable[..., None]
    ) -> None:
        create(kmini_tombstone_flag_enable="false")
        produce(batch([IN_HEADER, UNFLAGGED_NULL]))
        alter(kmini_tombstone_flag_enable="true")
        produce(batch([IN_HEADER, UNFLAGGED_NULL]))
        alter(kmini_tombstone_null_refuse="true")
        assert produce(batch([UNFLAGGED_NULL])).error_code == InvalidRecord.code
        alter(kmini_tombstone_flag_enable="false")
        assert produce(batch([UNFLAGGED_NULL])).error_code == NONE
        flagged = FLAG | HEADER
        assert marks(fetch(12)) == [HEADER, NULL, flagged, NULL | flagged, NULL]

    def test_they_are_described(self, wire: Wire, create: Callable[..., None]) -> None:
        create()
        names = ["kmini.tombstone.flag.enable", "kmini.tombstone.null.refuse"]
        resource = DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name="t", configuration_keys=names)
        (told,) = wire.ask(DescribeConfigsRequest(resources=[resource], include_documentation=True), 4).results
        assert [(each.name, each.value) for each in told.configs] == list(zip(names, ["true", "false"], strict=True))
        assert all("kmini.tombstone" in each.documentation for each in told.configs)
