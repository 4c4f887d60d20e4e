"""Prints the kubelet settings that a node needs to join a pool: ``kubectl winpool join-config``.

They are a part of the kubelet's configuration file, flags, or a script that writes the file. They have no
``startupTaints``: the operator adds and removes these, and does not remove one that a kubelet has registered.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from winpool.api.fields import is_restricted_label
from winpool.api.keys import KIND
from winpool.api.model import InvalidSpecError
from winpool.api.quantity import bytes_of
from winpool.api.selector import SelectorOperator
from winpool.api.spec import WindowsNodePool
from winpool.cli.manifests import is_pool, read, told_faults, without_nulls
from winpool.cli.parsing import (
    EndError,
    Exit,
    RefusedError,
    UsageError,
    add_filename,
    add_output,
    note,
    note_offline,
    pool_name,
)
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from winpool.api.spec import WindowsNodePoolSpec


_FLAGS: Final = "flags"
"""The output that any kubelet understands."""

DESCRIPTION: Final = """\
Print the kubelet settings that a node needs to join a pool.

These are the reserved memory, the taints and the labels of the pool. Set them
before the kubelet starts: the operator never changes settings of a kubelet.
What the settings cannot include is printed to standard error.

With --check it finds in your own script (PowerShell, bash, cmd, cloud-init,
nodeadm) or KubeletConfiguration what a kubelet on Windows does not know,
refuses or ignores. It says nothing of flags and fields that it has no rule for,
prints no values, and contacts no cluster."""

EXITS: Final = {
    Exit.YES: "the settings are printed; --check found no Error",
    Exit.UNKNOWN: "there is no such pool, it is not valid, or the API server cannot be asked; with "
    "--check the file is not a text, or has nothing of a kubelet",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
    Exit.NO: "--check found an Error: a kubelet does not start",
}

EXAMPLES: Final = (
    ("kubectl winpool join-config win-2022", "part of a KubeletConfiguration"),
    ("kubectl winpool join-config win-2022 -o flags", "flags of the kubelet, one per line"),
    ("kubectl winpool join-config win-2022 -o powershell > join.ps1", "a script that writes the file"),
    ("kubectl winpool join-config win-2022 -f pool.yaml --kubelet-version 1.34", "without a cluster"),
    ("kubectl winpool join-config --check userdata.ps1", "check a script, for the newest kubelet"),
    ("kubectl winpool join-config --check kubelet.yaml --kubelet-version 1.34", "for an older one"),
)

OLDEST: Final = Minor(1, 14)
"""The first with stable Windows nodes: https://kubernetes.io/blog/2019/03/25/kubernetes-1-14-release-announcement/"""

OLDEST_FILE: Final = Minor(1, 23)
"""The first whose configuration file has ``registerWithTaints``. Older ones take all of it as flags."""

IGNORES_CGROUPS_FROM: Final = Minor(1, 31)
"""The first that ignores ``cgroupsPerQOS`` and ``enforceNodeAllocatable`` on Windows and logs a warning. An
older one does not start with what is the default elsewhere (kubernetes/kubernetes#123137)."""

EVICTS_FROM: Final = Minor(1, 31)
"""The first that evicts pods on Windows for want of memory (kubernetes/kubernetes#122922). An older one takes
the threshold off Allocatable all the same (kubernetes/kubernetes#73417), so it is named for them too: without
it such a node would hold back less than its pool declares."""

CONFIG_DIR_FROM: Final = Minor(1, 30)
"""The first that reads a folder of further configuration files without an environment variable (KEP-3983)."""

DISK_THRESHOLDS: Final[Mapping[str, str]] = {"nodefs.available": "10%", "imagefs.available": "15%"}
"""The kubelet's own on Windows. Whoever names one threshold sets those that are not named to zero.
kubernetes/kubernetes pkg/kubelet/eviction/defaults_windows.go,
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds"""

_BY_ITSELF: Final = frozenset(
    (
        *(f"{prefix}kubernetes.io/{name}" for prefix in ("", "beta.") for name in ("arch", "os")),
        "kubernetes.io/hostname",
        "node.kubernetes.io/windows-build",
    )
)
"""Labels that a kubelet sets without being told."""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "pool",
        nargs="?",
        type=pool_name,
        metavar="POOL",
        help="Print the settings for this pool: NAME or wnp/NAME.",
    )
    parser.add_argument(
        "--check",
        metavar="SCRIPT",
        help="Check this script or KubeletConfiguration, or standard input if it is -.",
    )
    add_output(parser, tuple(OUTPUTS))
    parser.add_argument(
        "--kubelet-version",
        type=_minor,
        metavar="MINOR",
        help="Print or check for this kubelet version, such as 1.34. Default: the version of the API server, "
        "and with --check the newest that is supported.",
    )
    add_filename(parser, required=False)


