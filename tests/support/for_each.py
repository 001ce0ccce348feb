"""A matrix of cases as one test: `@for_each("version", range(9))` in the place of `@pytest.mark.parametrize`.

All cases run, and the failure names those that fail. Fixtures are made once for all cases, so a case must not depend on
what an earlier one left. Use `parametrize` for cases of which each is a claim that one wants to see fail alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

MOST_SHOWN = 20
"""Failing cases that a message describes."""

Test = Callable[..., Any]
ParameterSet = type(pytest.param())


def sampled(values: Iterable[Any], *taken: Any) -> list[Any]:
    """The values of a parameter, of which `make test` takes these, and `make soak` the others: a matrix whose rows and
    columns are all met in the cells that are left."""
    return [value if value in taken else pytest.param(value, marks=pytest.mark.soak) for value in values]


def for_each(
    names: str | Sequence[str], values: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Call the test with each of `values`. The arguments are those of `parametrize`."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases: dict[str, dict[str, Any]] = {}
    titles = None if ids is None or callable(ids) else iter(ids)
    for value in values:
        is_set = isinstance(value, ParameterSet)
        case = value.values if is_set else value if len(arguments) > 1 else (value,)
        title = (value.id if is_set else None) or ", ".join(shown(one, ids) for one in case)
        title = title if titles is None else str(next(titles))
        cases[title if title not in cases else f"{title} #{len(cases)}"] = dict(zip(arguments, case, strict=True))

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            with collected(len(cases)) as case:
                for title, given in cases.items():
                    with case(title):
                        test(*args, **fixtures, **given)

        @functools.wraps(test)
        async def run_async(*args: Any, **fixtures: Any) -> None:
            with collected(len(cases)) as case:
                for title, given in cases.items():
                    with case(title):
                        await test(*args, **fixtures, **given)

        chosen: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in arguments]
        chosen.__signature__ = signature.replace(parameters=kept)
        return chosen  # type: ignore[no-any-return]

    return decorate


def shown(value: Any, ids: Any) -> str:
    if callable(ids):
        return str(ids(value))
    text: str = getattr(value, "__qualname__", None) or repr(value)
    return text if len(text) < 100 else f"{text[:90]}..."


@contextmanager
def collected(count: int) -> Iterator[Callable[[str], Any]]:
    """Gives the context of one case, `case(title)`, and fails at the end if any case did; skips if every case did."""
    failures: dict[str, BaseException] = {}
    skipped: list[BaseException] = []

    @contextmanager
    def case(title: str) -> Iterator[None]:
        try:
            yield
        except pytest.skip.Exception as skip:
            skipped.append(skip)
        except (Exception, pytest.fail.Exception) as failure:
            failures[title] = failure

    yield case
    if failures:
        told = [f"[{title}] {type(failure).__name__}: {failure}" for title, failure in failures.items()]
        heading = f"{len(failures)} of {count} cases fail"
        raise AssertionError("\n".join([heading, *told[:MOST_SHOWN]])) from next(iter(failures.values()))
    assert count, "there are no cases"
    if len(skipped) == count:
        raise skipped[0]
