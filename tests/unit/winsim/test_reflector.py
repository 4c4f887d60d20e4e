"""What the simulator reads from lists and watches."""

from __future__ import annotations

import msgspec

from testbed.winsim.reflector import bookmark_version

BOOKMARK = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "4711", "creationTimestamp": None},
    "spec": {"containers": None},
    "status": {},
}
"""As Kubernetes 1.36 sends it once a minute: of a pod that has no containers, not even none."""


def test_a_bookmark_is_read_for_its_version_alone() -> None:
    assert bookmark_version(msgspec.json.encode(BOOKMARK)) == "4711"
