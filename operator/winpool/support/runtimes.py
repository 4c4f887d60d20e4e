"""Whether the container runtime fits the kubelet, and whether its pause image fits the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import Verdict
from winpool.support.data import Stage
from winpool.support.hosts import runs_build
from winpool.support.verdicts import Reason
from winpool.support.versions import parse_release, parse_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.data import Runtime
    from winpool.support.matrix import Matrix
    from winpool.support.versions import Minor, Release, RuntimeVersion, WindowsVersion

CONTAINERD: Final = "containerd"
DOCKER: Final = "docker"

_PINNED_FROM: Final = 2
"""The first major of containerd whose CRI plugin has its own table for pinned images."""


def runtime_reasons(
    text: str, *, kubelet: Minor | None, host: WindowsVersion | None, matrix: Matrix
) -> Iterator[Reason]:
    """Judge the runtime that the node reports as ``text``, for a kubelet and a host that may be unknown.

    The kubelet's minor counts, not the control plane's: the kubelet uses the runtime.
    """
    runtime = parse_runtime(text)
    if runtime is None or runtime.release is None:
        yield Reason(
            "RuntimeUnknown",
            Verdict.UNKNOWN,
            f"The version of the container runtime {_short(text)} cannot be read.",
            fix="Check nodeInfo.containerRuntimeVersion of the node.",
            cause="containerRuntimeVersion",
        )
        return
    if kubelet is not None:
        yield from _for_minor(runtime, runtime.release, kubelet, matrix)
    if host is not None and runtime.name == CONTAINERD:
        yield from _pause(runtime.release, host, matrix)


def _for_minor(runtime: RuntimeVersion, release: Release, minor: Minor, matrix: Matrix) -> Iterator[Reason]:
    known = matrix.minors.get(minor)
    if known is None or known.released is None:
        return  # the verdict on release and minor says so already
    row = matrix.runtimes.get((minor, runtime.name))
    if row is None:
        yield Reason(
            "RuntimeNotListed",
            Verdict.UNKNOWN,
            f"The support matrix has nothing about {runtime.name} on Windows with Kubernetes {minor}.",
            fix="Use containerd.",
        )
    elif row.stage is Stage.ABSENT:
        yield Reason(
            "RuntimeUnsupported",
            Verdict.UNSUPPORTED,
            f"Kubernetes {minor} cannot use {runtime.name} on Windows.",
            fix="Upgrade the kubelet, or change the runtime.",
        )
    elif (minimum := parse_release(row.minimum)) is not None and release < minimum:
        yield Reason(
            "RuntimeTooOld",
            Verdict.UNSUPPORTED,
            f"{runtime.name} is too old for Kubernetes {minor}, which needs at least {minimum}.",
            fix=f"Update {runtime.name} on the node.",
        )
    else:
        yield from _advice(row, release, minor)


def _advice(row: Runtime, release: Release, minor: Minor) -> Iterator[Reason]:
    if row.stage is Stage.ALPHA:
        yield Reason(
            "RuntimeAlpha",
            Verdict.WARNED,
            f"{row.name} on Windows is alpha in Kubernetes {minor}.",
            fix="Upgrade the kubelet, or change the runtime.",
        )
    recommended = [found for each in row.recommended if (found := parse_release(each))]
    if not recommended or release.line > max(each.line for each in recommended):
        return
    of_line = [each for each in recommended if each.line == release.line]
    if not of_line or release < min(of_line):
        yield Reason(
            "RuntimeNotRecommended",
            Verdict.WARNED,
            f"{row.name} is older than recommended for Kubernetes {minor} "
            f"({', '.join(f'{each} or later' for each in row.recommended)}).",
            fix=f"Update {row.name} on the node.",
        )


def _pause(containerd: Release, host: WindowsVersion, matrix: Matrix) -> Iterator[Reason]:
    """Warn where no variant of the default pause image is known to run on ``host``.

    This is only a warning: the node's configuration may name another image, as that of vendors does, and the
    operator cannot see it.
    """
    image = matrix.sandbox(containerd)
    if image is None or not image.complete or host.build not in matrix.builds:
        return
    if not any(runs_build(host.build, build, containerd=containerd, matrix=matrix) for build in image.builds):
        yield Reason(
            "PauseImageMissing",
            Verdict.WARNED,
            f"The default pause image of containerd {containerd}, {image.image}, is not known to have a "
            f"variant for build {host.build}. Without a variant no pod starts. The nodes do not report which "
            "pause image they use.",
            fix=f"Check {sandbox_key(containerd)} in what `containerd config dump` prints on the node, and "
            f"set it to an image that has a variant for {host.build}.",
        )


def sandbox_key(containerd: Release) -> str:
    """Return the key of containerd's configuration that names the pause image.

    https://github.com/containerd/containerd/blob/v2.4.2/docs/cri/config.md
    """
    return "pinned_images.sandbox" if containerd.major >= _PINNED_FROM else "sandbox_image"


def _short(text: str) -> str:
    return repr(text[:60]) if text else "nothing"
