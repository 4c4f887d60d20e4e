"""Judges the gates of one node: its versions, and whether the pods on it may leave and find a place."""

from __future__ import annotations

from typing import Final

from winpool.api.matrix import Verdict
from winpool.api.upgrade import Gate, Method
from winpool.features.upgrade.gates.pool import CONTROL_PLANE_UNKNOWN_FIX, FindingsOf, World
from winpool.features.upgrade.records import GateFinding, NodeUpgrade, Stand
from winpool.model.pods import BlockedBy, DeclaredBuild
from winpool.support.compat import Isolation, compatible
from winpool.support.servicing import skew_reasons
from winpool.support.versions import WindowsVersion, parse_minor, parse_windows

_RELEASE: Final = FindingsOf(Gate.RELEASE_CHANGE)
_SKEW: Final = FindingsOf(Gate.VERSION_SKEW)
_CAPACITY: Final = FindingsOf(Gate.CAPACITY)
_IMAGES: Final = FindingsOf(Gate.IMAGES)
_BUDGETS: Final = FindingsOf(Gate.DISRUPTION_BUDGETS)


def release_change(world: World, candidate: NodeUpgrade) -> GateFinding:
    """Judge whether the method can bring the node to the target release: InPlace keeps the release."""
    found = candidate.os_version
    if world.upgrade.method is Method.REPLACE:
        return world.once(
            _RELEASE, lambda: _RELEASE.opened("With the method Replace, a new machine may run any release.")
        )
    return world.once((_RELEASE, found), lambda: _in_place(world, found))


def _in_place(world: World, found: str) -> GateFinding:
    if not found:
        return _RELEASE.unknown(
            "The release of Windows that runs there is not known.",
            "Check the kubelet of the node and its nodeInfo.kernelVersion, or name the release of its build "
            "in a supportMatrix row.",
        )
    if found == world.release:
        return _RELEASE.opened(f"Windows Server {found} runs there, as spec.os.version asks for.")
    return _RELEASE.closed(
        f"Windows Server {found} runs there, and with the method InPlace it does not become "
        f"{world.spec.os.version}.",
        "Replace the machine, and set spec.upgrade.method to Replace, or change spec.os.version.",
    )


def version_skew(world: World, candidate: NodeUpgrade) -> GateFinding:
    """Judge the kubelet of the node by the version skew policy of Kubernetes."""
    kubelet = candidate.node.versions.kubelet
    return world.once((_SKEW, kubelet), lambda: _skew(world, kubelet))


def _skew(world: World, kubelet: str) -> GateFinding:
    version = parse_minor(kubelet)
    if world.minor is None:
        return _SKEW.unknown("The version of the control plane is not known.", CONTROL_PLANE_UNKNOWN_FIX)
    if version is None:
        return _SKEW.unknown(
            "The version of the kubelet there is not known.", "Check nodeInfo.kubeletVersion of the node."
        )
    for reason in skew_reasons(version, control_plane=world.minor, matrix=world.layers.matrix):
        if version > world.minor:
            return _SKEW.closed(reason.message, reason.fix)
        if world.upgrade.method is Method.IN_PLACE:
            return _SKEW.closed(
                reason.message,
                "Upgrade the kubelet there first, or set spec.upgrade.method to Replace and replace the "
                "machine.",
            )
        return _SKEW.opened(f"{reason.message} With the method Replace, the new machine has its own.")
    return _SKEW.opened(f"The kubelet has version {version}, and the control plane {world.minor}.")


_NOT_LISTED: Final = "The pods there are not known: no list of all pods of the last 15 minutes has them."
_WAIT: Final = (
    "Wait for the next list of all pods. If none comes, check the issue PodListFailing and the rights of the "
    "operator."
)


def capacity(world: World, candidate: NodeUpgrade) -> GateFinding:
    """Judge whether the other nodes of the same build can take the pods of the node, by their requests."""
    workload, fit = candidate.workload, candidate.fit
    if workload is None or fit is None:
        return _NO_PODS_KNOWN[Gate.CAPACITY]
    if missing := workload.missing_runtime_classes:
        return world.once((_CAPACITY, missing), lambda: _without_runtime_class(missing))
    if fit.unfit:
        return _FULL
    if not workload.runtime_classes_known:
        return _runtime_classes_unknown(_CAPACITY, world)
    return _CAPACITY_UNCLEAR if fit.unclear or fit.unknown or not workload.is_complete else _ROOM


def _without_runtime_class(missing: tuple[str, ...]) -> GateFinding:
    return _CAPACITY.closed(
        f"Pods there name a RuntimeClass that does not exist ({', '.join(missing)}), so the API server "
        "refuses the pods that would replace them.",
        "Create the RuntimeClass, or change runtimeClassName in what the pods come from.",
    )


def _runtime_classes_unknown(findings: FindingsOf, world: World) -> GateFinding:
    return findings.unknown(
        "The RuntimeClasses of pods there are not known, and so it is not known which nodes take the pods "
        "that would replace them.",
        world.snapshot.pods.runtime_classes_forbidden
        or "Wait for the next list of all pods and RuntimeClasses. If it fails, read the operator's log. The "
        "gate does not close for them.",
    )


_FULL: Final = _CAPACITY.closed(
    "The other nodes of the same Windows build cannot take all pods that run there: their requests, "
    "selectors or tolerations do not fit.",
    "Add nodes of this build to the pool, lower what the pods request, or remove pods. `kubectl winpool "
    "plan` shows which do not fit.",
)
_CAPACITY_UNCLEAR: Final = _CAPACITY.unknown(
    "It is not known whether other nodes can take all pods that run there.",
    "Check these pods yourself. The gate does not close for them. `kubectl winpool plan` counts them.",
)
_ROOM: Final = _CAPACITY.opened("The other nodes of the same Windows build can take the pods.")


