"""The container images that a node has pulled, in the shape and the amount that kubelets report.

Names and sizes are plausible, the digests are made from the names: no image is ever pulled.
A kubelet lists the largest first and reports up to fifty; a working Windows node has about a
dozen, and it is mostly this list that makes a Node object 7 kB.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from testbed.winsim.objects import Image

_MIB: Final = 1024 * 1024


def _image(repository: str, tag: str, mebibytes: float) -> Image:
    digest = sha256(f"{repository}:{tag}".encode()).hexdigest()
    return Image(
        names=(f"{repository}@sha256:{digest}", f"{repository}:{tag}"),
        size_bytes=int(mebibytes * _MIB) + int(digest[:5], 16),
    )


def _largest_first(*images: Image) -> tuple[Image, ...]:
    return tuple(sorted(images, key=lambda image: image.size_bytes, reverse=True))


def with_pause(listed: tuple[Image, ...], reference: str, *, pulled: bool) -> tuple[Image, ...]:
    """List another pause image in place of the one that is there, or none where it has not been pulled."""
    others = tuple(each for each in listed if "/pause:" not in each.names[-1])
    if not pulled:
        return others
    repository, _, tag = reference.rpartition(":")
    return _largest_first(*others, _image(repository, tag, 0.3))


WINDOWS: Final = _largest_first(
    _image("registry.example.com/windows/servercore", "ltsc2022", 1989.6),
    _image("registry.example.com/dotnet/framework/aspnet", "4.8-windowsservercore-ltsc2022", 2871.9),
    _image("registry.example.com/windows/servercore/iis", "windowsservercore-ltsc2022", 2094.2),
    _image("registry.example.com/dotnet/aspnet", "8.0-nanoserver-ltsc2022", 142.7),
    _image("registry.example.com/windows/nanoserver", "ltsc2022", 118.4),
    _image("registry.example.com/oss/kubernetes/windows-host-process-containers-base-image", "v1.0.0", 0.1),
    _image("registry.example.com/pause", "3.10.2", 0.3),
    _image("registry.example.com/sigwindowstools/kube-proxy", "v1.36.3-calico-hostprocess", 61.5),
    _image("registry.example.com/calico/cni-windows", "v3.31.2", 77.8),
    _image("registry.example.com/calico/node-windows", "v3.31.2", 96.1),
    _image("registry.example.com/sig-storage/csi-node-driver-registrar", "v2.15.0", 131.3),
    _image("registry.example.com/sig-storage/livenessprobe", "v2.17.0", 131.0),
    _image("registry.example.com/prometheus-community/windows-exporter", "0.31.3", 74.6),
    _image("registry.example.com/fluent/fluent-bit", "windows-2022-4.1.1", 207.9),
    _image("registry.example.com/sig-storage/smbplugin", "v1.19.1", 163.3),
    _image("registry.example.com/csi-secrets-store/driver", "v1.5.5", 152.4),
)

LINUX: Final = _largest_first(
    _image("registry.example.com/kube-proxy", "v1.36.3", 27.4),
    _image("registry.example.com/coredns/coredns", "v1.14.0", 22.1),
    _image("registry.example.com/pause", "3.10.2", 0.3),
    _image("registry.example.com/calico/cni", "v3.31.2", 69.9),
    _image("registry.example.com/calico/node", "v3.31.2", 151.8),
    _image("registry.example.com/calico/kube-controllers", "v3.31.2", 49.6),
    _image("registry.example.com/sig-storage/csi-node-driver-registrar", "v2.15.0", 13.9),
    _image("registry.example.com/sig-storage/livenessprobe", "v2.17.0", 13.7),
    _image("registry.example.com/prometheus/node-exporter", "v1.10.2", 11.9),
    _image("registry.example.com/fluent/fluent-bit", "4.1.1", 38.5),
)
