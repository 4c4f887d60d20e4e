"""Random worlds in which much happens for a minute or two, for the loops to get through."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from harness.builders import A_SPEC, Object, a_body, a_node, a_taint
from harness.loops import NEVER, MemoryCluster, MemoryOperator
from harness.pods import EVERYTHING, a_pod, an_agent
from harness.writes import relabelled, retainted
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.kube.errors import ApiError, Conflict, Forbidden, Invalid, TooManyRequests, Unavailable
from winpool.model.node import Node, NodeMemory

SPECS: Final[tuple[Object, ...]] = (
    {},
    {"labels": {"team": "payments"}},
    {"labels": {"team": "billing"}, "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]},
    {
        "taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "os", "value": "windows", "effect": "NoExecute"},
        ]
    },
    {"taints": [{"key": "os", "effect": "NoExecute", "onIntolerantPods": "Delete"}]},
    {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]},
    {
        "startupTaints": [{"key": "example.com/starting", "effect": "NoExecute"}],
        "validation": {
            "readySeconds": 0,
            "timeoutSeconds": 60,
            "requiredPods": [{"namespace": "shop", "podSelector": {"matchLabels": {"app": "web"}}}],
        },
        "labels": {"team": "payments"},
    },
    {"reservedMemory": {"onMismatch": "Taint"}},
    {"labels": {"team": "payments"}, "mode": "DryRun"},
    {"labels": {"team": "payments"}, "mode": "Paused"},
    {"os": {"version": "XP"}},
)
POOLS: Final = ("a", "b")
NODES: Final = ("w1", "w2", "w3", "w4")
UNREADABLE: Final[tuple[Object, ...]] = ({"nodes": -1}, {"conditions": [{"type": "Ready"}]})

ERRORS: Final[tuple[ApiError, ...]] = (
    Unavailable("503", status=503),
    TooManyRequests("429", status=429, retry_after=20),
    TooManyRequests("429", status=429),
    Unavailable("no answer"),
    Conflict("409", status=409),
)
REFUSALS: Final[tuple[ApiError, ...]] = (
    Invalid("422", status=422),
    Forbidden("403 denied by a policy", status=403),
    Unavailable("500 failed calling webhook", status=500),
    Conflict("409", status=409),
)
GIB: Final = 1024**3


class RestlessWorld:
    """A world that is made by ``chance`` alone, and says what has happened in it."""

    pods_seconds = NEVER
    """How often its operators list all pods."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.cluster = MemoryCluster()
        self.operators: list[MemoryOperator] = []
        self.starts: list[float] = []
        """When each of them started."""
        self.is_healed = False
        self._said: list[str] = []
        self._made = 0

    def __str__(self) -> str:
        return "\n".join(self._said)

    async def play(self) -> None:
        """Let things happen, and most of it end."""
        chance = self.chance
        for name in NODES[: chance.randint(0, len(NODES))]:
            self._join(name)
        self._create("a")
        self._start()
        for _ in range(chance.randint(1, 6)):
            await asyncio.sleep(chance.choice((0, 0.01, 0.03, 0.2, 1, 5, 30, 300)))
            happening = chance.choice(self._happenings())
            self._say(happening.__name__.removeprefix("_"))
            if happening == self._restart:
                await self.operators[-1].stop()
            happening()
        await asyncio.sleep(chance.choice((1, 10, 60)))
        self.is_healed = chance.random() < 0.7
        if self.is_healed:
            self._heal()

    async def stop(self) -> None:
        """End the operator."""
        await self.operators[-1].stop()

    # What happens

    def _happenings(self) -> list[Callable[[], None]]:
        return [
            self._join_or_leave,
            self._join_or_leave,
            self._heartbeat,
            self._drift,
            self._drift,
            self._lose_the_record,
            self._flip_ready,
            self._create_or_edit,
            self._delete,
            self._run_a_pod,
            self._end_the_pods,
            self._fail_pods,
            self._slow_pods,
            self._fail_writes,
            self._refuse_a_node,
            self._go_deaf,
            self._lag,
            self._burst,
            self._break_the_status,
            self._restart,
            self._restart,
        ]

    def _join_or_leave(self) -> None:
        name = self.chance.choice(NODES)
        if name in self.cluster.nodes:
            self.cluster.drop_node(name)
        else:
            self._join(name)

    def _join(self, name: str) -> None:
        self._made += 1
        age = timedelta(seconds=self.chance.choice((0, 30, 500, 700, 7200)))
        created = self.cluster.now() - age
        is_ready = self.chance.random() < 0.8
        node = replace(
            a_node(name, ready="True" if is_ready else "False"),
            uid=f"uid-{self._made}-of-{name}",
            created=created,
            ready_since=created if is_ready else None,
            memory=NodeMemory(capacity=16 * GIB, allocatable=self.chance.choice((13, 15)) * GIB),
        )
        self._say(f"{name} joins, {age.total_seconds():.0f} s old, ready: {is_ready}")
        self.cluster.put_node(node)

    def _heartbeat(self) -> None:
        if node := self._any_node():
            self.cluster.put_node(node)  # no wanted field changes, its version does

    def _drift(self) -> None:
        if node := self._any_node():
            changed = relabelled(node, team=self.chance.choice(("foreign", None)))
            taints = self.chance.choice(((), ("os=other:NoSchedule",), None))
            self.cluster.put_node(changed if taints is None else retainted(changed, *map(a_taint, taints)))

    def _lose_the_record(self) -> None:
        if node := self._any_node():
            text = self.chance.choice(("{", None))
            rest = {key: value for key, value in node.annotations.items() if key != APPLIED_ANNOTATION}
            found = rest if text is None else {**rest, APPLIED_ANNOTATION: text}
            self.cluster.put_node(replace(node, annotations=found))

    def _flip_ready(self) -> None:
        if node := self._any_node():
            ready = "False" if node.ready == "True" else "True"
            self.cluster.put_node(replace(node, ready=ready, ready_since=self.cluster.now()))

    def _create_or_edit(self) -> None:
        name = self.chance.choice(POOLS)
        if name not in self.cluster.bodies:
            self._create(name)
        else:
            self.cluster.edit_pool(name, **self._spec())

    def _create(self, name: str) -> None:
        self._made += 1
        body = a_body(name, uid=f"uid-{self._made}-of-{name}")
        self.cluster.put_pool({**body, "spec": {**A_SPEC, **self._spec()}})

    def _spec(self) -> Object:
        spec = self.chance.choice(SPECS)
        self._say(f"spec {spec}")
        return spec

    def _delete(self) -> None:
        for name, body in list(self.cluster.bodies.items()):
            if "deletionTimestamp" not in body["metadata"] and self.chance.random() < 0.5:
                self.cluster.delete_pool(name)

    def _run_a_pod(self) -> None:
        if node := self._any_node():
            self._made += 1
            tolerations = self.chance.choice(((), EVERYTHING))
            make = self.chance.choice((a_pod, an_agent))
            is_ready = self.chance.random() < 0.5
            pod = make(f"shop/p{self._made}", node=node.name, tolerations=tolerations, is_ready=is_ready)
            self.cluster.pods.append(pod)

    def _end_the_pods(self) -> None:
        self.cluster.pods.clear()

    def _fail_pods(self) -> None:
        trouble = self.cluster.trouble
        trouble.pods = None if trouble.pods else self.chance.choice(ERRORS[:4])

    def _slow_pods(self) -> None:
        self.cluster.trouble.pods_seconds = self.chance.choice((0.1, 5, 60, 1e6))

    def _fail_writes(self) -> None:
        trouble = self.cluster.trouble
        error = self.chance.choice(ERRORS)
        if self.chance.random() < 0.5:
            trouble.writes = None if trouble.writes else error
        else:
            trouble.statuses = None if trouble.statuses else error

    def _refuse_a_node(self) -> None:
        self.cluster.trouble.nodes[self.chance.choice(NODES)] = self.chance.choice(REFUSALS)

    def _go_deaf(self) -> None:
        self.cluster.trouble.deaf = not self.cluster.trouble.deaf

    def _lag(self) -> None:
        self.cluster.trouble.lag = self.chance.choice((0.001, 0.3, 5))

    def _burst(self) -> None:
        for _ in range(self.chance.randint(2, 5)):
            self.chance.choice((self._heartbeat, self._drift, self._flip_ready))()

    def _break_the_status(self) -> None:
        for body in list(self.cluster.bodies.values()):
            self.cluster.put_pool({**body, "status": self.chance.choice(UNREADABLE)})

    def _restart(self) -> None:
        self._start()

    def _heal(self) -> None:
        trouble = self.cluster.trouble
        trouble.deaf = False
        trouble.writes = trouble.statuses = trouble.pods = None
        trouble.nodes.clear()
        trouble.pods_seconds = 0.5
        self.operators[-1].list_everything()

    def _start(self) -> None:
        operator = MemoryOperator(self.cluster, pods_seconds=self.pods_seconds)
        self.operators.append(operator)
        self.starts.append(self.cluster.time)
        operator.start()

    def _any_node(self) -> Node | None:
        nodes = list(self.cluster.nodes.values())
        return self.chance.choice(nodes) if nodes else None

    def _say(self, what: str) -> None:
        self._said.append(f"{self.cluster.time:9.3f} {what}")
