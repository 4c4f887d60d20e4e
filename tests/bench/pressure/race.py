"""One machine of a family under everybody: who meets the pressure how well.

All contenders begin in one world, since nothing differs until one of them evicts a pod. Then it gets a copy
of its own. So a healthy machine is simulated once, however many watch it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from math import nan
from typing import Final

from bench.pressure.actors import Actor, KubeletHard, KubeletSoft, NoOne, RamLine
from bench.pressure.operator_node import VARIANTS, OperatorNode, Told
from bench.pressure.scene import Family, Guest, Scene, scene_of
from bench.pressure.virtual import MAX_PODS
from bench.pressure.world import Evicted, Harm, World

BESIDE = " + kubelet"
"""Ends the name of a variant of the operator that has an armed kubelet beside it."""
NO_ONE, ORACLE = "no one", "oracle"
KUBELETS = ("kubelet hard", "kubelet soft")


@dataclass(frozen=True, slots=True)
class Result:
    """How one contender has done on one machine.

    ``lead`` is how many seconds before the harm that comes where no one acts it began its first eviction; NaN
    where there is no harm, or it evicted nothing. ``unattributed`` are the seconds in which the operator said
    that the memory belongs to no pod, though nothing outside of pods has grown. ``stale`` are the evictions
    that it decided on measurements that were too old.
    """

    family: str
    contender: str
    seed: int
    seconds: int
    thrashing: int
    denied: int
    evictions: int
    innocent: int
    lead: float = nan
    flips: int = 0
    unattributed: float = 0.0
    violations: int = 0
    stale: int = 0
    evicted: tuple[Evicted, ...] = ()

    @property
    def harm(self) -> int:
        """Seconds of harm."""
        return self.thrashing + self.denied


Rules = Callable[[], AbstractContextManager[object]]
"""What is in force while a contender thinks, and at no other time: the sweep changes numbers so."""


@dataclass
class _Team:
    """A contender: those who act together on one node."""

    name: str
    actors: Sequence[Actor]
    world: World
    told: Told | None = None
    stale: int = 0
    rules: Rules = nullcontext


def _teams(scene: Scene, world: World, *, max_pods: int) -> Iterator[_Team]:
    yield _Team(NO_ONE, (NoOne(),), world)
    yield _Team("kubelet hard", (KubeletHard(),), world)
    yield _Team("kubelet soft", (KubeletSoft(), KubeletHard()), world)
    yield _Team("RAM line", (RamLine(),), world)
    for variant in VARIANTS:
        alone = OperatorNode(scene, variant, max_pods=max_pods)
        yield _Team(variant.name, (alone,), world, alone.told)
        kubelet = KubeletHard()
        beside = OperatorNode(scene, variant, max_pods=max_pods, kubelet=kubelet)
        yield _Team(variant.name + BESIDE, (beside, kubelet), world, beside.told)


def race(family: Family, seed: int, *, max_pods: int = 3, only: Sequence[str] = ()) -> list[Result]:
    """Return how each contender does on this machine; ``only`` names those that are wanted."""
    scene = scene_of(family, seed)
    world = World(scene)
    wanted = {*only, NO_ONE}  # the oracle has to know when harm comes
    teams = [each for each in _teams(scene, world, max_pods=max_pods) if not only or each.name in wanted]
    _run(teams, world)
    idle = next(each.world for each in teams if each.name == NO_ONE)
    results = [_result(each, idle.harmed_at) for each in teams if not only or each.name in only]
    if not only or ORACLE in only:
        results.append(_result(_Team(ORACLE, (), _oracle(idle)), idle.harmed_at))
    return results


def race_by(rules: Sequence[Rules], family: Family, seed: int, *, only: Sequence[str]) -> list[list[Result]]:
    """Return how these contenders do by each of the rules, all on this machine at once."""
    scene = scene_of(family, seed)
    world = World(scene)
    found: list[list[_Team]] = []
    for each in rules:
        with each():
            teams = [team for team in _teams(scene, world, max_pods=MAX_PODS) if team.name in only]
        found.append([replace(team, rules=each) for team in teams])
    _run([team for teams in found for team in teams], world)
    return [[_result(team, None) for team in teams] for teams in found]


def _run(teams: Sequence[_Team], shared: World) -> None:
    """Let all act, each when it is due, from the start of their shared world to its end."""
    end = float(shared.scene.seconds)
    worlds: dict[Hashable, World] = {shared.past: shared}
    everybody = [(team, actor) for team in teams for actor in team.actors]
    queue = [(actor.due, number) for number, (_, actor) in enumerate(everybody)]
    heapify(queue)
    while queue and queue[0][0] < end:
        now, number = queue[0]
        team, actor = everybody[number]
        with team.rules():
            _act(team, actor, now, worlds)
        heapreplace(queue, (actor.due, number))
    for team in teams:
        team.world.step(end)


def _act(team: _Team, actor: Actor, now: float, worlds: dict[Hashable, World]) -> None:
    """Let an actor look, and carry out what it wants in a world in which that has happened."""
    team.world.step(now)
    for wish in actor.look(team.world):
        world = team.world.copy()
        done = world.evict(wish.guest, by_api=wish.by_api, at_once=wish.at_once)
        if done:
            team.stale += wish.is_stale and len(world.evicted) > len(team.world.evicted)
            # Contenders that have evicted the same pods at the same times live in the same world.
            team.world = worlds.setdefault(world.past, world)
            team.world.step(now)
        actor.answered(wish, done=done, world=team.world)


def _result(team: _Team, harmed_at: float | None) -> Result:
    """Return how the team has done; ``harmed_at`` is when harm comes where no one acts, if that is known."""
    scene, told = team.world.scene, team.told
    harm, evicted = team.world.harm, team.world.evicted
    has_lead = bool(evicted) and harmed_at is not None
    is_outside = scene.windows is not None or any(each.outside for each in scene.guests)
    return Result(
        family=scene.family.name,
        contender=team.name,
        seed=scene.seed,
        seconds=scene.seconds,
        thrashing=harm.thrashing,
        denied=harm.denied,
        evictions=len(evicted),
        innocent=sum(not each.guest.is_culprit for each in evicted),
        lead=(harmed_at or 0.0) - evicted[0].at if has_lead else nan,
        flips=told.flips if told else 0,
        unattributed=told.unattributed_seconds if told and not is_outside else 0.0,
        violations=sum(each.violates for each in evicted),
        stale=team.stale,
        evicted=tuple(evicted),
    )


# The oracle knows what comes and who brings it, and evicts no one else.

_ORACLE_LEAD_SECONDS: Final = 120.0
"""Four times the longest grace."""
_STEP_SECONDS: Final = 30.0


def _oracle(idle: World) -> World:
    """Return the world with the least harm that evictions of culprits leave; with the fewest of these.

    ``idle`` is the world in which no one acts. The culprits that want most memory at any time go first: no
    others would free more. Each goes two minutes before the harm begins, or as soon as it is there.
    """
    scene, best, harmed_at = idle.scene, idle, idle.harmed_at
    culprits = [each for each in scene.guests if each.is_culprit and each.owner != "DaemonSet"]
    culprits.sort(key=lambda each: -_most_of(scene, each))
    for count in range(1, len(culprits) + 1):
        if harmed_at is None or best.harm == Harm():
            break
        world = _after(scene, culprits[:count], max(0.0, harmed_at - _ORACLE_LEAD_SECONDS))
        best = min(best, world, key=lambda each: each.harm.seconds)
    return best


def _most_of(scene: Scene, guest: Guest) -> int:
    """Return the most that the pod wants at any time of the run, in bytes."""
    times = range(0, scene.seconds, int(_STEP_SECONDS))
    return max(guest.demand(each, seed=scene.seed).commit_bytes for each in times)


def _after(scene: Scene, evicted: Sequence[Guest], at: float) -> World:
    """Return the world at its end, after these evictions: at that time, or when the pod begins."""
    world = World(scene)
    for guest in sorted(evicted, key=lambda each: each.begins):
        world.step(max(at, guest.begins))
        if guest in world.pods():
            world.evict(guest, by_api=True)
    world.step(scene.seconds)
    return world
