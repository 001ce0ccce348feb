"""What doctor can find: one table with the check and the level of each, from which a finding takes both."""

from __future__ import annotations

import shlex
from typing import NamedTuple

OK = "ok"
WARN = "warn"
FAIL = "fail"
LEVELS = (OK, WARN, FAIL)
"""The mildest first. OK is information: it may say what would fail elsewhere, or what could not be seen."""


class Kind(NamedTuple):
    """What can be found."""

    check: str
    """The part of the examination: the first column."""
    level: str
    meaning: str
    """One sentence about when it is found."""


class Finding(NamedTuple):
    """What was found."""

    name: str
    """A key of `FINDINGS`."""
    text: str
    """What is the case, and where."""
    change: str = ""
    """What to change, or to type next; empty if there is nothing to do."""

    @property
    def check(self) -> str:
        return FINDINGS[self.name].check

    @property
    def level(self) -> str:
        return FINDINGS[self.name].level


ASKED = "HOST:PORT"
"""Stands in commands for the address that was asked."""


def command(*words: str) -> str:
    """A command of kmini to paste into a shell, whatever is in the names."""
    return f"kmini {' '.join(map(shlex.quote, words))} -b {ASKED}"


def at_address(finding: Finding, address: str) -> Finding:
    """The finding with commands that ask this address."""
    return finding._replace(change=finding.change.replace(f"-b {ASKED}", f"-b {address}"))


