"""Whether the pods of a node fit on the others: certain, certainly not, or unknown."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.builders import a_node
from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.api.quantity import GIB
from winpool.features.upgrade.capacity import (
    FITS,
    NOT_KNOWN,
    CapacityJudge,
    EligibleNodes,
    Fit,
    FreeCapacity,
    Need,
    _attempt,
)
from winpool.model.node import Allocatable, Node, NodeMemory, is_available
from winpool.model.pods import PodShape, Requests, Toleration, Workload, tolerates

BUILD: Final = "10.0.20348"
POD: Final = PodShape(Requests(cpu_milli=1000, memory=2 * GIB, pods=1))
SMALL: Final = PodShape(Requests(cpu_milli=100, memory=GIB // 4, pods=1))
EXISTS: Final = Toleration(operator="Exists")


def host(
    name: str, *, cpu: int | None = 4000, gib: int | None = 8, pods: int | None = 110, **more: object
) -> Node:
    """Return a node with so much allocatable; ``more`` is as for ``a_node``."""
    return replace(
        a_node(name, **more),  # type: ignore[arg-type]
        memory=NodeMemory(allocatable=None if gib is None else gib * GIB),
        allocatable=Allocatable(cpu_milli=cpu, pods=pods),
    )


def runs(*moving: tuple[PodShape, int], used: Requests | None = None, is_complete: bool = True) -> Workload:
    """Return a workload; without ``used`` the moving pods are all that runs there."""
    total = used or Requests(
        sum(shape.requests.cpu_milli * number for shape, number in moving),
        sum(shape.requests.memory * number for shape, number in moving),
        sum(number for _, number in moving),
    )
    return Workload(used=total, moving=moving, is_complete=is_complete)


def judged(
    own: Workload | None,
    *others: tuple[Node, Workload | None],
    builds: Mapping[str, str] | None = None,
) -> Fit:
    """Return the judgement of a node with the workload ``own`` beside ``others``."""
    node = host("own")
    listed = [(node, own), *others]
    judge = CapacityJudge(
        nodes=[each for each, _ in listed],
        workloads={each.name: workload for each, workload in listed if workload is not None},
        build_of=lambda each: (builds or {}).get(each.name, BUILD),
    )
    return judge.judge(node)


EMPTY: Final = runs()
FULL: Final = runs(used=Requests(4000, 8 * GIB, 110))


@pytest.mark.parametrize(
    ("moving", "others", "expected"),
    [
        pytest.param([], [], FITS, id="nothing moves"),
        pytest.param([(POD, 1)], [("w1", EMPTY)], FITS, id="room on another"),
        pytest.param([(POD, 4)], [("w1", EMPTY)], FITS, id="exactly full"),
        pytest.param([(POD, 8)], [("w1", EMPTY), ("w2", EMPTY)], FITS, id="spread over two"),
        pytest.param([(POD, 1), (SMALL, 12)], [("w1", EMPTY)], FITS, id="large and small"),
        pytest.param(
            [(POD, 5)], [("w1", EMPTY)], Fit(1, 0, ("requests 1000m CPU and 2Gi memory",)), id="one too many"
        ),
        pytest.param(
            [(POD, 2)], [("w1", FULL)], Fit(2, 0, ("requests 1000m CPU and 2Gi memory",)), id="full node"
        ),
        pytest.param([(POD, 3)], [], Fit(3, 0, ("requests 1000m CPU and 2Gi memory",)), id="no other node"),
        pytest.param(
            [(SMALL, 1), (POD, 4)],
            [("w1", EMPTY)],
            Fit(1, 0, ("requests 1000m CPU and 2Gi memory",)),
            id="in sum",
        ),
    ],
)
def test_pods_fit_by_what_they_request(
    moving: Sequence[tuple[PodShape, int]], others: Sequence[tuple[str, Workload]], expected: Fit
) -> None:
    assert judged(runs(*moving), *((host(name), workload) for name, workload in others)) == expected


@pytest.mark.parametrize(
    "other",
    [
        host("w1", ready="False"),
        host("w1", ready="Unknown"),
        host("w1", unschedulable=True),
        host("w1", deleting=True),
        host("w1", taints=["os=windows:NoSchedule"]),
        host("w1", taints=["os=windows:NoExecute"]),
        host("w1", cpu=500),
        host("w1", gib=1),
        host("w1", pods=0),
    ],
    ids=["not Ready", "silent", "cordoned", "deleting", "NoSchedule", "NoExecute", "CPU", "memory", "pods"],
)
def test_a_node_that_cannot_take_pods_is_a_certain_misfit(other: Node) -> None:
    fit = judged(runs((POD, 1)), (other, EMPTY))
    assert (fit.unfit, fit.unknown) == (1, False)


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ("os=windows:PreferNoSchedule", None, True),
        ("os=windows:NoSchedule", Toleration(key="os", operator="Equal", value="windows"), True),
        ("os=windows:NoSchedule", Toleration(key="os", value="linux"), False),
        ("os=windows:NoExecute", EXISTS, True),
        ("os=windows:NoExecute", replace(EXISTS, seconds=300), False),
    ],
)
def test_tolerations_are_compared_with_taints(taint: str, toleration: Toleration | None, fits: bool) -> None:
    shape = replace(POD, tolerations=(toleration,) if toleration else ())
    assert (judged(runs((shape, 1)), (host("w1", taints=[taint]), EMPTY)) == FITS) is fits


def test_a_taint_that_was_added_at_two_times_is_one_taint() -> None:
    taint = a_node(taints=["os=windows:NoExecute"]).taints[0]
    other = replace(host("w1"), taints=(structs.replace(taint, time_added="2026-11-01T12:00:00Z"),))
    assert judged(runs((replace(POD, tolerations=(EXISTS,)), 1)), (other, EMPTY)) == FITS


def test_a_selector_is_compared_with_labels() -> None:
    picky = replace(POD, selector=(("disk", "ssd"), ("kubernetes.io/os", "windows")))
    assert judged(runs((picky, 1)), (host("w1", labels={"disk": "ssd"}), EMPTY)) == FITS
    assert judged(runs((picky, 1)), (host("w1", labels={"disk": "hdd"}), EMPTY)) == Fit(
        1,
        0,
        ("requests 1000m CPU and 2Gi memory, on nodes with disk=ssd, kubernetes.io/os=windows",),
    )


def test_pods_that_ask_for_another_build_are_unclear() -> None:
    """By a RuntimeClass that has changed since they were created: nodes of that build are not looked at."""
    newer = replace(POD, selector=((WINDOWS_BUILD_LABEL, "10.0.26100"),))
    same = replace(POD, selector=((WINDOWS_BUILD_LABEL, BUILD),))
    labelled = host("w1", labels={WINDOWS_BUILD_LABEL: BUILD})
    assert judged(runs((newer, 3), (same, 1)), (labelled, EMPTY)) == Fit(0, 3)
    assert judged(runs((newer, 3), (same, 5)), (labelled, EMPTY)).unfit == 1
    nonsense = replace(POD, selector=((WINDOWS_BUILD_LABEL, "newest"),))
    assert judged(runs((nonsense, 1)), (labelled, EMPTY)).unfit == 1


def test_pods_of_two_selectors_share_the_room_of_a_node() -> None:
    ssd, fast = (replace(POD, selector=((key, "yes"),)) for key in ("ssd", "fast"))
    both = host("w1", labels={"ssd": "yes", "fast": "yes"})
    assert judged(runs((ssd, 2), (fast, 2)), (both, EMPTY)) == FITS
    assert judged(runs((ssd, 3), (fast, 2)), (both, EMPTY)).unfit == 1


def test_pods_of_which_it_is_not_clear_who_takes_them_are_counted_apart() -> None:
    unclear = replace(POD, unclear="it has a volume")
    strange = replace(POD, tolerations=(Toleration(key="os", operator="Gt", value="1"),))
    assert judged(runs((unclear, 5), (strange, 2), (POD, 1)), (host("w1"), EMPTY)) == Fit(0, 7)
    assert judged(runs((unclear, 5), (POD, 1)), (host("w1"), FULL)).unfit == 1


@pytest.mark.parametrize(
    ("other", "workload", "build"),
    [
        (host("w1", cpu=None), EMPTY, BUILD),
        (host("w1", gib=None), EMPTY, BUILD),
        (host("w1", pods=None), EMPTY, BUILD),
        (host("w1"), None, BUILD),
        (host("w1"), runs(is_complete=False), BUILD),
        (host("w1"), EMPTY, ""),
    ],
    ids=["no CPU", "no memory", "no pods", "not surveyed", "incomplete", "build unknown"],
)
def test_a_node_of_which_too_little_is_known_takes_nothing_and_proves_nothing(
    other: Node, workload: Workload | None, build: str
) -> None:
    assert judged(runs((POD, 1)), (other, workload), builds={"w1": build}) == NOT_KNOWN
    assert judged(runs((POD, 1)), (other, workload), (host("w2"), EMPTY), builds={"w1": build}) == FITS


def test_what_is_known_of_such_a_node_still_proves_a_misfit() -> None:
    full_of_known = runs(used=Requests(3500, 0, 1), is_complete=False)
    assert judged(runs((POD, 1)), (host("w1"), full_of_known)).unfit == 1
    assert judged(runs((POD, 1)), (host("w1", cpu=500, gib=None), None)).unfit == 1
    assert judged(runs((POD, 1)), (host("w1", taints=["a:NoSchedule"], cpu=None), None)).unfit == 1


def test_another_build_takes_nothing() -> None:
    assert judged(runs((POD, 1)), (host("w1"), EMPTY), builds={"w1": "10.0.26100"}).unfit == 1


def test_too_little_of_the_node_itself_is_unknown() -> None:
    others = ((host("w1"), EMPTY),)
    assert judged(None, *others) == NOT_KNOWN
    assert judged(runs((POD, 1), is_complete=False), *others) == NOT_KNOWN
    assert judged(runs((POD, 1)), *others, builds={"own": ""}) == NOT_KNOWN
    assert judged(runs(), *others, builds={"own": ""}) == FITS
    assert judged(runs((POD, 5), is_complete=False), *others).unfit == 1


def test_a_node_that_was_not_given_is_unknown() -> None:
    judge = CapacityJudge(nodes=[host("w1")], workloads={"own": runs((POD, 1))}, build_of=lambda _: BUILD)
    assert judge.judge(host("own")) == NOT_KNOWN


def test_pods_that_request_nothing_need_only_a_place() -> None:
    best_effort = PodShape(Requests(pods=1))
    crowded = runs(used=Requests(9000, 9 * GIB, 100))
    assert judged(runs((best_effort, 10)), (host("w1"), crowded)) == FITS
    assert judged(runs((best_effort, 11)), (host("w1"), crowded)).unfit == 1


def test_a_hostile_pool_takes_a_bounded_number_of_comparisons() -> None:
    """Thousands of taints and of tolerations: then it is not known, which is unclear and no misfit."""
    nodes = [host(f"w{number}", taints=[f"t{number}:NoSchedule"]) for number in range(500)]
    shapes = [
        replace(POD, tolerations=(Toleration(key=f"t{number}", operator="Exists"),)) for number in range(500)
    ]
    judge = CapacityJudge(
        nodes=nodes,
        workloads={node.name: runs((shape, 1)) for node, shape in zip(nodes, shapes, strict=True)},
        build_of=lambda _: BUILD,
    )
    assert {judge.judge(node) for node in nodes} == {Fit(0, 1)}


@pytest.mark.parametrize("size", [2**63 - 1, 2**80])
def test_amounts_beyond_every_machine_are_no_error(size: int) -> None:
    huge = PodShape(Requests(size, size, 1))
    assert judged(runs((huge, 3)), (host("w1"), EMPTY)).unfit == 3
    assert (
        judged(runs((huge, 1)), (replace(host("w1"), allocatable=Allocatable(size, size)), EMPTY)).unfit == 1
    )


class Tried(list[FreeCapacity]):
    """Counts how many of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[FreeCapacity]:
        for each in super().__iter__():
            self.looks += 1
            yield each