def run(given: argparse.Namespace) -> int:
    """Print the settings, or check a script; return the exit code."""
    if given.check is not None:
        if given.pool is not None or given.filename:
            raise UsageError("--check reads a script alone: leave out POOL and -f")
        note_offline(given, why="with --check no cluster is contacted")
        # Imported here: the rules of the audit, whose severities it has, take a while to load.
        from winpool.cli.join_check import check

        return check(given.check, given.kubelet_version)
    if given.pool is None:
        raise UsageError("POOL is missing; to check a script, use --check SCRIPT")
    content, kubelet = _from_file(given) if given.filename else _from_server(given)
    if given.output != _FLAGS and kubelet < OLDEST_FILE:
        raise UsageError(
            f"the configuration file of a kubelet {kubelet} has no registerWithTaints, which {OLDEST_FILE} "
            f"added: use -o {_FLAGS}"
        )
    pool = pool_of(content)
    settings = settings_of(pool.spec, pool=pool.metadata.name, kubelet=kubelet)
    sys.stdout.write(OUTPUTS[given.output](settings))
    for each in notes(settings):
        note(each)
    return Exit.YES


def pool_of(content: Mapping[str, Any]) -> WindowsNodePool:
    """Return the pool. Raises RefusedError where it is not valid."""
    try:
        return WindowsNodePool.from_object(content)
    except InvalidSpecError as error:
        raise RefusedError(*error.problems) from None


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    if minor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a Kubernetes version: write it as 1.34")
    if minor < OLDEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is too old: Windows nodes are stable since Kubernetes {OLDEST}"
        )
    return minor


def _from_server(given: argparse.Namespace) -> tuple[Mapping[str, Any], Minor]:
    """Return the pool of the cluster, and the minor of its kubelets."""
    # Imported here: what asks a server takes half a second to load, and with a file it is not needed.
    from winpool.cli.reader import pool_and_version

    content, version = pool_and_version(given.pool, given.flags)
    kubelet = given.kubelet_version or parse_minor(version)
    if kubelet is None:
        raise EndError(
            f"the API server's version {version!r} is not a Kubernetes version: use --kubelet-version"
        )
    return content, kubelet


def _from_file(given: argparse.Namespace) -> tuple[Mapping[str, Any], Minor]:
    """Return the pool of that name in the file, and the minor of its kubelets."""
    note_offline(given, why="with -f no cluster is contacted")
    if given.kubelet_version is None:
        raise UsageError("-f needs --kubelet-version too, such as --kubelet-version 1.34")
    found = [
        each
        for each in read(given.filename, recursive=given.recursive, keeps=is_pool)
        if each.content is None or (each.name == given.pool and is_pool(each.content))
    ]
    if broken := [line for each in found if each.content is None for line in told_faults(each)]:
        raise RefusedError(*broken)
    if len(found) != 1:
        where = ", ".join("stdin" if name == "-" else name for name in given.filename)
        many = f'{KIND} "{given.pool}" is in {where} {len(found)} times'
        raise RefusedError(many if found else f'there is no {KIND} "{given.pool}" in {where}')
    if faults := told_faults(found[0]):
        raise RefusedError(*faults)
    return without_nulls(found[0].content), given.kubelet_version


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The settings for the kubelets of one pool, at one minor of Kubernetes.

    ``labels`` are those by which the pool selects nodes and those that it sets, and ``withheld`` the keys of
    those that no kubelet may set. ``unmet`` are requirements of the node selector that no label meets.
    """

    spec: WindowsNodePoolSpec
    pool: str
    kubelet: Minor
    labels: Mapping[str, str]
    withheld: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def reads_folder(self) -> bool:
        """Whether this kubelet takes ``--config-dir``."""
        return self.kubelet >= CONFIG_DIR_FROM

    @property
    def reservations(self) -> Mapping[str, str]:
        """``systemReserved`` and ``kubeReserved`` by name; none where the pool declares nothing."""
        if self.spec.reserved_memory is None:
            return {}
        return {
            "systemReserved": str(self.spec.reserved_memory.system_reserved),
            "kubeReserved": str(self.spec.reserved_memory.kube_reserved),
        }

    @property
    def thresholds(self) -> Mapping[str, str]:
        """``evictionHard`` by signal, whole; none where the pool declares nothing."""
        if self.spec.reserved_memory is None:
            return {}
        if not bytes_of(self.spec.reserved_memory.eviction_hard):
            # A kubelet refuses a threshold of 0; one that is not named while others are is off.
            return DISK_THRESHOLDS
        return {"memory.available": str(self.spec.reserved_memory.eviction_hard), **DISK_THRESHOLDS}

    @property
    def node_labels(self) -> str:
        """The value of the flag ``--node-labels``: there is no field for it in a file."""
        return ",".join(f"{key}={value}" for key, value in self.labels.items())


def settings_of(spec: WindowsNodePoolSpec, *, pool: str, kubelet: Minor) -> KubeletSettings:
    """Return what kubelets of minor ``kubelet`` must have to join ``pool``."""
    selected, unmet = _selected(spec)
    wanted = {
        key: value for key, value in sorted({**selected, **spec.labels}.items()) if key not in _BY_ITSELF
    }
    return KubeletSettings(
        spec=spec,
        pool=pool,
        kubelet=kubelet,
        labels={key: value for key, value in wanted.items() if not is_restricted_label(key)},
        withheld=tuple(key for key in wanted if is_restricted_label(key)),
        unmet=unmet,
    )


def _selected(spec: WindowsNodePoolSpec) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the labels by which a node gets into the pool, and the requirements that leave a choice."""
    labels = dict(spec.node_selector.match_labels)
    unmet: list[str] = []
    for each in spec.node_selector.match_expressions:
        if each.operator is SelectorOperator.IN and len(each.values) == 1:
            labels.setdefault(each.key, each.values[0])
        elif each.operator is not SelectorOperator.DOES_NOT_EXIST:
            values = f" ({', '.join(each.values)})" if each.values else ""
            unmet.append(f"{each.key} {each.operator}{values}")
    return labels, tuple(unmet)


