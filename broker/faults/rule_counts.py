"""Of the requests that a fault rule means, those on which it acts: by count (`skip`, `times`, `on_call`, `every`), by
chance (`probability`), and until it ends (`for`, `until`)."""

from __future__ import annotations

from random import Random

from .rule import Rule


class RuleCounts:
    """Counts the requests that a rule means, and decides on which of them it acts.

    Two rules never share their luck: each draws numbers of its own.
    """

    def __init__(self, rule: Rule, *, seed: int, now_ms: int) -> None:
        """`seed` is that of all rules; `now_ms` in liveness time, from which a time limit counts."""
        self._which = which = rule.which
        self._random = Random(f"{seed if which.seed is None else which.seed}:{rule.name}")
        self._ends_ms = None if which.for_ms is None else now_ms + which.for_ms
        self._is_ended = False
        self.seen = 0
        """Requests that the rule means so far."""
        self.hits = 0
        """Requests on which it has acted."""

    @property
    def until(self) -> str | None:
        """The API whose first request ends the rule, while it has not come."""
        return None if self._is_ended else self._which.until

    def end(self) -> None:
        """Act on nothing more."""
        self._is_ended = True

    def is_over(self, now_ms: int) -> bool:
        """Whether it acts on nothing more."""
        which = self._which
        return (
            self._is_ended
            or (which.times is not None and self.hits >= which.times)
            or (self._ends_ms is not None and now_ms >= self._ends_ms)
            or bool(which.on_call and self.seen - which.skip >= max(which.on_call))
        )

    def takes(self, now_ms: int) -> bool:
        """Count a request that the rule means; return whether it is to act on it. `acted` then notes that it did."""
        is_over = self.is_over(now_ms)
        self.seen += 1
        which = self._which
        number = self.seen - which.skip
        if is_over or number <= 0 or number % which.every:
            return False
        if which.on_call and number not in which.on_call:
            return False
        return which.probability is None or self._random.random() < which.probability

    def acted(self) -> None:
        """Count an act."""
        self.hits += 1

    def jitter_ms(self, most_ms: int) -> int:
        """A random part of a delay."""
        return self._random.randint(0, most_ms) if most_ms else 0

    def why_never(self, now_ms: int) -> str:
        """Why the rule has acted on none of the requests that it means."""
        which = self._which
        if self.seen <= which.skip:
            return f"skip is {which.skip}"
        if which.on_call and self.seen - which.skip < min(which.on_call):
            return f"it acts on number {min(which.on_call)} first"
        if which.every > 1 and self.seen - which.skip < which.every:
            return f"it acts on every {which.every}th"
        if which.probability is not None:
            return f"its probability is {which.probability}"
        if self._is_ended and which.until:
            return f"{which.until} came first"
        if self._ends_ms is not None and now_ms >= self._ends_ms:
            return f"its {which.for_ms} ms were over"
        return "newer rules acted in its place"
