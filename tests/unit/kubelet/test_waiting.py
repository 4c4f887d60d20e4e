"""Names in the order of a number, against a plain dictionary."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from winpool.kubelet.schedule import Waiting

COUNT = 12
NAMES = st.sampled_from([f"w{number}" for number in range(COUNT)])
NUMBERS = st.integers(0, 6).map(float)


class Machine(RuleBasedStateMachine):
    """Adds, removes and pops, and knows what has to come out."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = Waiting()
        self.known: dict[str, float] = {}

    def first(self) -> tuple[float, str]:
        return min((number, name) for name, number in self.known.items())

    @rule(name=NAMES, number=NUMBERS)
    def add(self, name: str, number: float) -> None:
        self.waiting.add(name, number)
        self.known[name] = number

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.waiting.remove(name)
        self.known.pop(name, None)

    @precondition(lambda self: self.known)
    @rule()
    def pop(self) -> None:
        _, name = self.first()
        assert self.waiting.head() == name
        assert self.waiting.pop() == name
        del self.known[name]

    @rule(number=NUMBERS)
    def until(self, number: float) -> None:
        expected = [
            name for at, name in sorted((at, name) for name, at in self.known.items()) if at <= number
        ]
        assert list(self.waiting.until(number)) == expected
        for name in expected:
            del self.known[name]

    @invariant()
    def the_first_is_the_smallest(self) -> None:
        assert self.waiting.first() == (self.first()[0] if self.known else None)
        assert len(self.waiting) == len(self.known)

    @invariant()
    def what_was_removed_does_not_pile_up(self) -> None:
        assert len(self.waiting._heap) <= 2 * COUNT + 1


TestWaiting: Any = Machine.TestCase