def notes(settings: KubeletSettings) -> Iterator[str]:
    """Yield what a person must know who uses the settings, and what they cannot hold."""
    if settings.spec.reserved_memory is None:
        yield (
            "the pool declares no reservedMemory, so there are no settings for memory: the defaults of the "
            "kubelet reserve nothing for Windows"
        )
    elif settings.kubelet < EVICTS_FROM and bytes_of(settings.spec.reserved_memory.eviction_hard):
        yield (
            f"a kubelet {settings.kubelet} subtracts memory.available from Allocatable, but evicts no pod on "
            f"Windows because of it: kubelets do that since {EVICTS_FROM}"
        )
    if settings.withheld:
        yield (
            f"labels that a kubelet must not set: {', '.join(settings.withheld)}; the operator adds those of "
            "spec.labels, and an admin must add those of nodeSelector"
        )
    if settings.unmet:
        yield f"nodeSelector also requires {' and '.join(settings.unmet)}: make sure that the nodes match"


class Quoted(str):
    """A text that stands in quotes: without them y is a boolean to a kubelet, and 1e3 a number."""


class _Dumper(yaml.SafeDumper):
    """Writes ``Quoted`` too."""


def _represent(dumper: yaml.SafeDumper, text: Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Dumper.add_representer(Quoted, _represent)


def _kubelet(settings: KubeletSettings) -> str:
    parts = [_comment(_head(settings)) + dumped(_KIND)]
    parts += [_comment(said) + dumped(content) for said, content in _sections(settings)]
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
    said = f"{_NO_CGROUPS} {_STARTS if settings.kubelet >= IGNORES_CGROUPS_FROM else _DOES_NOT_START}"
    yield said, {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
    if settings.spec.reserved_memory is not None:
        reservations = {name: {"memory": Quoted(size)} for name, size in settings.reservations.items()}
        yield f"{settings.spec.reserved_memory.told}. {_RESERVATIONS}", reservations
        said = _THRESHOLDS if settings.kubelet >= EVICTS_FROM else f"{_THRESHOLDS} {_NO_EVICTION}"
        yield said, {"evictionHard": {name: Quoted(size) for name, size in settings.thresholds.items()}}
    if settings.spec.taints:
        taints = [
            {"key": Quoted(each.key), "value": Quoted(each.value), "effect": Quoted(each.effect)}
            for each in settings.spec.taints
        ]
        yield _TAINTS, {"registerNode": True, "registerWithTaints": taints}


def _comment(said: str) -> str:
    lines = textwrap.wrap(said, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def dumped(content: Mapping[str, Any]) -> str:
    """Return the YAML of ``content``, in the order of its keys."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=_NEVER_FOLDED, allow_unicode=True)


_FLAG_OF: Final = {"systemReserved": "--system-reserved", "kubeReserved": "--kube-reserved"}


def flags(settings: KubeletSettings) -> Iterator[str]:
    """Yield the arguments of the kubelet, each as one, without the quotes that a shell may want."""
    yield "--cgroups-per-qos=false"
    yield "--enforce-node-allocatable="
    for name, size in settings.reservations.items():
        yield f"{_FLAG_OF[name]}=memory={size}"
    if settings.thresholds:
        yield "--eviction-hard=" + ",".join(f"{name}<{size}" for name, size in settings.thresholds.items())
    if settings.spec.taints:
        pairs = [(f"{each.key}={each.value}".removesuffix("="), each.effect) for each in settings.spec.taints]
        taints = (f"{pair}:{effect}" for pair, effect in pairs)
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
    "flags": lambda settings: "".join(f"{flag}\n" for flag in flags(settings)),
    "powershell": _powershell,
}
"""By the name that ``-o`` takes."""
