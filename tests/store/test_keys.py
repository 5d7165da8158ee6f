"""Names: the partition is Redis' own, and whatever a script touches shares one hash slot."""

from __future__ import annotations

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from waitpoint.store.keys import Keys


def redis_crc16(data: bytes) -> int:
    """CRC16 as the cluster specification describes it, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
            crc &= 0xFFFF
    return crc


def test_partition_uses_the_check_value_of_the_cluster_specification() -> None:
    assert redis_crc16(b"123456789") == 0x31C3
    assert Keys(1 << 16).partition("123456789") == 0x31C3


@given(st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable()), st.integers(1, 512))
def test_partition_is_crc16_of_the_name(thread: str, partitions: int) -> None:
    assert Keys(partitions).partition(thread) == redis_crc16(thread.encode()) % partitions


@given(st.text(alphabet="ab{}:1", min_size=1, max_size=12))
def test_all_names_of_a_thread_share_its_partitions_hash_tag(thread: str) -> None:
    keys = Keys(64)
    tag = f"{{{keys.partition(thread)}}}".encode()
    for name in astuple(keys.of(thread)):
        assert name.startswith(b"wp:" + tag + b":")


def test_names_are_the_documented_ones() -> None:
    keys = Keys(64)
    p = keys.partition("t1")
    assert keys.of("t1").thread == f"wp:{{{p}}}:t:t1".encode()
    assert keys.of("t1").log == f"wp:{{{p}}}:log:t1".encode()
    assert keys.of("t1").channel == f"wp:{{{p}}}:ch:t1".encode()
    assert keys.of("t1").due in keys.due()
    assert keys.of("t1").pending in keys.pending()
    assert len(set(keys.due())) == 64
