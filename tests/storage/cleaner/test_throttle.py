"""Bytes per second, without waiting for any."""

from __future__ import annotations

from kmini.storage.cleaner.throttle import Throttle


class Stopwatch:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


def test_too_many_bytes_are_slept_off() -> None:
    watch = Stopwatch()
    throttle = Throttle(1_000, seconds=lambda: watch.now, sleep=watch.sleep)
    watch.now = 0.5
    throttle.on_bytes(2_000)
    assert watch.slept == [1.5]
    watch.now += 1
    throttle.on_bytes(1_000)
    assert watch.slept == [1.5]


def test_it_looks_at_most_every_300_ms() -> None:
    watch = Stopwatch()
    throttle = Throttle(1_000, seconds=lambda: watch.now, sleep=watch.sleep)
    watch.now = 0.29
    throttle.on_bytes(10_000)
    assert not watch.slept
    watch.now = 0.3
    throttle.on_bytes(0)
    assert watch.slept == [9.7]


def test_kafkas_default_never_sleeps() -> None:
    watch = Stopwatch()
    throttle = Throttle(1.7976931348623157e308, seconds=lambda: watch.now, sleep=watch.sleep)
    for _ in range(10):
        watch.now += 1
        throttle.on_bytes(1 << 40)
    assert not watch.slept
