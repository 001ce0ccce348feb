"""The calls of a test that waited in vain: the failure report has them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

MOST_OF_ARGUMENT = 60
"""Characters of an argument that the text of a call shows."""


class FailedWait(NamedTuple):
    """A call of a test that waited, and whose time-out passed."""

    call: str
    """As the test has written it, about: "topic('orders').wait_for(3)"."""
    topic: str | None
    """The topic that it is about; None if it is about none."""
    group: str | None
    message: str
    """What there was instead."""
    ended_s: float
    """When it ended, in seconds since the epoch."""

    @classmethod
    def of(
        cls, call: str, args: tuple[object, ...], kwargs: Mapping[str, Any], about: Mapping[str, Any], message: str
    ) -> FailedWait:
        """`call` is the name of the method as a test calls it; `about` has the topic and the group, if there are
        some."""
        shown = [*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())]
        text = f"{call}({', '.join(shown)})"
        return cls(text, about.get("topic"), about.get("group"), message, time.time())


def _shown(argument: object) -> str:
    if callable(argument):
        return str(getattr(argument, "__name__", argument))
    text = repr(argument)
    return text if len(text) <= MOST_OF_ARGUMENT else f"{text[: MOST_OF_ARGUMENT - 3]}..."
