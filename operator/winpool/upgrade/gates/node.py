"""The gates about the versions of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.upgrade import Gate, Method
from winpool.support.skew import skew_reasons
from winpool.support.versions import parse_minor
from winpool.upgrade.gates.target import CONTROL_PLANE_UNKNOWN_FIX
from winpool.upgrade.gates.world import closed, opened, unknown

if TYPE_CHECKING:
    from winpool.upgrade.gates.world import Candidate, World
    from winpool.upgrade.records import GateFinding


def release_change(world: World, candidate: Candidate) -> GateFinding:
    """Judge whether the method can bring the node to the target release: InPlace keeps the release."""
    gate, found = Gate.RELEASE_CHANGE, candidate.judgement.os_version
    if world.upgrade.method is Method.REPLACE:
        return world.once(
            gate, lambda: opened(gate, "With the method Replace, a new machine may run any release.")
        )
    return world.once((gate, found), lambda: _in_place(world, found))


def _in_place(world: World, found: str) -> GateFinding:
    gate = Gate.RELEASE_CHANGE
    if not found:
        return unknown(
            gate,
            "The release of Windows that runs there is not known.",
            "Check the kubelet of the node and its nodeInfo.kernelVersion, or name the release of its build "
            "in a supportMatrix row.",
        )
    if found == world.release:
        return opened(gate, f"Windows Server {found} runs there, as spec.os.version asks for.")
    return closed(
        gate,
        f"Windows Server {found} runs there, and with the method InPlace it does not become "
        f"{world.spec.os.version}.",
        "Replace the machine, and set spec.upgrade.method to Replace, or change spec.os.version.",
    )


def version_skew(world: World, candidate: Candidate) -> GateFinding:
    """Judge the kubelet of the node by the version skew policy of Kubernetes."""
    kubelet = candidate.node.versions.kubelet
    return world.once((Gate.VERSION_SKEW, kubelet), lambda: _skew(world, kubelet))


def _skew(world: World, kubelet: str) -> GateFinding:
    gate, version = Gate.VERSION_SKEW, parse_minor(kubelet)
    if world.minor is None:
        return unknown(gate, "The version of the control plane is not known.", CONTROL_PLANE_UNKNOWN_FIX)
    if version is None:
        return unknown(
            gate,
            "The version of the kubelet there is not known.",
            "Check nodeInfo.kubeletVersion of the node.",
        )
    for reason in skew_reasons(version, control_plane=world.minor, matrix=world.layers.matrix):
        if version > world.minor:
            return closed(gate, reason.message, reason.fix)
        if world.upgrade.method is Method.IN_PLACE:
            return closed(
                gate,
                reason.message,
                "Upgrade the kubelet there first, or set spec.upgrade.method to Replace and replace the "
                "machine.",
            )
        return opened(gate, f"{reason.message} With the method Replace, the new machine has its own.")
    return opened(gate, f"The kubelet has version {version}, and the control plane {world.minor}.")
