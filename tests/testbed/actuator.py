"""An actor outside of winpool, which upgrades the machines of nodes that are handed over to it.

It follows the contract for actors: a node whose upgrade state is Upgrading is cordoned, drained and the
actor's. What the machine is to run stands in an annotation. Where nothing that the node reports proves that
its machine was started again, the actor says that it has done the claim.

It decides by what stands on the API server alone, so that it can be ended and started at any time: what a
node was like when its upgrade began is in an annotation of its own. It never begins twice for one claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from testbed.api import ApiError
from testbed.winsim.entries import USUAL_OUTAGE
from testbed.winsim.releases import release_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.api import Api, Object
    from testbed.winsim.control import FleetControl
    from testbed.winsim.entries import Outage

STATE_LABEL: Final = "winpool.dev/upgrade-state"
HANDED_OVER: Final = "Upgrading"
HANDOVER_ANNOTATION: Final = "winpool.dev/upgrade"
DONE_ANNOTATION: Final = "winpool.dev/upgrade-done"
"""These, ``Handover`` and ``Target`` are all that is known of the contract, in words of its own: no table of
the operator can make a test agree."""

BEGUN_ANNOTATION: Final = "actuator.example.com/begun"
"""The actuator's own: the claim that it has begun, and what the node reported before."""

Method = Literal["patch", "hotpatch", "reimage", "replace", "surge"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)


class Target(msgspec.Struct, frozen=True):
    """What the machine is to run; without a revision, that which it has."""

    version: str
    revision: int | None = None


class Handover(msgspec.Struct, frozen=True):
    """The part of the annotation that is for actors."""

    claim: str
    target: Target


class _Facts(msgspec.Struct, frozen=True, rename="camel"):
    """What tells one start of a machine, or one machine, from another."""

    uid: str
    boot_id: str
    kernel_version: str
    system_uuid: str


class _Begun(msgspec.Struct, frozen=True):
    claim: str
    facts: _Facts


_HANDOVER: Final = msgspec.json.Decoder(Handover)
_BEGUN: Final = msgspec.json.Decoder(_Begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actuator:
    """Upgrades machines of one fleet by one method.

    ``patch`` installs an update and starts the machine again. ``hotpatch`` does without that, and starts the
    kubelet again. ``reimage`` installs a release on the same Node, ``replace`` on another one under the same
    name; ``surge`` brings a machine of another name first.
    """

    api: Api
    fleet: FleetControl
    method: Method = "patch"
    outage: Outage = USUAL_OUTAGE

    def look(self) -> dict[str, str]:
        """Do what is to be done now, and return it by node: what was done, or why nothing is.

        A node that is neither cordoned nor drained is not upgraded, whatever its label says.
        """
        selector = f"{STATE_LABEL}={HANDED_OVER}"
        found: list[Object] = self.api.get("/api/v1/nodes", labelSelector=selector)["items"]
        told = {str(node["metadata"]["name"]): self.look_at(node) for node in found}
        return {name: what for name, what in told.items() if what}

    def look_at(self, node: Object) -> str:
        """Act on a node, whoever else writes to it at the same time."""
        try:
            return self._act(node)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return ""
            if error.status != HTTPStatus.CONFLICT:
                raise
        return self.look_at(self.api.get(f"/api/v1/nodes/{node['metadata']['name']}"))

    def _act(self, node: Object) -> str:
        if node["metadata"].get("labels", {}).get(STATE_LABEL) != HANDED_OVER:
            return ""
        annotations: Mapping[str, str] = node["metadata"].get("annotations", {})
        try:
            handover = _HANDOVER.decode(annotations.get(HANDOVER_ANNOTATION, ""))
        except msgspec.DecodeError as error:
            return f"{HANDOVER_ANNOTATION}: {error}"
        begun = _begun(annotations)
        if begun is not None and begun.claim == handover.claim:
            return self._finish(node, begun, annotations)
        if not node["spec"].get("unschedulable"):
            return "not cordoned"
        if left := self._left(node["metadata"]["name"]):
            return f"not drained: {', '.join(left)}"
        return self._begin(node, handover)

    def _left(self, name: str) -> list[str]:
        """Return the pods on a node that a drain removes."""
        pods = self.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods if is_to_go(pod)]

    def _begin(self, node: Object, handover: Handover) -> str:
        begun = _Begun(handover.claim, _facts(node))
        name, kernel = node["metadata"]["name"], begun.facts.kernel_version
        revision = handover.target.revision or int(kernel.rpartition(".")[2])
        release = handover.target.version
        if self.method in ("patch", "hotpatch") and release_of(kernel) != release:
            return f"{kernel} does not become {release} in place"
        # With the version that was read, so that it is still cordoned and ours.
        self._annotate(node, BEGUN_ANNOTATION, msgspec.json.encode(begun).decode())
        match self.method:
            case "patch":
                self.fleet.patch(name, revision=revision, outage=self.outage)
            case "hotpatch":
                self.fleet.hotpatch(name, revision=revision)
                self.fleet.restart(name)
            case "reimage" | "replace":
                keep = self.method == "reimage"
                self.fleet.reimage(
                    name, release=release, revision=revision, keep_node=keep, outage=self.outage
                )
            case "surge":
                self.fleet.surge(
                    name, release=release, revision=revision, ready_after=self.outage.ready_after
                )
        return self.method

    def _finish(self, node: Object, begun: _Begun, annotations: Mapping[str, str]) -> str:
        """Acknowledge the claim, where the machine is back and looks as it did before.

        One that leaves once another has come is never back.
        """
        name = node["metadata"]["name"]
        if (
            self.method == "surge"
            or annotations.get(DONE_ANNOTATION) == begun.claim
            or _facts(node) != begun.facts
        ):
            return ""
        if not any(each.name == name and each.ready for each in self.fleet.status()):
            return ""
        self._annotate(node, DONE_ANNOTATION, begun.claim)
        return "done"

    def _annotate(self, node: Object, key: str, value: str) -> None:
        metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {key: value}}
        self.api.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": metadata})


def _begun(annotations: Mapping[str, str]) -> _Begun | None:
    text = annotations.get(BEGUN_ANNOTATION)
    return None if text is None else _BEGUN.decode(text)


def _facts(node: Object) -> _Facts:
    info: dict[str, Any] = node["status"]["nodeInfo"]
    return _Facts(node["metadata"]["uid"], info["bootID"], info["kernelVersion"], info["systemUUID"])


def is_to_go(pod: Object) -> bool:
    """Whether a node with this pod is not drained."""
    metadata = pod["metadata"]
    owned = any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences", []))
    mirrored = "kubernetes.io/config.mirror" in metadata.get("annotations", {})
    return not owned and not mirrored and pod["status"].get("phase") not in {"Succeeded", "Failed"}