@pytest.mark.parametrize("steps", range(1, 80))
def test_an_attempt_ends_after_its_steps_wherever_the_last_one_falls(steps: int) -> None:
    """Also on the node that the pods come from, and on one that takes the last pod of a shape."""
    capacities = Tried((number, 1, 1, 1) for number in range(100))
    eligible = cast("EligibleNodes", SimpleNamespace(sure=capacities))
    need = Need(eligible, cpu=1, memory=1, low=(1, 1), nodes=1, selector=(), key=())
    _attempt([(need, 2)] * 20, 5, steps, roomiest=True)
    assert capacities.looks <= steps + 1


def test_nodes_outside_of_the_pool_keep_a_misfit_from_being_certain() -> None:
    own, full = host("own"), host("w1")
    workloads = {"own": runs((POD, 1)), "w1": FULL}

    def beside(*others: Node, builds: Mapping[str, str] | None = None) -> Fit:
        judge = CapacityJudge(
            nodes=[own, full],
            workloads=workloads,
            build_of=lambda node: (builds or {}).get(node.name, BUILD),
            others=others,
        )
        return judge.judge(own)

    assert beside().unfit == 1
    assert beside(host("x1")) == NOT_KNOWN
    assert beside(host("x1", taints=["a:NoSchedule"]), host("x2", unschedulable=True)).unfit == 1
    assert beside(host("x1", gib=1), host("x2"), builds={"x2": "10.0.17763"}).unfit == 1
    assert beside(host("x2"), builds={"x2": ""}) == NOT_KNOWN