def images(world: World, candidate: NodeUpgrade) -> GateFinding:
    """Judge the builds that pods there declare by the build that the node is brought to."""
    workload = candidate.workload
    if world.upgrade.method is Method.IN_PLACE:
        return _SAME_RELEASE
    if workload is None:
        return _NO_PODS_KNOWN[Gate.IMAGES]
    builds = tuple(sorted({(each.build, each.is_bound) for each in workload.declared}))
    is_unclear = bool(workload.undeclared) or not workload.is_complete
    found = world.once((_IMAGES, builds, is_unclear), lambda: _declared(world, workload.declared, is_unclear))
    is_closed = found.stand is Stand.CLOSED
    return found if is_closed or workload.runtime_classes_known else _runtime_classes_unknown(_IMAGES, world)


def _declared(world: World, declared: tuple[DeclaredBuild, ...], is_unclear: bool) -> GateFinding:
    build = world.layers.build_of(world.release)
    if build is None:
        return _IMAGES.unknown(
            f"Windows Server {world.release} is not in the support matrix, so it is not known which images "
            "run on it.",
            "Correct spec.os.version, or name the build of this release in a supportMatrix row.",
        )
    host = WindowsVersion(build, world.spec.os.target_revision)
    refused: list[str] = []
    for each in declared:
        if each.is_bound and _is_other_build(each.build, host):
            refused.append(each.build)
            continue
        answer = compatible(str(host), each.build, Isolation.PROCESS, matrix=world.layers.matrix)
        if answer.verdict is Verdict.UNSUPPORTED:
            refused.append(each.build)
        is_unclear = is_unclear or answer.verdict is Verdict.UNKNOWN
    if refused:
        return _IMAGES.closed(
            f"Pods there declare the Windows build {_listed(refused)}, and do not run on Windows Server "
            f"{world.release} ({host.build_text}).",
            "Move these pods to other nodes, or build their images for the release in spec.os.version and "
            "change what the pods declare, or the RuntimeClass that they name.",
        )
    return _IMAGES_UNCLEAR if is_unclear else _ALL_RUN


def _is_other_build(text: str, host: WindowsVersion) -> bool:
    """Whether the scheduler keeps pods that ask for the build ``text`` away from ``host``."""
    version = parse_windows(text)
    return version is not None and version.build_text != host.build_text


_BUILDS_SHOWN: Final = 3
"""Builds in a message. A pod can declare any, and there are not three that matter."""


def _listed(builds: list[str]) -> str:
    first = sorted(set(builds))[:_BUILDS_SHOWN]
    return " and ".join(each[:_BUILD_LENGTH] for each in first)


_BUILD_LENGTH: Final = 32

_SAME_RELEASE: Final = _IMAGES.opened("The method InPlace keeps the release, and with it what images run.")
_IMAGES_UNCLEAR: Final = _IMAGES.unknown(
    "Some pods there do not declare the Windows build that they are made for, so it is not known whether "
    "their images run on the target.",
    "Declare it with a nodeSelector or required affinity on node.kubernetes.io/windows-build, or with the "
    "annotation winpool.dev/windows-build of the pods. The gate does not close for them.",
)
_ALL_RUN: Final = _IMAGES.opened("All pods there declare builds that run on the target.")


def disruption_budgets(world: World, candidate: NodeUpgrade) -> GateFinding:
    """Judge whether the API server would evict every pod of the node now."""
    workload = candidate.workload
    if workload is None:
        return _NO_PODS_KNOWN[Gate.DISRUPTION_BUDGETS]
    if not workload.budgets_known:
        return world.once(_BUDGETS, lambda: _not_listed(world.snapshot.pods.budgets_forbidden))
    why = {each.why for each in workload.blocks}
    if BlockedBy.SEVERAL_BUDGETS in why:
        return _SEVERAL
    if BlockedBy.NONE_ALLOWED in why:
        return _NONE_ALLOWED
    if why or workload.blocked:
        return _TOO_MANY_BUDGETS
    return _PODS_UNREADABLE if not workload.is_complete else _MAY_BE_EVICTED


_SEVERAL: Final = _BUDGETS.closed(
    "Two PodDisruptionBudgets select a pod there, and the API server does not evict such a pod.",
    "Change the selectors of the PodDisruptionBudgets, so that each pod has one. `kubectl winpool why NODE` "
    "names the pods.",
)
_NONE_ALLOWED: Final = _BUDGETS.closed(
    "A PodDisruptionBudget of a pod there allows no disruption now.",
    "Make the pods of that budget Ready, run more of them, or let the budget allow a disruption. `kubectl "
    "winpool why NODE` names the pods.",
)
_TOO_MANY_BUDGETS: Final = _BUDGETS.unknown(
    "A namespace has too many PodDisruptionBudgets to tell whether the pods there may be evicted.",
    "Delete PodDisruptionBudgets that are not needed.",
)
_PODS_UNREADABLE: Final = _BUDGETS.unknown(
    "Some pods there cannot be read, so it is not known whether they may be evicted.",
    "Check the issue PodsUnreadable of the pool.",
)
_MAY_BE_EVICTED: Final = _BUDGETS.opened("The PodDisruptionBudgets allow to evict each pod there.")


def _not_listed(forbidden: str) -> GateFinding:
    return _BUDGETS.unknown(
        "PodDisruptionBudgets could not be listed, so it is not known whether the pods there may be evicted.",
        forbidden or "Wait for the next list of all pods and budgets. If it fails, read the operator's log.",
    )


_NO_PODS_KNOWN: Final = {
    each.gate: each.unknown(_NOT_LISTED, _WAIT) for each in (_CAPACITY, _IMAGES, _BUDGETS)
}