FINDINGS = {
    # --- reach: the address that was given
    "reached": Kind("reach", OK, "The address answers as a Kafka broker."),
    "nothing-answers": Kind("reach", FAIL, "No Kafka broker answers at any address that was given."),
    "login-refused-here": Kind("reach", FAIL, "The broker at the address that was given refuses the credentials."),
    "one-of-several-does-not-answer": Kind("reach", WARN, "One of several addresses that were given does not answer."),
    "no-metadata": Kind("reach", FAIL, "The broker does not tell the brokers and topics of its cluster."),
    # --- addresses: those that brokers tell clients to use
    "address-works": Kind("addresses", OK, "An advertised address resolves, connects and leads to its broker."),
    "host-does-not-resolve": Kind("addresses", FAIL, "An advertised host name has no address here."),
    "nothing-listens": Kind("addresses", FAIL, "No connection can be made to an advertised address."),
    "address-does-not-answer": Kind("addresses", FAIL, "An advertised address connects and does not answer as Kafka."),
    "login-refused": Kind("addresses", FAIL, "The listener that is advertised refuses the credentials."),
    "another-cluster": Kind("addresses", FAIL, "An advertised address leads to a broker of another cluster."),
    "another-broker": Kind("addresses", FAIL, "An advertised address leads to another broker of the cluster."),
    "shared-address": Kind("addresses", FAIL, "Several brokers advertise the same address."),
    "any-address-advertised": Kind(
        "addresses", FAIL, "0.0.0.0 or :: is advertised, which is no address to connect to."
    ),
    "impossible-port": Kind("addresses", FAIL, "An advertised port is not between 1 and 65535."),
    "loopback-for-others": Kind(
        "addresses", WARN, "A loopback address is advertised to a client that came by another address."
    ),
    "only-this-machine": Kind("addresses", OK, "A loopback address is advertised: containers cannot use it."),
    "only-ipv6": Kind("addresses", WARN, "An advertised host has IPv6 addresses only."),
    "coordinator-elsewhere": Kind("addresses", WARN, "A coordinator is named at another address than its broker."),
    "no-brokers": Kind("addresses", FAIL, "The cluster names no broker at all."),
    # --- server: release and features
    "features": Kind("server", OK, "The features that the cluster has finalized."),
    "missing-api": Kind("server", WARN, "The broker does not serve a request that common clients need."),
    # --- partitions
    "replicas-in-sync": Kind("partitions", OK, "Every partition has a leader, and all its replicas in sync."),
    "leaderless": Kind("partitions", FAIL, "A partition has no leader."),
    "too-few-replicas": Kind("partitions", WARN, "The replication factor is below min.insync.replicas."),
    "under-min-isr": Kind("partitions", FAIL, "Fewer replicas are in sync than min.insync.replicas."),
    "under-replicated": Kind("partitions", WARN, "A replica is not in sync."),
    "log-dir-offline": Kind("partitions", FAIL, "A log directory of a broker has failed."),
    "partitions-sampled": Kind("partitions", OK, "There are more partitions than are examined."),
    # --- topics
    "misspelt-topic": Kind("topics", WARN, "A topic was never written to, and one with a similar name was."),
    "topics-sampled": Kind("topics", OK, "There are more topics than have their names compared."),
    "topic-emptied": Kind("topics", OK, "Records were written to a topic, and all are deleted."),
    "no-offsets-topic": Kind("topics", FAIL, "__consumer_offsets is missing and cannot be created: too few brokers."),
    "no-transactions-topic": Kind("topics", WARN, "The same of __transaction_state."),
    # --- groups
    "groups-examined": Kind("groups", OK, "How many groups were examined."),
    "groups-not-described": Kind("groups", OK, "Groups whose members this client cannot ask for."),
    "groups-sampled": Kind("groups", OK, "There are more groups than are examined."),
    "group-on-missing-topic": Kind("groups", FAIL, "A member subscribes to a topic that does not exist."),
    "group-rebalancing": Kind("groups", WARN, "A group rebalances, and goes on with it while doctor looks."),
    "group-has-idle-members": Kind("groups", WARN, "A group has more members than its topics have partitions."),
    "group-without-members": Kind("groups", WARN, "A group has no members, and records wait for it."),
    "group-at-the-end": Kind("groups", WARN, "A group has no members, and has committed the end."),
    "committed-offset-deleted": Kind("groups", WARN, "A committed offset is before the first one of the log."),
    "committed-offset-beyond-end": Kind("groups", WARN, "A committed offset is behind the end of the log."),
    # --- transactions
    "transaction-left-open": Kind("transactions", WARN, "A transaction has been open for 5 seconds or more."),
    "transaction-not-known": Kind("transactions", WARN, "A last stable offset is behind without a known transaction."),
    # --- settings
    "topics-are-auto-created": Kind("settings", OK, "Requests of clients create topics."),
    "first-rebalance-waits": Kind("settings", OK, "The first consumer of a group waits for others."),
    "small-messages": Kind("settings", WARN, "Messages may be smaller only than producers send by default."),
    "min-isr-above-replication": Kind("settings", WARN, "min.insync.replicas is above default.replication.factor."),
    "unclean-elections": Kind("settings", WARN, "A replica that is behind may become leader."),
    "append-time": Kind("settings", WARN, "The broker replaces the timestamps of producers."),
    "recompression": Kind("settings", WARN, "The broker compresses batches anew."),
    "short-sessions": Kind("settings", WARN, "The sessions of consumers with default settings are refused."),
    "short-retention": Kind("settings", WARN, "Records are deleted within an hour."),
    # --- clock
    "clock-unknown": Kind("clock", OK, "Nothing shows that the clock of a broker differs."),
    "clock-ahead": Kind("clock", WARN, "A broker has stamped a record with a time that is ahead of this machine."),
    # --- what could not be asked
    "question-unanswered": Kind("questions", WARN, "A broker did not answer a question in time, or not as Kafka."),
    "not-allowed-to-see": Kind("questions", OK, "Access rules keep an answer from this user."),
    "question-not-served": Kind("questions", OK, "The release does not serve a question."),
}
"""All of them, by name, in the order of the checks."""

CHECKS = tuple(dict.fromkeys(kind.check for kind in FINDINGS.values()))


def ordered(findings: list[Finding]) -> list[Finding]:
    """In the order of the checks, those of a check with the worst first."""
    return sorted(findings, key=lambda one: (CHECKS.index(one.check), -LEVELS.index(one.level)))