def test_nodes_outside_of_the_pool_take_nothing() -> None:
    """Nor do they say that something fits: what runs there is not known."""
    judge = CapacityJudge(
        nodes=[host("own"), host("w1")],
        workloads={"own": runs((POD, 1)), "w1": EMPTY},
        build_of=lambda _: BUILD,
        others=[host("x1")],
    )
    assert judge.judge(host("own")) == FITS
    assert judge.judge(host("w1")) == FITS


# Against brute force

sizes = st.sampled_from([0, 1, 2, 3, 4])
TAINT: Final = "dedicated=x:NoSchedule"


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    return PodShape(
        Requests(draw(sizes) * 1000, draw(sizes) * GIB, 1),
        selector=draw(st.sampled_from([(), (), (("disk", "ssd"),)])),
        tolerations=draw(st.sampled_from([(), (), (EXISTS,)])),
        unclear=draw(st.sampled_from(["", "", "", "", "it has a volume"])),
    )


@st.composite
def neighbours(draw: st.DrawFn, name: str) -> tuple[Node, Workload | None, str]:
    node = host(
        name,
        cpu=draw(st.sampled_from([None, *range(0, 7000, 1000), *range(2000, 7000, 1000)])),
        gib=draw(st.sampled_from([None, *range(7), *range(2, 7)])),
        pods=draw(st.sampled_from([None, 0, 1, 2, 3, 4, 5])),
        labels=draw(st.sampled_from([{}, {"disk": "ssd"}])),
        taints=draw(st.sampled_from([(), (), (), (TAINT,)])),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
    )
    used = Requests(draw(st.integers(0, 2)) * 1000, draw(st.integers(0, 2)) * GIB, draw(st.integers(0, 1)))
    workload = runs(used=used, is_complete=draw(st.sampled_from([True, True, True, False])))
    return (
        node,
        draw(st.sampled_from([workload, workload, workload, None])),
        draw(st.sampled_from([BUILD, BUILD, BUILD, BUILD, "", "10.0.17763"])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Workload, list[tuple[Node, Workload | None, str]]]:
    moving = draw(st.lists(st.tuples(shapes(), st.integers(1, 2)), max_size=3))
    others = [draw(neighbours(f"w{number}")) for number in range(draw(st.integers(0, 3)))]
    return runs(*moving), others


def most_placed(
    pods: Sequence[PodShape], others: Sequence[tuple[Node, Workload | None, str]], *, hopeful: bool
) -> int:
    """Return how many pods can be placed at most, by trying all; ``hopeful``: what is unknown is room."""
    rooms = []
    for node, workload, build in others:
        is_known = workload is not None and workload.is_complete and build == BUILD
        has = (node.allocatable.cpu_milli, node.memory.allocatable, node.allocatable.pods)
        if (
            not is_available(node)
            or build not in (BUILD, "")
            or not (hopeful or (is_known and None not in has))
        ):
            continue
        used = workload.used if workload else Requests()
        rooms.append(
            (
                node,
                tuple(
                    10**18 if each is None else max(each - taken, 0)
                    for each, taken in zip(has, (used.cpu_milli, used.memory, used.pods), strict=True)
                ),
            )
        )
    return max(
        (
            sum(place is not None for place in places)
            for places in product([None, *range(len(rooms))], repeat=len(pods))
            if all(
                place is None or takes(rooms[place][0], pod) for pod, place in zip(pods, places, strict=True)
            )
            and all(
                sum(amount_of(pod)[each] for pod, place in zip(pods, places, strict=True) if place == number)
                <= room[each]
                for number, (_, room) in enumerate(rooms)
                for each in range(3)
            )
        ),
        default=0,
    )


def amount_of(pod: PodShape) -> tuple[int, int, int]:
    return pod.requests.cpu_milli, pod.requests.memory, 1


def takes(node: Node, pod: PodShape) -> bool:
    return all(node.labels.get(key) == value for key, value in pod.selector) and all(
        tolerates(pod.tolerations, key=each.key, value=each.value, effect=each.effect) for each in node.taints
    )


@given(worlds())
def test_a_judgement_is_true_of_every_placement(
    world: tuple[Workload, list[tuple[Node, Workload | None, str]]],
) -> None:
    own, others = world
    fit = judged(
        own,
        *((node, workload) for node, workload, _ in others),
        builds={node.name: build for node, _, build in others},
    )
    pods = [shape for shape, number in own.moving for _ in range(number) if not shape.unclear]
    assert fit.unclear == own.moving_pods - len(pods)
    if fit.unfit:
        assert most_placed(pods, others, hopeful=True) <= len(pods) - fit.unfit
        assert fit.examples
    elif not fit.unknown:
        assert most_placed(pods, others, hopeful=False) == len(pods)


@given(worlds(), st.randoms(use_true_random=False))
def test_a_judgement_does_not_depend_on_the_order_of_nodes(
    world: tuple[Workload, list[tuple[Node, Workload | None, str]]], chance: random.Random
) -> None:
    own, others = world
    builds = {node.name: build for node, _, build in others}
    first = judged(own, *((node, workload) for node, workload, _ in others), builds=builds)
    mixed = list(others)
    chance.shuffle(mixed)
    moving = list(own.moving)
    chance.shuffle(moving)
    again = judged(
        replace(own, moving=tuple(moving)), *((node, workload) for node, workload, _ in mixed), builds=builds
    )
    assert again == first


def test_small_worlds_are_seldom_unknown() -> None:
    """Where everything about the nodes is known, bounds and placement together decide nearly all."""
    chance = random.Random(18)
    unknown = 0
    for _ in range(1000):
        moving = [
            (PodShape(Requests(chance.randint(0, 4) * 500, chance.randint(0, 8) * GIB // 2, 1)), 1)
            for _ in range(chance.randint(1, 8))
        ]
        others = [
            (host(f"w{number}", cpu=chance.randint(1, 6) * 1000, gib=chance.randint(1, 8)), EMPTY)
            for number in range(chance.randint(1, 4))
        ]
        unknown += judged(runs(*moving), *others).unknown
    assert unknown <= 50
