"""From what a cluster has to the steps of an uninstallation, in order, and what to know before: pure.

The order: the pools first, while an operator runs and the guard keeps their records from being forged. Then
the operator, with guard and fence. The CRD last: its deletion deletes all pools.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from winpool.api.keys import NAMESPACE, SHORT_NAME
from winpool.cli.uninstall_cautions import cautions_of
from winpool.cli.uninstall_commands import Commands, some_at_once
from winpool.cli.uninstall_facts import FenceFact, GuardFact, Unread
from winpool.cli.uninstall_nodes import Place, findings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.cli.uninstall_facts import Caution, DeploymentFact, Facts
    from winpool.cli.uninstall_nodes import NodeFinding
    from winpool.model.node import Keys

_ROLLOUT_TIMEOUT: Final = "--timeout=300s"
"""How long a command waits for the operator's pods: time to pull an image on a slow link."""


_STOP_OUTSIDE: Final = (
    "Stop the operator if one runs outside the cluster: press Ctrl-C in its terminal, or send it SIGTERM"
)
_REMOVE: Final = (
    "Remove the operator's objects, the guard and the fence. Not earlier: until the nodes are released, the "
    "guard keeps kubelets from forging the records that say what to remove"
)


class StepKind(StrEnum):
    """What a step does."""

    START_OPERATOR = "StartOperator"
    DELETE_POOLS = "DeletePools"
    CLEAN_NODES = "CleanNodes"
    CHECK = "Check"
    STOP_OPERATOR = "StopOperator"
    REMOVE_OPERATOR = "RemoveOperator"
    REMOVE_CRD = "RemoveCRD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step: its title, the commands to run one after the other, and what to wait for before the next.

    Without commands a person has to do what the title says.
    """

    kind: StepKind
    title: str
    commands: tuple[str, ...]
    wait_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is on nodes, in what order to go, and the cautions that apply.

    ``is_ready``: no pool is left and no node has anything of winpool, so ``deploy/operator`` can be removed.
    """

    is_ready: bool
    nodes: tuple[NodeFinding, ...]
    cautions: tuple[Caution, ...]
    steps: tuple[Step, ...]


def plan_of(facts: Facts) -> Plan:
    """Return the plan for a cluster."""
    found, commands = findings_of(facts), Commands(facts.flags)
    is_ready = not (facts.pools or found or facts.unread_nodes)
    return Plan(
        is_ready=is_ready,
        nodes=found,
        cautions=cautions_of(facts, found, commands),
        steps=(
            *_release(facts, found, commands, is_ready=is_ready),
            *_removal(facts, commands),
        ),
    )


def _release(
    facts: Facts, found: Sequence[NodeFinding], commands: Commands, *, is_ready: bool
) -> Iterator[Step]:
    """Yield the steps after which no pool and nothing on a node is left."""
    deployments = _deployments(facts)
    if (
        deployments
        and not is_ready
        and not facts.operator_runs
        and not any(each.replicas for each in deployments)
    ):
        yield Step(
            kind=StepKind.START_OPERATOR,
            title="Start the operator: only a running one releases nodes",
            commands=tuple(_scaled(deployments, 1, commands)),
            wait_for="The replica is ready.",
        )
    if facts.pools:
        waiting = all(each.deleting for each in facts.pools)
        yield Step(
            kind=StepKind.DELETE_POOLS,
            title="Wait until the pools are deleted" if waiting else "Delete the pools",
            commands=(commands.kubectl("delete", SHORT_NAME, "--all"),),
            wait_for="The command returns when the operator has released the last node. If it does not, read "
            'docs/uninstall.md, "A pool that stays in Deleting".',
        )
    if unowned := [each for each in found if each.place is Place.NO_OWNER]:
        yield Step(
            kind=StepKind.CLEAN_NODES,
            title="Remove the keys of winpool that no pool and no record names: the operator leaves them",
            commands=tuple(_cleaning(unowned, commands)),
            wait_for="Each command returns at once.",
        )
    if not is_ready:
        yield Step(
            kind=StepKind.CHECK,
            title="Check that nothing is left",
            commands=(commands.kubectl("winpool", "uninstall", "--plan"),),
            wait_for="It exits with 0. If it still names nodes, follow its warnings and repeat it.",
        )


def _removal(facts: Facts, commands: Commands) -> Iterator[Step]:
    """Yield the steps that remove what is installed."""
    if is_installed(facts):
        awake = [each for each in _deployments(facts) if each.replicas]
        if awake or not _deployments(facts):
            yield Step(
                kind=StepKind.STOP_OPERATOR,
                title="Stop the operator" if awake else _STOP_OUTSIDE,
                commands=tuple(_scaled(awake, 0, commands)),
                wait_for="No operator runs any more.",
            )
        yield Step(
            kind=StepKind.REMOVE_OPERATOR,
            title=_REMOVE,
            commands=(commands.kubectl("delete", "-k", "deploy/operator", "--ignore-not-found"),),
            wait_for=f"The command returns when the namespace {NAMESPACE} is gone.",
        )
    if facts.crd:  # also where it could not be read
        yield Step(
            kind=StepKind.REMOVE_CRD,
            title="Remove the CRD last: its deletion deletes all pools",
            commands=(commands.kubectl("delete", "-k", "crds", "--ignore-not-found"),),
            wait_for="The command returns when the CRD is gone.",
        )


def is_installed(facts: Facts) -> bool:
    """Whether something of ``deploy/operator`` is there, or may be there."""
    parts = (facts.guard, facts.fence)
    return bool(
        facts.namespace
        or facts.deployments
        or facts.leases
        or any(each.found for each in parts if isinstance(each, GuardFact | FenceFact))
        or any(isinstance(each, Unread) for each in parts)
    )


def _deployments(facts: Facts) -> tuple[DeploymentFact, ...]:
    return () if isinstance(facts.deployments, Unread) else facts.deployments


def _scaled(deployments: Sequence[DeploymentFact], replicas: int, commands: Commands) -> Iterator[str]:
    for each in deployments:
        name = f"deployment/{each.name}"
        yield commands.kubectl("-n", NAMESPACE, "scale", name, f"--replicas={replicas}")
        yield commands.kubectl("-n", NAMESPACE, "rollout", "status", name, _ROLLOUT_TIMEOUT)


def _cleaning(found: Sequence[NodeFinding], commands: Commands) -> Iterator[str]:
    alike: dict[Keys, list[str]] = {}
    for each in found:
        alike.setdefault(each.own, []).append(each.node.name)
    for keys, names in alike.items():
        for part in some_at_once(names):
            yield from commands.removal(part, keys)
