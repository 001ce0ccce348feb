"""What the handles of one topic and of one group of a broker that runs elsewhere have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from kmini.remote.needs_kmini import Unavailable
from kmini.remote.remote_operations import RemoteOperations
from kmini.testkit.argument_checks import ARGUMENTS
from kmini.testkit.handle import Handle
from kmini.testkit.name_hints import unknown_attribute

Table = TypeVar("Table")


class RemoteHandle(Handle[Table]):
    """A handle of what has a name. A method that only the handle of a broker of kmini has is refused when it is
    called."""

    _kind: ClassVar[str]
    """ "topic" or "group"."""
    _local: ClassVar[type]
    """The handle of a broker of kmini."""
    _operations_of: Callable[[RemoteOperations, str], Table]
    """Makes the table of operations."""

    def __init__(self, host: Handle[RemoteOperations], name: str) -> None:
        """Raises TypeError for a name that is no text."""
        ARGUMENTS[self._kind]("name", name)
        operations_of = type(self)._operations_of
        super().__init__(host._thread, lambda: operations_of(host._operations, name))
        self._refuse = host._operations.refuse
        self._called, self._about = f"{self._kind}({name!r}).", {self._kind: name}
        self.name = name
        """The name of the topic, or the id of the group."""

    def __getattr__(self, name: str) -> Unavailable:
        if name.startswith("_") or not hasattr(self._local, name):
            raise AttributeError(unknown_attribute(type(self), name), name=name)
        return Unavailable(f"{self._kind}.{name}", self._refuse)
