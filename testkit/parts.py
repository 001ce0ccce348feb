"""The handles that a broker and a cluster give, blocking and to be awaited: one entry in `Parts`, one in `AsyncParts`.

The methods that both have are in the list `SharedMethods`. A new handle is a table of coroutines over
`Operations`, and two classes made from one list of methods (`topic_handle.py` is an example). Its module is
imported here when it is used, because start-up time counts. Tests compare names, signatures and docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.testkit.handle import Awaiting, Blocking, method
from kmini.testkit.operations import Operations

if TYPE_CHECKING:
    from kmini.testkit.clock_handle import AsyncClock, Clock
    from kmini.testkit.fault_handle import AsyncFaults, Faults
    from kmini.testkit.group_handle import AsyncGroup, Group
    from kmini.testkit.journal_handle import AsyncRequests, Requests
    from kmini.testkit.topic_handle import AsyncTopic, Topic
    from kmini.testkit.transaction_handle import AsyncTransactions, Transactions


class SharedMethods:
    """The methods that a broker and a cluster have in common."""

    brokers = method(Operations.brokers)
    delete_topic = method(Operations.delete_topic)
    topics = method(Operations.topics)
    produce = method(Operations.produce)
    records = method(Operations.records)
    wait_for_records = method(Operations.wait_for_records)
    delete_records = method(Operations.delete_records)
    apply_retention = method(Operations.apply_retention)
    compact = method(Operations.compact)
    advance_clock = method(Operations.advance_clock)
    reset = method(Operations.reset)
    groups = method(Operations.groups)
    clients = method(Operations.clients)
    disconnect = method(Operations.disconnect)
    advertise = method(Operations.advertise)
    crash = method(Operations.crash)
    load = method(Operations.load)
    snapshot = method(Operations.snapshot)
    restore = method(Operations.restore)


class Parts(SharedMethods, Blocking[Operations]):
    """The handles of a `Broker` and of a `Cluster`."""

    @property
    def clock(self) -> Clock:
        """The clock of the broker, or of all brokers of the cluster; tests move it."""
        from kmini.testkit.clock_handle import Clock

        return Clock(self)

    @property
    def requests(self) -> Requests:
        """The requests that clients made, if a journal is written (`journal=True`)."""
        from kmini.testkit.journal_handle import Requests

        return Requests(self)

    def report(self) -> str:
        """What the broker knows for a test that has failed, in at most 40 lines: the likely reason, what the test
        waited for in vain, topics and their last records, groups, open transactions, fault rules, and the last requests
        by client. A test that fails and
        has a broker by a fixture shows it by itself."""
        from kmini.testkit.report_handle import Report

        return Report(self).text()

    @property
    def faults(self) -> Faults:
        """The faults that a test asks for: rules about requests, connections and the disk."""
        from kmini.testkit.fault_handle import Faults

        return Faults(self)

    def topic(self, name: str) -> Topic:
        """A handle of one topic, which need not exist yet."""
        from kmini.testkit.topic_handle import Topic

        return Topic(self, name)

    def group(self, name: str) -> Group:
        """A handle of one consumer group, which need not exist yet."""
        from kmini.testkit.group_handle import Group

        return Group(self, name)

    @property
    def transactions(self) -> Transactions:
        """The transactions of the broker, or of all brokers of the cluster."""
        from kmini.testkit.transaction_handle import Transactions

        return Transactions(self)


class AsyncParts(SharedMethods, Awaiting[Operations]):
    """The handles of an `AsyncBroker` and of an `AsyncCluster`."""

    @property
    def clock(self) -> AsyncClock:
        """The clock of the broker, or of all brokers of the cluster; tests move it."""
        from kmini.testkit.clock_handle import AsyncClock

        return AsyncClock(self)

    @property
    def requests(self) -> AsyncRequests:
        """The requests that clients made, if a journal is written (`journal=True`)."""
        from kmini.testkit.journal_handle import AsyncRequests

        return AsyncRequests(self)

    async def report(self) -> str:
        """What the broker knows for a test that has failed, in at most 40 lines: the likely reason, what the test
        waited for in vain, topics and their last records, groups, open transactions, fault rules, and the last requests
        by client. A test that fails and
        has a broker by a fixture shows it by itself."""
        from kmini.testkit.report_handle import AsyncReport

        return await AsyncReport(self).text()

    @property
    def faults(self) -> AsyncFaults:
        """The faults that a test asks for: rules about requests, connections and the disk."""
        from kmini.testkit.fault_handle import AsyncFaults

        return AsyncFaults(self)

    def topic(self, name: str) -> AsyncTopic:
        """A handle of one topic, which need not exist yet."""
        from kmini.testkit.topic_handle import AsyncTopic

        return AsyncTopic(self, name)

    def group(self, name: str) -> AsyncGroup:
        """A handle of one consumer group, which need not exist yet."""
        from kmini.testkit.group_handle import AsyncGroup

        return AsyncGroup(self, name)

    @property
    def transactions(self) -> AsyncTransactions:
        """The transactions of the broker, or of all brokers of the cluster."""
        from kmini.testkit.transaction_handle import AsyncTransactions

        return AsyncTransactions(self)
