"""Which builds of images a host runs in process isolation: the rule by builds alone.

From build 20348 on, hosts run older images down to a floor, the newest stable build that is older than the
host; before that, only their own build. Sources: ``compatibility`` in ``matrix.yaml``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.support.versions import parse_release

if TYPE_CHECKING:
    from winpool.support.matrix import Matrix
    from winpool.support.versions import Release


def floor_of(host: int, *, matrix: Matrix) -> int:
    """Return the oldest build of images that a host of build ``host`` runs in process isolation."""
    abi = matrix.compatibility.stable_abi
    if host < abi.first_build:
        return host
    return max((each for each in abi.stable_builds if each < host), default=abi.first_build)


def newest_known(matrix: Matrix) -> int:
    """Return the newest host for which the rule is published."""
    return max(matrix.compatibility.stable_abi.stable_builds)


def matches_older(containerd: Release, *, matrix: Matrix) -> bool:
    """Whether ``containerd`` accepts an image that is older than its host at all."""
    minimums = [
        found
        for each in matrix.compatibility.stable_abi_containerd.minimums
        if (found := parse_release(each)) is not None
    ]
    newest = max(minimums)
    same_line = [each for each in minimums if each.line == containerd.line]
    return containerd >= newest or any(containerd >= each for each in same_line)


def runs_build(host: int, image: int, *, containerd: Release | None, matrix: Matrix) -> bool:
    """Whether a host of build ``host`` runs images of build ``image`` in process isolation.

    Where ``containerd`` is given, also whether it accepts them.
    """
    if host == image:
        return True
    if containerd is not None and not matches_older(containerd, matrix=matrix):
        return False
    return floor_of(host, matrix=matrix) <= image <= host
