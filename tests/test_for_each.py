"""`for_each` hides nothing: it tries every case, and says which ones fail."""

from __future__ import annotations

import pytest

from support.for_each import for_each


@for_each("base", [2, 3])
@for_each("exponent, power", [(0, 1), pytest.param(1, None, id="the base"), (2, 4)])
def test_cases_of_both_decorators_are_tried(base: int, exponent: int, power: int | None) -> None:
    if power is None:
        pytest.skip("a case that is skipped leaves the others")
    assert base > 2 or base**exponent == power


def test_every_failing_case_is_named_with_its_reason() -> None:
    tried = []

    @for_each("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        tried.append(number)
        if number == 4:
            raise LookupError("four")
        assert number % 2, "even"

    with pytest.raises(AssertionError, match=r"^2 of 4 cases fail\n\[2\] AssertionError: even.*\n(.*\n)*\[4\] LookupE"):
        check()
    assert tried == [1, 2, 3, 4]


def test_what_a_case_should_have_raised_is_a_failure() -> None:
    @for_each("value", ["1", "x"])
    def check(value: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(value)

    with pytest.raises(AssertionError, match=r"^1 of 2 cases fail\n\['1'\] Failed: DID NOT RAISE"):
        check()


async def test_the_cases_of_a_coroutine_are_awaited() -> None:
    @for_each("number", [1, 2])
    async def check(number: int) -> None:
        assert number == 1

    with pytest.raises(AssertionError, match="1 of 2 cases fail"):
        await check()


def test_no_cases_and_none_but_skipped_ones_do_not_pass() -> None:
    @for_each("number", [])
    def check_none(number: int) -> None: ...

    @for_each("number", [1])
    def check_skipped(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(AssertionError, match="there are no cases"):
        check_none()
    with pytest.raises(pytest.skip.Exception):
        check_skipped()
