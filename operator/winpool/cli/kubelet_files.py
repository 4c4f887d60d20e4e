"""The settings for a kubelet: as its configuration file, its flags, and a script that writes the file."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import yaml

from winpool.cli.kubelet_settings import CONFIG_DIR_FROM, EVICTS_FROM, IGNORES_CGROUPS_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from winpool.cli.kubelet_settings import KubeletSettings

_WIDTH: Final = 100
_NEVER_FOLDED: Final = 10_000
"""A key and a value stay on one line, however long."""

_FOLDER: Final = r"C:\var\lib\kubelet\kubelet.conf.d"
"""Beside the kubelet's own root on Windows, C:\\var\\lib\\kubelet."""

_NO_CGROUPS: Final = "Windows has no cgroups, so nothing enforces a reservation. With other values"
_STARTS: Final = "the kubelet logs a warning and ignores them."
_DOES_NOT_START: Final = f"a kubelet before {IGNORES_CGROUPS_FROM} does not start."
_RESERVATIONS: Final = (
    "Reservations make Allocatable smaller, so that fewer pods are scheduled to the node. They protect "
    "nothing by themselves: set the memory limits of pods equal to their requests. Keep the values for cpu "
    "in your file."
)
_THRESHOLDS: Final = (
    "If one threshold is set, the kubelet sets all others to zero, so its defaults for disks are here too. "
    "On Windows memory.available is the memory that can still be committed, in RAM and page file."
)
_NO_EVICTION: Final = (
    f"A kubelet before {EVICTS_FROM} subtracts memory.available from Allocatable too, but evicts no pod on "
    "Windows because of it."
)
_TAINTS: Final = (
    "With these taints no pod is scheduled before the operator has processed the node. The kubelet reads "
    "them only when it registers the node for the first time. Do not add the startupTaints of the pool: the "
    "operator adds and removes them, and does not remove a taint that it has not added."
)


class _Quoted(str):
    """A text that stands in quotes: without them y is a boolean to a kubelet, and 1e3 a number."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes ``_Quoted`` too."""


def _represent(dumper: yaml.SafeDumper, text: _Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Dumper.add_representer(_Quoted, _represent)


def render(settings: KubeletSettings, output: str) -> str:
    """Return ``settings`` in the form named ``output``, one of ``OUTPUTS``."""
    return OUTPUTS[output](settings)


def _kubelet(settings: KubeletSettings) -> str:
    parts = [_comment(_head(settings)) + _dumped(_KIND)]
    parts += [_comment(said) + _dumped(content) for said, content in _sections(settings)]
    if settings.labels:
        said = "The file has no field for labels. Start the kubelet with this flag:"
        parts.append(_comment(said) + f"#   --node-labels={settings.node_labels}\n")
    return "\n".join(parts)


_KIND: Final = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def _head(settings: KubeletSettings) -> str:
    folder = ", or save it in the folder that --config-dir names, as a file that ends in .conf"
    return (
        f"Settings for the kubelets of nodes that join the pool {settings.pool}, Kubernetes "
        f"{settings.kubelet}. They are part of a configuration: merge them into the file that --config names"
        f"{folder if settings.reads_folder else ''}. A kubelet reads the file only when it starts."
    )


def _sections(settings: KubeletSettings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what stands in the file after its head, with the words above it."""
    said = f"{_NO_CGROUPS} {_STARTS if settings.ignores_cgroups else _DOES_NOT_START}"
    yield said, {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
    if settings.reserved is not None:
        reservations = {name: {"memory": _Quoted(size)} for name, size in settings.reservations.items()}
        yield f"{settings.reserved.told}. {_RESERVATIONS}", reservations
        said = _THRESHOLDS if settings.evicts else f"{_THRESHOLDS} {_NO_EVICTION}"
        yield said, {"evictionHard": {name: _Quoted(size) for name, size in settings.thresholds.items()}}
    if settings.taints:
        taints = [
            {"key": _Quoted(each.key), "value": _Quoted(each.value), "effect": _Quoted(each.effect)}
            for each in settings.taints
        ]
        yield _TAINTS, {"registerNode": True, "registerWithTaints": taints}


def _comment(said: str) -> str:
    lines = textwrap.wrap(said, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def _dumped(content: Mapping[str, Any]) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=_NEVER_FOLDED, allow_unicode=True)


_FLAG_OF: Final = {"systemReserved": "--system-reserved", "kubeReserved": "--kube-reserved"}


def _flags(settings: KubeletSettings) -> str:
    return "".join(f"{flag}\n" for flag in flags(settings))


def flags(settings: KubeletSettings) -> Iterator[str]:
    """Yield the arguments of the kubelet, each as one, without the quotes that a shell may want."""
    yield "--cgroups-per-qos=false"
    yield "--enforce-node-allocatable="
    for name, size in settings.reservations.items():
        yield f"{_FLAG_OF[name]}=memory={size}"
    if settings.thresholds:
        yield "--eviction-hard=" + ",".join(f"{name}<{size}" for name, size in settings.thresholds.items())
    if settings.taints:
        taints = (
            f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}"
            for each in settings.taints
        )
        yield "--register-node=true"
        yield f"--register-with-taints={','.join(taints)}"
    if settings.labels:
        yield f"--node-labels={settings.node_labels}"


def _powershell(settings: KubeletSettings) -> str:
    r"""Return a script that writes the file.

    It restarts nothing and leaves the service alone: how a kubelet is run is another matter with each
    installer. Written by .NET, since Windows PowerShell would put a byte order mark before the text.
    Nothing in the text can end the quotes: keys and values are letters, digits, '-', '_', '.' and '/'.
    """
    file = rf"{_FOLDER}\90-winpool-{settings.pool}.conf"
    arguments = [f"--config-dir={_FOLDER}"] if settings.reads_folder else []
    if settings.labels:
        arguments.append(f"--node-labels={settings.node_labels}")
    if settings.reads_folder:
        said = "Restart the kubelet with these flags:"
    else:
        said = (
            f"A kubelet before {CONFIG_DIR_FROM} reads one file: merge this file into the one that --config "
            "names. Then restart the kubelet" + (" with these flags:" if arguments else ".")
        )
    return (
        "#Requires -RunAsAdministrator\n"
        "$ErrorActionPreference = 'Stop'\n"
        f"$file = '{file}'\n"
        "$content = @'\n"
        f"{_kubelet(settings)}"
        "'@\n"
        "New-Item -ItemType Directory -Force -Path (Split-Path -Parent $file) | Out-Null\n"
        '[IO.File]::WriteAllText($file, $content + "`n")\n'
        'Write-Host "Written: $file"\n'
        f"Write-Host '{said}'\n" + "".join(f"Write-Host '  {each}'\n" for each in arguments)
    )


OUTPUTS: Final[Mapping[str, Callable[[KubeletSettings], str]]] = {
    "kubelet": _kubelet,
    "flags": _flags,
    "powershell": _powershell,
}
"""By the name that ``-o`` takes."""
