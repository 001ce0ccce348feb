"""Keys and values of `__consumer_offsets`, against bytes put together from Kafka's published schemas."""

from __future__ import annotations

import random

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group_records import (
    GROUP,
    OFFSET,
    GroupMetadata,
    MemberMetadata,
    OffsetPlace,
    decode_group,
    decode_group_key,
    decode_offset,
    decode_offset_prefix,
    encode_group,
    encode_offset,
    group_key,
    key_type,
    offset_key,
    offset_key_prefix,
    split_offset_key,
)

TOPIC_ID = bytes(range(16))
PLAIN = CommittedOffset(42, 7, "note", 1000)

OFFSET_VALUES = {
    0: ("0000" "000000000000002a" "0004" "6e6f7465" "00000000000003e8", PLAIN._replace(leader_epoch=-1)),
    1: (
        "0001" "000000000000002a" "0004" "6e6f7465" "00000000000003e8" "00000000000007d0",
        PLAIN._replace(leader_epoch=-1, expire_timestamp_ms=2000),
    ),
    2: ("0002" "000000000000002a" "0004" "6e6f7465" "00000000000003e8", PLAIN._replace(leader_epoch=-1)),
    3: ("0003" "000000000000002a" "00000007" "0004" "6e6f7465" "00000000000003e8", PLAIN),
    4: ("0004" "000000000000002a" "00000007" "05" "6e6f7465" "00000000000003e8" "00", PLAIN),
}  # fmt: skip


def test_the_key_of_an_offset_is_type_1_group_topic_and_partition() -> None:
    key = offset_key(offset_key_prefix("grp", "töpic"), 258)
    assert key.hex() == "0001" "0003" "677270" "0006" "74c3b6706963" "00000102"  # fmt: skip
    assert key_type(key) == OFFSET
    prefix, partition = split_offset_key(key)
    assert (decode_offset_prefix(prefix), partition) == (OffsetPlace("grp", "töpic"), 258)


def test_the_key_of_a_group_is_type_2_and_its_id() -> None:
    assert group_key("grp").hex() == "0002" "0003" "677270"  # fmt: skip
    assert key_type(group_key("grp")) == GROUP
    assert decode_group_key(group_key("grp")) == "grp"
    assert decode_group_key(group_key("")) == ""


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_an_offset_is_read_in_every_version(version: int) -> None:
    value, committed = OFFSET_VALUES[version]
    assert decode_offset(bytes.fromhex(value)) == committed


def test_an_offset_is_written_in_version_4() -> None:
    assert encode_offset(PLAIN).hex() == OFFSET_VALUES[4][0]


def test_an_offset_with_a_time_of_expiry_is_written_in_version_1() -> None:
    assert encode_offset(PLAIN._replace(expire_timestamp_ms=2000)).hex() == OFFSET_VALUES[1][0]


def test_a_topic_id_is_kept_in_a_tagged_field() -> None:
    committed = PLAIN._replace(topic_id=TOPIC_ID)
    value = encode_offset(committed)
    assert value.hex() == OFFSET_VALUES[4][0][:-2] + "010010" + TOPIC_ID.hex()
    assert decode_offset(value) == committed


def test_tagged_fields_of_versions_to_come_are_passed_over() -> None:
    value = bytes.fromhex(OFFSET_VALUES[4][0])[:-1] + bytes((2, 0, 16)) + TOPIC_ID + bytes((5, 3)) + b"abc"
    assert decode_offset(value).topic_id == TOPIC_ID


@pytest.mark.parametrize("length", [0, 126, 127, 128, 4096, 30_000])
def test_metadata_of_any_length_comes_back(length: int) -> None:
    committed = PLAIN._replace(metadata="ä" * (length // 2) + "m" * (length % 2))
    assert decode_offset(encode_offset(committed)) == committed


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_version_that_there_is_not_is_corrupt(version: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_offset(version.to_bytes(2, "big", signed=True) + bytes(40))
    with pytest.raises(CorruptRecord):
        decode_group(version.to_bytes(2, "big", signed=True) + bytes(40))


def test_what_is_cut_short_or_changed_is_corrupt_or_something_else_but_no_accident() -> None:
    rng = random.Random(7)
    whole = [bytes.fromhex(value) for value, _ in OFFSET_VALUES.values()]
    whole += [encode_offset(PLAIN._replace(topic_id=TOPIC_ID)), encode_group(metadata())]
    decoders = [decode_offset] * (len(whole) - 1) + [decode_group]
    keys = [offset_key(offset_key_prefix("group", "topic"), 1), group_key("group")]

    def read_key(key: bytes) -> object:
        kind = key_type(key)
        return decode_group_key(key) if kind == GROUP else decode_offset_prefix(split_offset_key(key)[0])

    for good, decode in [*zip(whole, decoders, strict=True), *((key, read_key) for key in keys)]:
        damaged = [good[:end] for end in range(len(good))]
        for _ in range(200):
            changed = bytearray(good)
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            damaged.append(bytes(changed))
        for each in damaged:
            try:
                decode(each)
            except CorruptRecord:
                pass


def metadata(members: int = 1) -> GroupMetadata:
    return GroupMetadata(
        protocol_type="consumer",
        generation_id=3,
        protocol_name="range",
        leader_id="m0",
        state_timestamp_ms=1000,
        members=[
            MemberMetadata(
                member_id=f"m{number}",
                group_instance_id=None if number % 2 else "i",
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=300,
                session_timeout_ms=200,
                subscription=b"sub",
                assignment=b"as",
            )
            for number in range(members)
        ],
    )


GROUP_V3 = (
    "0003" "0008" "636f6e73756d6572" "00000003" "0005" "72616e6765" "0002" "6d30" "00000000000003e8" "00000001"
    "0002" "6d30" "0001" "69" "0001" "63" "0002" "2f68" "0000012c" "000000c8" "00000003" "737562" "00000002" "6173"
)  # fmt: skip

GROUP_V4 = (
    "0004" "09" "636f6e73756d6572" "00000003" "06" "72616e6765" "03" "6d30" "00000000000003e8" "02"
    "03" "6d30" "02" "69" "02" "63" "03" "2f68" "0000012c" "000000c8" "04" "737562" "03" "6173" "00" "00"
)  # fmt: skip

GROUP_V0 = (
    "0000" "0008" "636f6e73756d6572" "00000003" "0005" "72616e6765" "0002" "6d30" "00000001"
    "0002" "6d30" "0001" "63" "0002" "2f68" "000000c8" "00000003" "737562" "00000002" "6173"
)  # fmt: skip


def test_a_group_is_written_in_version_3() -> None:
    assert encode_group(metadata()).hex() == GROUP_V3


@pytest.mark.parametrize("value", [GROUP_V3, GROUP_V4])
def test_a_group_is_read_in_the_newest_versions(value: str) -> None:
    assert decode_group(bytes.fromhex(value)) == metadata()


def test_an_old_group_has_no_instance_ids_and_no_timestamps() -> None:
    group = decode_group(bytes.fromhex(GROUP_V0))
    (member,) = group.members
    assert group.state_timestamp_ms == -1
    assert (member.group_instance_id, member.rebalance_timeout_ms, member.session_timeout_ms) == (None, -1, 200)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    empty = GroupMetadata(
        protocol_type="consumer", generation_id=4, protocol_name=None, leader_id=None, state_timestamp_ms=5, members=[]
    )
    assert decode_group(encode_group(empty)) == empty


def test_many_members_come_back() -> None:
    assert decode_group(encode_group(metadata(members=500))) == metadata(members=500)
