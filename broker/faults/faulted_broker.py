"""A broker as far as fault rules reach into it: one of this process, or one behind the proxy of `kmini trace`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..api.interception import Interceptor, Look
    from ..clock import Clock
    from .active_rule import ActiveRule


class FaultedServices(Protocol):
    """The parts of a broker that rules use."""

    clock: Clock
    registry_rules: Sequence[ActiveRule]
    """The rules about the schema registry beside the broker, the newest first."""

    def intercept(self, interceptor: Interceptor, look: Look) -> None: ...

    def intercept_no_more(self, interceptor: Interceptor) -> None: ...

    @property
    def node_id(self) -> int: ...

    @property
    def metrics(self) -> Any: ...


class FaultedBroker(Protocol):
    """A broker, as far as rules reach into it."""

    on_reset: list[Callable[[], object]]
    """Called when a reset begins."""

    @property
    def services(self) -> FaultedServices: ...

    @property
    def server(self) -> Any: ...

    @property
    def logs(self) -> Any:
        """Its logs, in whose files disk faults act; None where its files are out of reach."""
