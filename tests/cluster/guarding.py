"""The guard of our keys as a cluster admin takes it away and puts it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cluster.forging import NOBODY, a_record
from harness.asking import CLUSTER_SCOPED
from harness.waiting import eventually
from testbed.api import ApiError
from testbed.cluster import Testbed
from winpool.api.admission import GUARD_NAME
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

POLICIES: Final = "validatingadmissionpolicies"
BINDINGS: Final = "validatingadmissionpolicybindings"
NAMES_BEGIN_WITH: Final = GUARD_NAME
PROBE: Final = "guard-probe"
"""A node without a machine; what its kubelet may write tells whether the API server has the guard by now."""
REFUSAL: Final = "denied request"
"""What the API server says where it is a policy that refuses."""


class Guard:
    """The guard of ``deploy/operator``, its policy and its binding, in a cluster of their own."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self._policies = self._found(POLICIES)
        self._bindings = self._found(BINDINGS)
        probe = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PROBE}}
        self.testbed.kubectl("create", "-f", "-", stdin=json.dumps(probe))
        kubelet = testbed.user_kubeconfig(f"system:node:{PROBE}", groups=["system:nodes"])
        self._kubelet = testbed.api(kubelet.stem)

    def lift(self) -> None:
        """Delete the bindings; return when kubelets may write our keys."""
        self._delete(BINDINGS)
        eventually(lambda: not self._stands(), what="the guard gone")

    def install(self) -> None:
        """Put all of it there as it was shipped; return when kubelets may not write our keys."""
        assert self._policies, "deploy/operator ships no policy of this name"
        assert self._bindings, "deploy/operator ships no binding of this name"
        missing = [
            *self._missing(POLICIES, self._policies),
            *self._missing(BINDINGS, self._bindings),
        ]
        for manifest in missing:
            self.testbed.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        eventually(self._stands, what="the guard in force")

    def remove(self) -> None:
        """Delete the bindings and the policies; return when kubelets may write our keys."""
        self._delete(BINDINGS)
        self._delete(POLICIES)
        eventually(lambda: not self._stands(), what="the guard gone")

    def soften(self) -> None:
        """Have the bindings audit only; return when kubelets may write our keys."""
        self._set_actions("Audit")
        eventually(lambda: not self._stands(), what="the guard without teeth")

    def harden(self) -> None:
        """Have the bindings deny again; return when kubelets may not write our keys."""
        self._set_actions("Deny")
        eventually(self._stands, what="the guard in force")

    def _stands(self) -> bool:
        record = {"metadata": {"annotations": {APPLIED_ANNOTATION: a_record(NOBODY)}}}
        try:
            self._kubelet.merge(f"{CLUSTER_SCOPED['nodes']}/{PROBE}", record, dryRun="All")
        except ApiError as error:
            if REFUSAL in str(error):
                return True
            raise
        return False

    def _found(self, kind: str) -> list[Object]:
        items = json.loads(self.testbed.kubectl("get", kind, "-o", "json").stdout)["items"]
        return [_shipped(each) for each in items if each["metadata"]["name"].startswith(NAMES_BEGIN_WITH)]

    def _missing(self, kind: str, shipped: Sequence[Object]) -> list[Object]:
        there = {each["metadata"]["name"] for each in self._found(kind)}
        return [each for each in shipped if each["metadata"]["name"] not in there]

    def _delete(self, kind: str) -> None:
        for each in self._found(kind):
            self.testbed.kubectl("delete", kind, each["metadata"]["name"])

    def _set_actions(self, action: str) -> None:
        patch = json.dumps({"spec": {"validationActions": [action]}})
        for each in self._found(BINDINGS):
            name = each["metadata"]["name"]
            self.testbed.kubectl("patch", BINDINGS, name, "--type=merge", "-p", patch)


def _shipped(found: Object) -> Object:
    """Return a manifest of an object that is there, without what the API server added."""
    kept = {key: found["metadata"][key] for key in ("name", "labels") if key in found["metadata"]}
    return {**{key: found[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept}
