"""The table of findings: order and levels."""

from __future__ import annotations

from kmini.doctor.findings import Finding, at_address, command, ordered


def test_findings_are_in_the_order_of_the_checks_and_the_worst_of_a_check_is_first() -> None:
    found = [Finding("only-this-machine", "c"), Finding("nothing-listens", "b"), Finding("reached", "a")]
    assert [finding.text for finding in ordered(found)] == ["a", "b", "c"]


def test_a_finding_has_the_check_and_the_level_of_its_name() -> None:
    finding = Finding("nothing-listens", "here")
    assert (finding.check, finding.level) == ("addresses", "fail")


def test_commands_ask_the_address_that_was_asked_and_quote_their_words() -> None:
    finding = Finding("group-at-the-end", "", f"or: {command('group', 'reset', 'a b', 'orders')} (--execute does it)")
    changed = at_address(finding, "kafka:9092").change
    assert changed == "or: kmini group reset 'a b' orders -b kafka:9092 (--execute does it)"
