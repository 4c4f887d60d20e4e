"""What to know about this cluster before winpool is uninstalled: a caution only where it applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import NAMESPACE, RELEASE_FINALIZER
from winpool.api.v1alpha1 import Mode
from winpool.cli.uninstall_facts import About, Caution, Unread
from winpool.cli.uninstall_keys import BY_HAND, about_keys, some
from winpool.cli.uninstall_nodes import Place, names_of
from winpool.status.assessment import counted_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.cli.uninstall_commands import Commands
    from winpool.cli.uninstall_facts import Facts
    from winpool.cli.uninstall_nodes import NodeFinding


def cautions_of(facts: Facts, found: Sequence[NodeFinding], commands: Commands) -> tuple[Caution, ...]:
    """Return what applies, what may stop the uninstallation first."""
    return (
        *_unread(facts),
        *(_operator(facts) if facts.pools or found else ()),
        *_pools(facts, found),
        *_nodes(facts, found),
        *about_keys(facts, found, commands),
    )


def _unread(facts: Facts) -> Iterator[Caution]:
    parts = {
        "the namespace": facts.namespace,
        "the Deployment": facts.deployments,
        "the Lease": facts.leases,
        "the guard": facts.guard,
        "the fence": facts.fence,
        "the CRD": facts.crd,
    }
    for part, value in parts.items():
        if isinstance(value, Unread):
            yield Caution(About.UNREAD, f"It is unknown whether {part} is there: {value.why}")


def _operator(facts: Facts) -> Iterator[Caution]:
    if isinstance(facts.deployments, Unread) or facts.operator_runs:
        return
    if facts.deployments:
        names = ", ".join(each.name for each in facts.deployments)
        yield Caution(
            About.OPERATOR_DOWN,
            f"The Deployment {names} in the namespace {NAMESPACE} has no ready replica. Only a running "
            "operator releases nodes: the deletion of a pool waits for it.",
        )
    else:
        yield Caution(
            About.OPERATOR_UNKNOWN,
            f"The namespace {NAMESPACE} has no Deployment of winpool and no Lease that is renewed. Only a "
            "running operator releases nodes. Check that one runs outside the cluster, start one, or "
            f"release the nodes by hand ({BY_HAND}).",
        )


def _pools(facts: Facts, found: Sequence[NodeFinding]) -> Iterator[Caution]:
    if quiet := [each for each in facts.pools if each.mode != Mode.ACTIVE and not each.deleting]:
        pools = ", ".join(f"{each.name} ({each.mode})" for each in quiet)
        yield Caution(
            About.POOL_PAUSED,
            f"In their mode, the operator does not write to the nodes of these pools: {pools}. If you delete "
            "them, it still releases the nodes.",
        )
    owned = {each.pool for each in found if each.place in (Place.OWNED, Place.RECORD_UNREADABLE)}
    if bare := [each.name for each in facts.pools if not each.has_finalizer and each.name in owned]:
        yield Caution(
            About.FINALIZER_MISSING,
            f"Pools with nodes, but without the finalizer {RELEASE_FINALIZER}: {', '.join(bare)}. Without "
            "it, kubectl delete does not wait for the release. A running operator restores it.",
        )
    for each in facts.pools:
        if each.other_finalizers:
            yield Caution(
                About.OTHER_FINALIZERS,
                f"The pool {each.name} has finalizers of other programs: {', '.join(each.other_finalizers)}. "
                "Its deletion also waits for these programs.",
            )


def _nodes(facts: Facts, found: Sequence[NodeFinding]) -> Iterator[Caution]:
    if facts.unread_nodes:
        yield Caution(
            About.NODE_UNREADABLE,
            f"Nodes that cannot be read, so what is on them is unknown: {some(facts.unread_nodes)}",
        )
    if silent := names_of(found, lambda each: not each.reports):
        yield Caution(
            About.NODE_SILENT,
            f"{counted_nodes(silent)}: the kubelet does not report. The operator releases such a node like "
            "any other, since it only changes the Node object.",
            silent,
        )
    if strays := names_of(found, lambda each: not each.is_windows and each.place is not Place.NO_OWNER):
        yield Caution(
            About.NOT_WINDOWS,
            f"{counted_nodes(strays)}: not a Windows node any more. The deletion of a pool does not wait for "
            "it. A running operator releases it within 10 minutes.",
            strays,
        )
    if gone := [each for each in found if each.place is Place.POOL_GONE]:
        names = tuple(each.node.name for each in gone)
        pools = some(sorted({each.pool for each in gone}))
        yield Caution(
            About.POOL_GONE,
            f"{counted_nodes(names)}: the pool does not exist ({pools}). "
            "A running operator releases these nodes when two lists of all pools lack the pool. By default "
            "that takes 5 minutes.",
            names,
        )
