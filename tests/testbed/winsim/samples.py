"""Windows nodes as people have shown them: versions and texts copied from real ``nodeInfo``.

A fleet of them is what an operator meets in the field and would not think of: old kubelets, an ``osImage``
that does not name the release, a Windows 11 that calls itself 10, a version that cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from testbed.winsim import images
from testbed.winsim.machines import WINDOWS_RELEASES, OperatingSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION: Final = re.compile(r"v\d+\.\d+\.\d+\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a node reports, where it differs from what the other nodes of its process do."""

    os: OperatingSystem | None = None
    kubelet: str = ""


def _sample(*, image: str, kernel: str, runtime: str, kubelet: str = "") -> Sample:
    return Sample(
        os=OperatingSystem(
            family="windows", image=image, kernel=kernel, runtime=runtime, images=images.WINDOWS
        ),
        kubelet=kubelet,
    )


SAMPLES: Final[Mapping[str, Sample]] = {
    # https://github.com/kubernetes/kubernetes/issues/50396: no revision, and a runtime without a version.
    "2016": _sample(
        image="Microsoft Windows [Version 10.0.14393]",
        kernel="10.0.14393",
        runtime="docker://Unknown",
        kubelet="v1.9.0-alpha.0",
    ),
    # https://github.com/kubernetes-sigs/sig-windows-tools/issues/112
    "2019": _sample(
        image="Windows Server 2019 Datacenter",
        kernel="10.0.17763.1397",
        runtime="containerd://1.4.1",
        kubelet="v1.19.3",
    ),
    # https://github.com/kubernetes-sigs/sig-windows-dev-tools/issues/171: a kubelet of one's own build.
    "2019-evaluation": _sample(
        image="Windows Server 2019 Standard Evaluation",
        kernel="10.0.17763.2452",
        runtime="containerd://1.5.7",
        kubelet="v1.23.3-rc.0.3+531a28b82ee021",
    ),
    # The semi-annual channel does not say in osImage which release it is.
    "1903": _sample(
        image="Windows Server Datacenter",
        kernel="10.0.18362.116",
        runtime="docker://18.9.2",
        kubelet="v1.15.0",
    ),
    # https://github.com/Azure/aks-engine/issues/4176
    "2004": _sample(
        image="Windows Server Datacenter",
        kernel="10.0.19041.804",
        runtime="docker://19.3.14",
        kubelet="v1.19.7",
    ),
    # A node of EKS 1.24.
    "2022": _sample(
        image="Windows Server 2022 Datacenter",
        kernel="10.0.20348.1607",
        runtime="containerd://1.6.6",
        kubelet="v1.24.7-eks-fb459a0",
    ),
    # The upgrade pages of AKS: a revision above 32767, which is too large for 16 bits with a sign.
    "2025": _sample(
        image="Windows Server 2025 Datacenter",
        kernel="10.0.26100.32995",
        runtime="containerd://2.0.4+azure",
        kubelet="v1.33.12",
    ),
    # https://github.com/Siemens-Healthineers/K2s/issues/1126: Windows 11 by build, 10 by name.
    "windows-11": _sample(
        image="Windows 10 Enterprise",
        kernel="10.0.22631.5335",
        runtime="containerd://1.7.27",
        kubelet="v1.32.5",
    ),
    # Of nobody's: what a kubelet would say that cannot read the version.
    "garbage": _sample(image="Windows Server 2022 Datacenter", kernel="10.0.?", runtime="containerd://2.3.0"),
}
"""By the name of the release, or by what is odd about them."""


def parse_sample(text: str) -> Sample:
    """Return the sample that ``NAME`` or ``NAME@KUBELET`` stands for.

    The latter is that Windows with another kubelet, and with the runtime of the other nodes: nobody brings
    kubelets up to a new minor and leaves a runtime under them that it is not tested with.

    Raises:
        ValueError: there is no such sample, or that is no version of a kubelet.

    """
    name, at, kubelet = text.partition("@")
    if name not in SAMPLES:
        raise ValueError(f"{text!r}: there is no sample {name!r}, only {', '.join(SAMPLES)}")
    if not at:
        return SAMPLES[name]
    if not _VERSION.fullmatch(kubelet):
        raise ValueError(f"{text!r}: {kubelet!r} is not a kubelet version (v1.37.1)")
    sample = SAMPLES[name]
    upgraded = sample.os and replace(sample.os, runtime=WINDOWS_RELEASES[0].runtime)
    return replace(sample, os=upgraded, kubelet=kubelet)
