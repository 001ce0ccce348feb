"""A wait in vain is remembered as the test has written it."""

from __future__ import annotations

from kmini.testkit.failed_waits import FailedWait


def test_a_failed_wait_shows_the_call_about_as_it_was_written() -> None:
    def is_paid(record: object) -> bool:
        return True

    kwargs = {"key": b"x" * 200, "where": is_paid}
    failed = FailedWait.of("topic('orders').wait_for", (3,), kwargs, {"topic": "orders"}, "nothing came")
    assert failed.call == f"topic('orders').wait_for(3, key=b'{'x' * 55}..., where=is_paid)"
    assert (failed.topic, failed.group, failed.message) == ("orders", None, "nothing came")
