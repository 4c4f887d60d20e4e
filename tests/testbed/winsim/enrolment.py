"""How machines get onto the list: those that a process begins with, and free addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.winsim.addresses import assign_addresses, machine_network

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from testbed.winsim.entries import Family
    from testbed.winsim.objects import Node
    from testbed.winsim.plan import Plan
    from testbed.winsim.roster import Roster


def enter_plan(plan: Plan, *, roster: Roster, addresses: Mapping[str, str]) -> None:
    """Put the machines of a plan on an empty list; ``addresses`` has one for each name."""
    kinds: tuple[tuple[Family, int], ...] = (("windows", plan.windows), ("linux", plan.linux))
    for os, count in kinds:
        roster.add(
            roster.new_names(os, count),
            os=os,
            addresses=addresses,
            labels=plan.labels,
            taints=plan.taints,
            samples=plan.samples,
            memory=plan.memory if os == "windows" else (),
        )


def free_addresses(
    names: Collection[str], *, roster: Roster, nodes: Mapping[str, Node], seed: str
) -> dict[str, str]:
    """Find addresses that no node has, ours or another's; a fleet that starts anew finds its own.

    Raises:
        ValueError: there are not so many.

    """
    taken = {entry.address for entry in roster.entries.values()} | {
        address.address
        for name, node in nodes.items()
        if name not in names
        for address in node.status.addresses
        if address.type == "InternalIP"
    }
    return assign_addresses(tuple(names), seed=seed, taken=taken, network=machine_network())
