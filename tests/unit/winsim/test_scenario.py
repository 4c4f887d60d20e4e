"""Scenario files: what they may say, what a mistake sounds like, and that playing them can be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.every import every
from testbed.errors import TestbedError
from testbed.winsim.player import play
from testbed.winsim.scenario import Scenario

STORY = """
seed: 7
steps:
  - at: 1m
    start: {nodes: all}
  - at: 5s
    stop: {nodes: 10%, os: windows}
  - at: 10s
    spread: 20s
    name: flu
    set_ready: {nodes: 3, ready: false, reason: Flu}
  - at: 70
    join: {count: 2, labels: {agentpool: blue}, taints: ["os=windows:NoSchedule"]}
"""


class Recorder:
    """Stands for a fleet of which every verb gets the first three nodes; time passes only in ``sleep``."""

    def __init__(self, *, slowness: float = 0.0) -> None:
        self.seconds = 100.0
        self.slowness = slowness
        self.calls: list[tuple[float, str, Any]] = []

    def act(self, verb: str, arguments: dict[str, Any], *, choose_only: bool = False) -> tuple[str, ...]:
        if not choose_only:
            self.calls.append((round(self.seconds - 100.0, 3), verb, arguments.get("nodes")))
        self.seconds += self.slowness
        return ("w01", "w02", "w03")

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def played(text: str) -> tuple[Recorder, list[str]]:
    fleet, said = Recorder(), list[str]()
    play(Scenario.parse(text, where="s.yaml"), fleet=fleet, say=said.append, now=fleet.now, sleep=fleet.sleep)
    return fleet, said


def test_steps_come_in_the_order_of_their_times() -> None:
    scenario = Scenario.parse(STORY, where="s.yaml")
    assert [(step.at, step.number, step.verb) for step in scenario.steps] == [
        (5, 2, "stop"),
        (10, 3, "set_ready"),
        (60, 1, "start"),
        (70, 4, "join"),
    ]


def test_every_step_draws_by_a_seed_of_its_own_unless_it_names_one() -> None:
    text = "seed: 7\nsteps: [{at: 1s, stop: {nodes: 1}}, {at: 2s, stop: {nodes: 1, seed: mine}}]"
    seeds = [step.arguments["seed"] for step in Scenario.parse(text, where="s.yaml").steps]
    assert seeds == ["7/1", "mine"]


def test_it_is_played_at_its_times_and_the_same_again() -> None:
    fleet, said = played(STORY)
    assert [(at, verb) for at, verb, nodes in fleet.calls if verb != "set_ready"] == [
        (5, "stop"),
        (60, "start"),
        (70, "join"),
    ]
    spread = [(at, nodes) for at, verb, nodes in fleet.calls if verb == "set_ready"]
    assert sorted(nodes for _, nodes in spread) == [["w01"], ["w02"], ["w03"]]
    assert all(10 <= at <= 30 for at, _ in spread)
    assert len({at for at, _ in spread}) == 3
    assert said[1] == "   10.0 s  step 3 set_ready (flu): 3 nodes: w01, w02, w03, over 20 s"
    again, _ = played(STORY)
    assert again.calls == fleet.calls


def test_another_seed_draws_other_moments() -> None:
    assert played(STORY)[0].calls != played(STORY.replace("seed: 7", "seed: 8"))[0].calls


def test_a_step_that_comes_due_while_another_works_is_done_right_after_it() -> None:
    text = "steps: [{at: 1s, stop: {nodes: 1}}, {at: 2s, start: {nodes: 1}}]"
    fleet = Recorder(slowness=5)
    scenario = Scenario.parse(text, where="s.yaml")
    play(scenario, fleet=fleet, say=lambda _: None, now=fleet.now, sleep=fleet.sleep)
    assert [(at, verb) for at, verb, _ in fleet.calls] == [(1, "stop"), (6, "start")]


VERBS = "one verb of: join, leave, replace, stop, start, restart, reboot, patch, reimage, "
VERBS += "set_ready, set_pods_ready"


@every(
    ("step", "sentence"),
    [
        (
            "{at: 5s, stopp: {nodes: 3}}",
            f"there is no verb 'stopp'; a step has at, spread, name, and {VERBS}",
        ),
        ("{at: 5s}", f"no verb; a step has at, spread, name, and {VERBS}"),
        ("{at: 5s, stop: {nodes: 1}, start: {nodes: 1}}", f"stop and start; a step has .* {VERBS}"),
        ("{stop: {nodes: 1}}", r"step 1\.at: is missing"),
        ("{at: soon, stop: {nodes: 1}}", r"step 1\.at: 'soon' is not a length of time such as"),
        ("{at: 1s, stop: {nodes: 10 %}}", r"stop\.nodes: '10 %' is not a number of nodes \(3\), a part"),
        ("{at: 1s, stop: {nodes: 1, os: dos}}", r"stop\.os: 'dos': input should be 'windows' or 'linux'"),
        ("{at: 1s, stop: {node: 1, nodes: 1}}", r"stop\.node: there is no such field; there are: nodes, os"),
        ("{at: 1s, stop: 3}", "stop: 3 is not a map of fields; there are: nodes, os, seed"),
        ("{at: 1s, set_ready: {nodes: 1}}", r"set_ready\.ready: is missing \(true or false\)"),
        ("{at: 1s, set_ready: {nodes: 1, ready: maybe}}", r"'maybe' is neither true nor false"),
        ("{at: 1s, join: {}}", "join: give either count or names"),
        ("{at: 1s, join: {count: 1, release: 2022}}", "join: give release and revision together"),
        (
            "{at: 1s, join: {count: 1, os: linux, release: 2022, revision: 1}}",
            "join: a release is for windows machines only",
        ),
        (
            "{at: 1s, join: {count: 1, release: 95, revision: 1}}",
            r"join\.release: 95 is no release of Windows Server that is simulated: 2019, 2022, 2025",
        ),
        (
            "{at: 1s, reboot: {nodes: 1, down: 500ms}}",
            r"reboot\.down: a machine is down for 1s at least, not 0\.5s",
        ),
        (
            "{at: 1s, set_updates: {nodes: 1, result: explode}}",
            r"set_updates\.result: 'explode': input should be 'succeed', 'fail' or 'never_return'",
        ),
        ("{at: 1s, surge: {nodes: 1, release: 2025}}", "surge: give release and revision together"),
        ("{at: 1s, patch: {nodes: 1}}", r"patch\.revision: is missing \(the revision that machines have"),
        (
            "{at: 1s, patch: {nodes: 1, revision: 65536}}",
            r"patch\.revision: 65536: input should be less than or equal to 65535",
        ),
        ("{at: 1s, reimage: {nodes: 1, revision: 1}}", r"reimage\.release: is missing \(the release that"),
        ("{at: 1s, join: {count: 0}}", r"join\.count: 0: input should be greater than 0"),
        ("{at: 1s, join: {count: 1, taints: [x]}}", r"join\.taints: 'x' is not KEY\[=VALUE\]:EFFECT"),
        ("{at: 1s, spread: 1s, join: {count: 1}}", "spread: join chooses no nodes"),
        ("stop", "'stop' is not a step; a step has at, spread, name"),
        ("{at: 1s, at: 2s, stop: {nodes: 1}}", "the key 'at' stands twice .* line 1"),
    ],
)
def test_a_mistake_names_file_step_field_and_what_is_allowed(step: str, sentence: str) -> None:
    with pytest.raises(TestbedError, match=sentence) as refused:
        Scenario.parse(f"steps: [{step}]", where="s.yaml")
    assert all(line.startswith("s.yaml: ") for line in str(refused.value).splitlines())


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(TestbedError) as refused:
        Scenario.parse("steps: [{at: x, stop: {nodes: 1}}, {at: 1s, halt: {}}]", where="s.yaml")
    assert [line.partition(":")[2].split(":")[0] for line in str(refused.value).splitlines()] == [
        " step 1.at",
        " step 2",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("steps: []", r"s\.yaml\.steps: \[\]: list should have at least 1 item"),
        ("seed: 1", r"s\.yaml\.steps: is missing \(a list of steps\)"),
        ("step: []\nsteps: [1]", r"s\.yaml\.step: there is no such field; there are: seed, steps"),
        ("- at: 1s", "is not a map of fields; there are: seed, steps"),
        ("steps: [", r"s\.yaml: not YAML: .*line 1"),
    ],
)
def test_a_mistake_in_the_frame_is_a_sentence_too(text: str, sentence: str) -> None:
    with pytest.raises(TestbedError, match=sentence):
        Scenario.parse(text, where="s.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"cannot read the scenario .*none\.yaml: No such file"):
        Scenario.read(tmp_path / "none.yaml")
