"""The other brokers of the cluster, as one broker reaches them."""

from __future__ import annotations

from .controller import Controller
from .topology import BrokerHandle


class Peers:
    """The live brokers that one broker can reach. All of them are in this process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.is_cut_off = False
        """Whether the broker neither reaches the others nor is reached by them, and learns of no change of the
        cluster's metadata; clients do reach it. For tests of partitioned networks."""

    def get(self, node_id: int) -> BrokerHandle | None:
        """The other broker of this number; None if it is not live, or one of the two is cut off."""
        registered = self._controller.broker(node_id)
        found = registered.broker if registered is not None else None
        return None if found is None or found.is_cut_off or self.is_cut_off else found
