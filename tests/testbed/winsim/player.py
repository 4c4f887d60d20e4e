"""Plays a scenario against a fleet."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from testbed.progress import Report
from testbed.winsim.scenario import Scenario, Step

NAMED_AT_MOST = 10
"""Enough to look one up; thousands of names would hide the sentence."""


class Actor(Protocol):
    """What a scenario is played against: ``FleetControl``."""

    def act(self, verb: str, arguments: dict[str, Any], *, choose_only: bool = False) -> tuple[str, ...]:
        """Do something, or only tell to which nodes it would be done."""


@dataclass(order=True, frozen=True, slots=True)
class _Due:
    """One call to come. Ties go by the step, then by the name, so that the order is always the same."""

    at: float
    number: int
    name: str
    step: Step = field(compare=False)


def play(
    scenario: Scenario,
    *,
    fleet: Actor,
    say: Report,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Do what the scenario says when it says so, and return after its last step.

    A step that comes due while an earlier one is still at work is done right after it.

    Raises:
        TestbedError: the fleet does not answer, or a step cannot be done; the rest is not.

    """
    began = now()
    due = [_Due(step.at, step.number, "", step) for step in scenario.steps]
    heapq.heapify(due)
    while due:
        sleep(max(0.0, due[0].at - (now() - began)))
        call = heapq.heappop(due)
        if call.name:
            fleet.act(call.step.verb, {**call.step.arguments, "nodes": [call.name]})
        elif call.step.spread and "nodes" in call.step.arguments:
            names = fleet.act(call.step.verb, call.step.arguments, choose_only=True)
            for name, moment in spread(names, step=call.step, seed=scenario.seed).items():
                heapq.heappush(due, _Due(call.at + moment, call.number, name, call.step))
            say(f"{_when(call)} {_what(call.step, names)}, over {call.step.spread:g} s")
        else:
            names = fleet.act(call.step.verb, call.step.arguments)
            say(f"{_when(call)} {_what(call.step, names)}")


def spread(names: tuple[str, ...], *, step: Step, seed: int | str) -> dict[str, float]:
    """Draw a moment for each node: seconds after the step's own time."""
    random = Random(f"{seed}/{step.number}/spread")
    return {name: random.uniform(0, step.spread) for name in names}


def _when(call: _Due) -> str:
    return f"{call.at:7.1f} s  step {call.number}"


def _what(step: Step, names: tuple[str, ...]) -> str:
    return f"{step.verb}{f' ({step.name})' if step.name else ''}: {in_words(names)}"


def in_words(names: tuple[str, ...]) -> str:
    """Count nodes, and name the first few."""
    count = f"{len(names)} node{'' if len(names) == 1 else 's'}"
    if not names:
        return count
    return f"{count}: {', '.join(names[:NAMED_AT_MOST])}{' ...' if len(names) > NAMED_AT_MOST else ''}"
