"""The version skew policy: a kubelet is never newer than its API server, and not much older.

https://kubernetes.io/releases/version-skew-policy/#kubelet
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.verdicts import Verdict
from winpool.support.verdicts import Reason
from winpool.support.versions import parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.matrix import Matrix
    from winpool.support.versions import Minor


def skew_reasons(kubelet: Minor, *, control_plane: Minor, matrix: Matrix) -> Iterator[Reason]:
    """Compare a kubelet with its control plane; yield nothing for one that conforms to the policy."""
    policy = matrix.policies.skew
    before = parse_minor(policy.before)
    allowed = policy.minors_before if before is not None and kubelet < before else policy.minors
    if kubelet > control_plane:
        yield Reason(
            "KubeletNewer",
            Verdict.UNSUPPORTED,
            f"The kubelet has version {kubelet}, and the control plane {control_plane}. A kubelet must never "
            "be newer.",
            fix="Upgrade the control plane first, or install an older kubelet on the node.",
        )
    elif kubelet.major != control_plane.major or control_plane.minor - kubelet.minor > allowed:
        yield Reason(
            "KubeletTooOld",
            Verdict.UNSUPPORTED,
            f"The kubelet has version {kubelet}, and the control plane {control_plane}. A kubelet {kubelet} "
            f"may be at most {allowed} minor versions older.",
            fix="Upgrade the kubelet.",
        )
