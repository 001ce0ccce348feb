"""What doctor can find: one table with the check and the level of each, from which a finding takes both."""

from __future__ import annotations

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
