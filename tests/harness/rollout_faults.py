"""Plays a world of rollouts: what goes wrong, by chance, and how all faults end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from harness.builders import GUARD, RED, deleted, edited
from harness.restless_rollouts import (
    REFUSED,
    VETO,
    Cluster,
    KilledError,
    Operator,
    kernel,
    revision_of,
    state_of,
)
from harness.rollout_world import THEIRS, rolling_pool
from harness.upgrade_feature import BEHIND, TARGET
from winpool.api.keys import (
    AKS_UPGRADE_STATUS_LABEL,
    HOLD_ANNOTATION,
    UPGRADE_ANNOTATION,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_RETRY_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.features.upgrade.claims import ENDED_BADLY, Claim, claim_of
from winpool.model.node import Node, NodeCondition, is_available
from winpool.model.pool import GuardState
from winpool.ownership.record import Record, record_of

STEPS: Final = 160
ROUNDS: Final = 400
LISTS: Final = timedelta(minutes=10)
BORROWED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""No one but the operator sets it in these worlds."""
DEADLINED: Final = ("Claimed", "Draining", "Drained", "Upgrading", "Rejoining", "Validating")
"""The states that the table of the issue gives a deadline."""


class Play:
    """One world, made from ``chance``; with ``forces`` drains are forced, and budgets closed for long."""

    def __init__(self, chance: Random, *, forces: bool = False) -> None:
        self.chance = chance
        self.faults = (*FAULTS, Play.starve, Play.starve) if forces else FAULTS
        upgrade = {
            "method": chance.choice(("InPlace", "Replace")),
            "maxUnavailable": chance.choice((1, 1, 2)),
            "maxFailedNodes": chance.choice((0, 1, 5)),
            "soakSeconds": chance.choice((0, 120)),
            "rejoinTimeoutSeconds": 600,
            "settleTimeoutSeconds": 600,
            "actuator": {"type": "External", "external": {"timeoutSeconds": 900}},
            "topologyKey": chance.choice(("", "topology.kubernetes.io/zone")),
            "drain": {
                "timeoutSeconds": chance.choice((60, 300)),
                "onTimeout": chance.choice(("Wait", "Restore", "Quarantine")),
                "volumeDetachTimeoutSeconds": 120,
                **({"timeoutSeconds": 600, "onTimeout": "Force"} if forces else {}),
            },
            **chance.choice(({}, {"canary": {"nodes": 1, "soakSeconds": 60}})),
        }
        validation = {"readySeconds": chance.choice((0, 30)), "timeoutSeconds": 300}
        self.cluster = Cluster(chance, chance.randint(2, 4), upgrade, validation)
        self.target = TARGET
        self.operators = [Operator(self.cluster, "a")]
        if chance.random() < 0.5:
            self.operators.append(Operator(self.cluster, "b"))
        self.freshness = chance.choice((0.1, 0.4, 0.9))
        self.acted: set[str] = set()
        self.was_guarded = True
        self.said: list[str] = []

    def __str__(self) -> str:
        """What has happened lately."""
        nodes = [
            f"{each.name} {state_of(each)} ready={each.ready} cordoned={each.unschedulable} "
            f"{each.versions.kernel} {dict(each.annotations)}"
            for each in self.cluster.nodes.values()
        ]
        slots = [f"{each.node} {each.state}" for each in self.cluster.pool.status.slots]
        return "\n".join([*self.said[-60:], *nodes, f"slots {slots} at {self.cluster.now}"])

    def say(self, text: str) -> None:
        """Remember what happens."""
        self.said.append(f"{self.cluster.now:%d %H:%M:%S} {text}")

    # Chaos

    def disturb(self) -> None:
        """Let everything go wrong for a while."""
        for each in self.operators:
            each.list_all()
        for _ in range(STEPS):
            self.step()

    def step(self) -> None:
        """Let something happen, and then a few seconds pass."""
        chance, cluster = self.chance, self.cluster
        dice = chance.random()
        if dice < 0.6:
            self.operate(chance.choice(self.operators))
        elif dice < 0.7:
            cluster.answer(is_lost=chance.random() < 0.1)
        elif dice < 0.85:
            self.patch_machine()
        else:
            fault = chance.choice(self.faults)
            fault(self)
        cluster.pass_time(chance.choice((0, 0, 1, 3, 10)))
        if chance.random() < 0.04:
            cluster.pass_time(chance.choice((60, 120, 400, 1000)))
        for each in self.operators:
            if chance.random() < 0.5:
                each.receive()
            if chance.random() < self.freshness:
                each.see_nodes()
            if chance.random() < self.freshness:
                each.see_pool()

    def operate(self, operator: Operator, *, kills: bool = True) -> bool:
        """Have an operator make a pass; now and then it is killed at one of its writes."""
        survey = operator.survey
        if survey is None or self.cluster.now - survey.started > LISTS:
            operator.see()
            operator.list_all()
        operator.dies_after = self.chance.randint(0, 2) if kills and self.chance.random() < 0.06 else None
        count = len(self.cluster.promises.trail)
        try:
            return operator.act()
        except KilledError:
            self.say(f"{operator.name} is killed")
            operator.restart()
            return True
        finally:
            for name, node, state in self.cluster.promises.trail[count:]:
                self.say(f"{name}: {node} is {state}")

    def starve(self) -> None:
        """For twenty minutes the budget lets no pod go, and nothing else goes wrong."""
        self.say("the budget is closed for long")
        self.cluster.is_closed = True
        for _ in range(120):
            for each in self.operators:
                each.see()
                self.operate(each, kills=False)
            self.cluster.answer()
            self.cluster.pass_time(10)

    def patch_machine(self, *, is_patient: bool = False) -> None:
        """The actor works on a node that is handed over, once for each claim."""
        for name, node in [*self.cluster.nodes.items()]:
            claim = claim_of(node)
            if node.labels.get(UPGRADE_STATE_LABEL) != "Upgrading" or not isinstance(claim, Claim):
                continue
            if claim.claim not in self.acted:
                self.acted.add(claim.claim)
                self.work_on(name, claim, is_patient=is_patient)
                return

    def work_on(self, name: str, claim: Claim, *, is_patient: bool) -> None:
        """Do what an actor does, or fails to do."""
        cluster, chance = self.cluster, self.chance
        target = claim.target.revision or self.target
        how = chance.choice(PATIENT if is_patient else WAYS)
        self.say(f"the actor: {name} {how}")
        if how == "is replaced":
            cluster.remove(name)
            cluster.machines[name] = (cluster.now + timedelta(seconds=chance.choice((30, 300))), target)
        elif how == "gets another name":
            cluster.remove(name)
            revision = target if is_patient else chance.choice((target, target, 4052))
            at = cluster.now + timedelta(seconds=chance.choice((30, 300)))
            cluster.machines[cluster.new_name()] = (at, revision)
        elif how == "surges":
            at = cluster.now + timedelta(seconds=chance.choice((1, 60)))
            cluster.machines[cluster.new_name()] = (at, target)
            cluster.leaving[name] = at + timedelta(seconds=chance.choice((1, 60, 600)))
        elif how == "is said to be done":
            cluster.annotate(name, UPGRADE_DONE_ANNOTATION, claim.claim)
        elif how == "is patched hot":
            cluster.turn(name, versions=kernel(target))
            cluster.annotate(name, UPGRADE_DONE_ANNOTATION, claim.claim)
        elif how != "is forgotten":
            cluster.made += 1
            cluster.turn(name, ready="False", ready_since=cluster.now, boot_id=f"boot-{cluster.made}")
            revision = revision_of(cluster.nodes[name]) if how == "comes back as it was" else target
            if how != "never returns":
                cluster.machines[name] = (cluster.now + timedelta(seconds=90), revision)

    # Faults

    def a_node(self) -> str | None:
        """Choose a node."""
        return self.chance.choice(sorted(self.cluster.nodes)) if self.cluster.nodes else None

    def with_a_node(self, change: Callable[[str, Node], None]) -> None:
        """Do something with some node."""
        if (name := self.a_node()) is not None:
            change(name, self.cluster.nodes[name])

    def cordon(self) -> None:
        """A person cordons a node, or uncordons it, whoever had cordoned it."""

        def change(name: str, node: Node) -> None:
            self.say(f"someone: cordon of {name} {not node.unschedulable}")
            self.cluster.turn(name, unschedulable=not node.unschedulable)

        self.with_a_node(change)

    def hold(self) -> None:
        """A person holds a node, or lets it go."""

        def change(name: str, node: Node) -> None:
            is_held = HOLD_ANNOTATION in node.annotations
            self.say(f"someone: hold of {name} {not is_held}")
            self.cluster.annotate(name, HOLD_ANNOTATION, None if is_held else "")

        self.with_a_node(change)

    def veto(self) -> None:
        """A workload does not want its node to be disrupted now, or does not mind any more."""

        def change(name: str, node: Node) -> None:
            labels = {**node.labels}
            is_vetoed = labels.pop(AKS_UPGRADE_STATUS_LABEL, None) is not None
            self.say(f"someone: veto of {name} {not is_vetoed}")
            self.cluster.turn(name, labels=labels if is_vetoed else {**labels, **VETO})

        self.with_a_node(change)

    def drain_themselves(self) -> None:
        """Someone else says by a condition of ours that they drain a node, or no longer."""

        def change(name: str, node: Node) -> None:
            rest = tuple(each for each in node.conditions if each.type != "DrainInProgress")
            if len(rest) == len(node.conditions):
                self.say(f"someone else drains {name}")
                rest = (*rest, NodeCondition("DrainInProgress", "True", THEIRS))
            self.cluster.turn(name, conditions=rest)

        self.with_a_node(change)

    def scribble(self) -> None:
        """A person writes what is no claim, or what asks for something."""

        def change(name: str, node: Node) -> None:
            key, value = self.chance.choice(
                (
                    (UPGRADE_ANNOTATION, "garbage"),
                    (UPGRADE_ANNOTATION, '{"state":"Upgrading"}'),
                    (UPGRADE_REQUESTED_ANNOTATION, "please"),
                    (UPGRADE_RETRY_ANNOTATION, ""),
                    (UPGRADE_DONE_ANNOTATION, "another"),
                    ("example.com/note", str(self.cluster.made)),
                    ("karpenter.sh/do-not-disrupt", "true"),
                )
            )
            self.say(f"someone: {key} of {name} = {value}")
            self.cluster.annotate(name, key, value)

        self.with_a_node(change)

    def relabel(self) -> None:
        """A person writes our label."""

        def change(name: str, node: Node) -> None:
            value = self.chance.choice(("UpToDate", "Upgrading", "Required", "Failed"))
            self.say(f"someone: label of {name} = {value}")
            self.cluster.turn(name, labels={**node.labels, UPGRADE_STATE_LABEL: value})

        self.with_a_node(change)

    def flap(self) -> None:
        """A kubelet is not Ready for a while, or only restarts."""

        def change(name: str, node: Node) -> None:
            if node.ready == "True" and name not in self.cluster.machines:
                self.say(f"{name} is not Ready")
                ready = self.chance.choice(("False", "Unknown"))
                self.cluster.turn(name, ready=ready, ready_since=self.cluster.now)
                end = self.cluster.now + timedelta(seconds=self.chance.choice((20, 200)))
                self.cluster.machines[name] = (end, revision_of(node))

        self.with_a_node(change)

    def roll_back(self) -> None:
        """A machine runs another revision, or says nothing of it."""

        def change(name: str, node: Node) -> None:
            self.say(f"{name} is rolled back")
            self.cluster.turn(name, versions=kernel(4052))

        self.with_a_node(change)

    def delete_node(self) -> None:
        """A node is deleted, and made again or not."""

        def change(name: str, node: Node) -> None:
            if len(self.cluster.nodes) > 1:
                self.say(f"{name} is deleted")
                self.cluster.remove(name)
                self.cluster.machines.pop(name, None)
                if self.chance.random() < 0.8:
                    at = self.cluster.now + timedelta(seconds=self.chance.choice((0, 20, 300)))
                    new = self.cluster.new_name() if self.chance.random() < 0.2 else name
                    self.cluster.machines[new] = (at, self.chance.choice((4052, self.target)))

        self.with_a_node(change)

    def leave(self) -> None:
        """A node leaves the pool, or comes back."""

        def change(name: str, node: Node) -> None:
            (key,) = RED
            rest = {each: value for each, value in node.labels.items() if each != key}
            self.say(f"someone: {name} leaves or comes back")
            self.cluster.turn(name, labels=rest if key in node.labels else {**rest, **RED})

        self.with_a_node(change)

    def disturb_pods(self) -> None:
        """A pod comes, a pod that is ending is stuck, or ends at last."""
        cluster = self.cluster
        ending = sorted(cluster.ends)
        if ending and self.chance.random() < 0.6:
            uid = self.chance.choice(ending)
            cluster.ends[uid] = None if cluster.ends[uid] is not None else cluster.now
            return
        free = sorted(name for name, node in cluster.nodes.items() if is_available(node))
        if free:
            cluster.fill(self.chance.choice(free), 1)

    def close_budget(self) -> None:
        """The budget lets no pod go, or does again."""
        self.cluster.is_closed = not self.cluster.is_closed
        self.say(f"the budget is closed: {self.cluster.is_closed}")

    def fail_lists(self) -> None:
        """Lists fail, or come again."""
        self.cluster.can_list = not self.cluster.can_list
        self.say(f"lists come: {self.cluster.can_list}")

    def tolerate(self) -> None:
        """Pods come that tolerate a cordon."""
        self.cluster.tolerant = not self.cluster.tolerant

    def lose_guard(self) -> None:
        """The guard is gone, not known, or in force."""
        self.cluster.guard = self.chance.choice(
            (GuardState(), GuardState(is_unknown=True), *3 * [GuardState(identity=GUARD)])
        )
        self.was_guarded &= self.cluster.guard.identity == GUARD
        self.say(f"guard: {self.cluster.guard}")

    def lose_status(self) -> None:
        """Someone removes the status of the pool; a watch brings that at once."""
        self.say("the status is lost")
        empty = self.cluster.pool.status.model_copy(update={"slots": ()})
        self.cluster.change_pool(status=empty, written_status=empty.to_object())
        for each in self.operators:
            each.see()

    def edit(self) -> None:
        """A person edits the spec: something else is asked for, or nothing."""
        block: dict[str, Any] | None = dict(self.cluster.upgrade)
        more: dict[str, Any] = {"os": {**BEHIND, "targetRevision": self.target}}
        what = self.chance.choice(EDITS)
        self.say(f"someone: {what}")
        if what == "another target":
            self.target += 1
            more["os"]["targetRevision"] = self.target
        elif what == "no block":
            block = None
        elif what == "give up":
            block = {**(block or {}), "pauseRequests": [{"owner": "sre", "nodesInWork": "Restore"}]}
        elif what == "pause":
            block = {**(block or {}), "pauseRequests": [{"owner": "sre"}]}
        elif what == "not accepted":
            more["os"]["version"] = REFUSED
        elif what in ("Manual", "OnRequest"):
            block = {**(block or {}), "strategy": what}
        elif what in ("InPlace", "Replace"):
            block = {**(block or {}), "method": what}
        self.respec(block, more, mode=what if what in ("Paused", "DryRun") else "Active")

    def respec(self, block: dict[str, Any] | None, more: dict[str, Any], *, mode: str = "Active") -> None:
        """Write another spec."""
        made = rolling_pool(
            block or {}, more={**more, "validation": dict(self.cluster.validation)}, mode=mode
        )
        assert made.spec is not None
        spec = made.spec if block is not None else made.spec.model_copy(update={"upgrade": None})
        pool = edited(self.cluster.pool, spec)
        self.cluster.change_pool(spec=pool.spec, generation=pool.generation)

    def restart(self) -> None:
        """An operator is started anew."""
        operator = self.chance.choice(self.operators)
        self.say(f"{operator.name} is restarted")
        operator.restart()

    def delete_pool(self) -> None:
        """Now and then, someone deletes the pool."""
        if self.chance.random() < 0.1:
            self.say("the pool is deleted")
            pool = deleted(self.cluster.pool)
            self.cluster.change_pool(deleting=pool.deleting, generation=pool.generation)

    # The end of all faults

    def heal(self) -> None:
        """End all faults; then the pool converges, and what is left says why."""
        cluster, operator = self.cluster, self.operators[0]
        self.say("all faults end")
        cluster.answer()
        cluster.is_closed, cluster.can_list, cluster.tolerant = False, True, False
        cluster.guard = GuardState(identity=GUARD)
        cluster.ends = {uid: at or cluster.now for uid, at in cluster.ends.items()}
        for uid in [
            uid for uid, pod in cluster.pods.items() if pod.eviction and pod.eviction.tolerates_cordon
        ]:
            del cluster.pods[uid]
        if not cluster.pool.deleting:
            # A person gives drains the time that they need: all pods of the world may be on one node.
            drain = {**cluster.upgrade["drain"], "timeoutSeconds": 600}
            self.respec(
                {**cluster.upgrade, "drain": drain}, {"os": {**BEHIND, "targetRevision": self.target}}
            )
        for _ in range(ROUNDS):
            self.mend()
            operator.see()
            self.settle(operator)
            if self.is_done:
                return
            self.advance(operator)
        raise AssertionError("it never ends")

    def mend(self) -> None:
        """What people do where all is well: no hold, no cordon, machines that are Ready, a retry."""
        cluster = self.cluster
        for name, node in [*cluster.nodes.items()]:
            record = record_of(node)
            is_ours = isinstance(record, Record) and record.unschedulable
            if HOLD_ANNOTATION in node.annotations:
                cluster.annotate(name, HOLD_ANNOTATION, None)
            if AKS_UPGRADE_STATUS_LABEL in node.labels:
                labels = {key: each for key, each in cluster.nodes[name].labels.items() if key not in VETO}
                cluster.turn(name, labels=labels)
            if node.unschedulable and not is_ours:
                cluster.turn(name, unschedulable=False)
            if not RED.items() <= node.labels.items():
                cluster.turn(name, labels={**cluster.nodes[name].labels, **RED})
            if node.ready != "True" and name not in cluster.machines:
                cluster.machines[name] = (cluster.now + timedelta(seconds=60), revision_of(node))
            claim = claim_of(node)
            if isinstance(claim, Claim) and claim.state in ENDED_BADLY and not claim.is_retried:
                cluster.annotate(name, UPGRADE_RETRY_ANNOTATION, "")
        self.acted &= {
            claim.claim
            for node in cluster.nodes.values()
            if isinstance(claim := claim_of(node), Claim) and node.ready != "True"
        }
        self.patch_machine(is_patient=True)

    def settle(self, operator: Operator) -> None:
        """Make passes until one writes nothing, and no list or answer says more."""
        quiet = 0
        for _ in range(60):
            wrote = self.operate(operator, kills=False)
            has_news = bool(operator.coming or self.cluster.evictions)
            operator.receive()
            self.cluster.answer()
            quiet = 0 if wrote else quiet + 1
            if quiet >= 2 and not has_news:
                break
            if quiet >= 4:
                break
        else:
            raise AssertionError("it is never quiet")
        # A node that was written again and again is written at a pace: that comes before its deadline.
        if not self.cluster.pool.deleting and operator.patience.seconds_to_next() is None:
            self.check_deadlines()

    def check_deadlines(self) -> None:
        """Every state is left by its deadline, where it has one."""
        for node in self.cluster.nodes.values():
            claim = claim_of(node)
            if isinstance(claim, Claim) and claim.state in DEADLINED and RED.items() <= node.labels.items():
                assert claim.deadline is not None, f"{claim.state} without a deadline"
                assert self.cluster.now < claim.deadline, f"{node.name} stays in {claim.state}"
        for slot in self.cluster.pool.status.slots:
            if slot.node not in self.cluster.nodes:
                assert slot.deadline is not None, f"the slot of {slot.node} has no deadline"
                assert self.cluster.now < slot.deadline, f"the slot of {slot.node} stays"

    def advance(self, operator: Operator) -> None:
        """Let time pass until something may happen."""
        cluster = self.cluster
        assert operator.decision is not None
        pause = operator.patience.seconds_to_next()
        moments = [
            operator.decision.look_again,
            *(at for at, _ in cluster.machines.values()),
            *cluster.leaving.values(),
            *cluster.ends.values(),
            *cluster.absent.values(),
            operator.attachments_at,
            None if pause is None else cluster.now + timedelta(seconds=pause),
            cluster.now + LISTS,
        ]
        at = min(each for each in moments if each is not None and each > cluster.now)
        cluster.pass_time(max(0.1, (at - cluster.now).total_seconds()))

    @property
    def is_done(self) -> bool:
        """Whether the pool is as its spec says, and nothing is left of the way."""
        cluster = self.cluster
        if cluster.machines or cluster.leaving:
            return False
        nodes = cluster.nodes.values()
        if any(each.unschedulable for each in nodes):
            return False
        # Without a guard, a record gives no right to conditions and to what was borrowed (docs/guard.md).
        marked = [each for each in nodes if self.was_guarded or self.operators[0].remembers(each)]
        has_conditions = any(one.reason != THEIRS for each in marked for one in each.conditions)
        if cluster.pool.deleting:
            if has_conditions or (self.was_guarded and any(BORROWED in each.annotations for each in nodes)):
                return False
            return not cluster.pool.finalizers and not any(
                "winpool.dev/pool" in each.labels for each in nodes
            )
        slots = [each for each in cluster.pool.status.slots if each.is_held]
        if has_conditions:
            return False
        return not slots and all(each.labels.get(UPGRADE_STATE_LABEL) == "UpToDate" for each in nodes)


PATIENT: Final = ("restarts", "restarts", "is replaced", "gets another name", "surges")
"""What an actor does that comes to the target."""
WAYS: Final = (
    *4 * ["restarts"],
    "comes back as it was",
    "never returns",
    "is replaced",
    "is replaced",
    "gets another name",
    "gets another name",
    "surges",
    "surges",
    "is said to be done",
    "is patched hot",
    "is forgotten",
)
EDITS: Final = (
    *6 * ["back"],
    "another target",
    "no block",
    "give up",
    "pause",
    "not accepted",
    "Manual",
    "OnRequest",
    "InPlace",
    "Replace",
    "Paused",
    "DryRun",
)
FAULTS: Final[tuple[Callable[[Play], None], ...]] = (
    Play.cordon,
    Play.hold,
    Play.veto,
    Play.drain_themselves,
    Play.scribble,
    Play.relabel,
    Play.flap,
    Play.roll_back,
    Play.delete_node,
    Play.leave,
    Play.disturb_pods,
    Play.disturb_pods,
    Play.close_budget,
    Play.fail_lists,
    Play.tolerate,
    Play.lose_guard,
    Play.lose_status,
    Play.edit,
    Play.edit,
    Play.restart,
    Play.delete_pool,
)
