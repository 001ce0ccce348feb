"""What only a broker of kmini can do, asked of another Kafka: it is refused in one sentence when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from kmini.protocol.errors import InvalidState

Refuse = Callable[[str], NoReturn]
"""Refuses a call, named as in "clock.advance". Raises."""


class NeedsKmini(InvalidState):
    """A method needs a broker of kmini, and the address leads to another Kafka, or to a broker that others use, too."""


def refuse(what: str) -> NoReturn:
    """Raise NeedsKmini."""
    raise NeedsKmini(f"needs kmini: {what}")


class Unavailable:
    """Stands for a method, or for a handle with methods. Its attributes are such, too; a call is refused."""

    def __init__(self, name: str, refuse: Refuse) -> None:
        self._name = name
        self._refuse = refuse

    def __getattr__(self, name: str) -> Unavailable:
        if name.startswith("_"):
            raise AttributeError(name)
        return Unavailable(f"{self._name}.{name}", self._refuse)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(self._name)

    def __repr__(self) -> str:
        return f"<{self._name} needs kmini>"


class RefusingTable:
    """Has the operations that Kafka's protocol allows, and refuses the others of a broker of kmini by their names."""

    _local: ClassVar[type]
    """The table of a broker of kmini."""
    _called: ClassVar[str] = ""
    """How a user gets the handle of the table, with a dot behind: "topic."."""
    refuse: Refuse

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(self._local, name):
                raise AttributeError(name)
            self.refuse(self._called + name)
