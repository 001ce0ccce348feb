"""The fault rules of a broker or a cluster, as the control API shows and takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.faults.rule_checks import rules_from_json
from kmini.protocol.errors import ResourceNotFound
from kmini.testkit.fault_handle import FaultOperations, RuleOperations
from kmini.testkit.phrases import there_is_no

if TYPE_CHECKING:
    from kmini.broker.faults.active_rule import ActiveRule
    from kmini.broker.faults.active_rules import ActiveRules


class RuleStatus(NamedTuple):
    """A fault rule and what it has met."""

    name: str
    rule: dict[str, Any] | None
    """As JSON; None for a rule with a Python function, which has no JSON."""
    hits: int
    """How often it has acted."""
    seen: int
    """How many requests came that it means."""
    arrived: int
    """How many requests it has held so far."""
    held: tuple[str, ...]
    """The requests that it holds now."""
    summary: str
    """What it has met, in words."""
    why: str
    """Why it never acted, with its nearest miss; empty if it has."""
    is_over: bool = False
    """Whether it acts on nothing more: it has acted as often as it was to, or its time has passed."""

    @classmethod
    def of(cls, active: ActiveRule, rules: ActiveRules) -> RuleStatus:
        rule = RuleOperations(active, rules)
        try:
            document = rule.to_json()
        except ValueError:
            document = None
        return cls(
            rule.name,
            document,
            rule.hits,
            rule.seen,
            active.arrived,
            tuple(rule.held),
            rule.summary(),
            "" if rule.hits else rule.why(),
            active.is_over,
        )


class FaultControl(FaultOperations):
    """All fault rules."""

    async def statuses(self) -> list[RuleStatus]:
        """The rules in force, in the order in which they were made."""
        return [RuleStatus.of(active, self._rules) for active in self._rules.rules]

    async def load(self, rules: Sequence[dict[str, Any]], *, replaces: bool = True) -> list[RuleStatus]:
        """Put rules in force, all at once or none. A rule without a name gets one that is free; one whose name is taken
        replaces the other, or is refused unless it `replaces`. Raises ValueError, which says where."""
        parsed = rules_from_json(rules, self._rules.possible())
        free = [
            rule if document.get("name") is not None else replace(rule, name=self._rules.free_name(rule.name))
            for rule, document in zip(parsed, rules, strict=True)
        ]
        made = self._rules.arm(free, replaces=replaces)
        return [RuleStatus.of(active, self._rules) for active in made]

    async def replace(self, rules: Sequence[dict[str, Any]]) -> list[RuleStatus]:
        """Take all rules back and put these in force. If one is wrong, nothing changes. Raises ValueError, which says
        where."""
        rules_from_json(rules, self._rules.possible())
        self._rules.clear()
        return await self.load(rules)


class RuleControl(RuleOperations):
    """One fault rule. Raises ResourceNotFound, which lists the rules."""

    def __init__(self, rules: ActiveRules, name: str) -> None:
        found = next((active for active in rules.rules if active.rule.name == name), None)
        if found is None:
            raise ResourceNotFound(there_is_no("fault rule", name, [active.rule.name for active in rules.rules]))
        super().__init__(found, rules)

    async def status(self) -> RuleStatus:
        """The rule and what it has met."""
        return RuleStatus.of(self._active, self._rules)

    async def remove(self) -> RuleStatus:
        """Take the rule back; requests that it holds go on. Returns what it had met."""
        last = await self.status()
        self._rules.remove(self._active.rule.name)
        return last
