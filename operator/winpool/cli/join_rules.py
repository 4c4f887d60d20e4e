"""The rules of ``join-config --check``: a row for each setting that a kubelet on Windows refuses or ignores.

Flags and fields are from the sources of Kubernetes 1.32.2, 1.33.0, 1.34.0 and 1.37.1, and of older releases
from the pull requests. Nothing is known of a flag that is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from winpool.features.audit.rules import Severity
from winpool.support.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE: Final = "https://github.com/kubernetes/kubernetes/blob/v1.37.1"
_VALIDATION: Final = f"{_SOURCE}/pkg/kubelet/apis/config/validation"


class Rule(NamedTuple):
    """What a kubelet of the minor ``since`` or a later one makes of a setting; None for every one.

    ``names`` are flags, which begin with two dashes, and fields of a KubeletConfiguration. ``holds`` says for
    which values, None for every one, known or not. It does not hold where the script has one of ``unless``.
    From the minor ``ignores_from`` on, a kubelet only logs a warning.
    """

    names: tuple[str, ...]
    since: Minor | None
    source: str
    fix: str
    happens: str = "does not know this flag, and does not start."
    holds: Callable[[str], bool] | None = None
    severity: Severity = Severity.ERROR
    unless: tuple[str, ...] = ()
    ignores_from: Minor | None = None


def _removed(minor: int, pull: int, fix: str, names: str) -> Rule:
    source = f"https://github.com/kubernetes/kubernetes/pull/{pull}"
    return Rule(tuple(f"--{name}" for name in names.split()), Minor(1, minor), source, fix)


def _refused(minor: int, field: str, unset: tuple[str, ...] = ()) -> Rule:
    return Rule(
        *((field,), Minor(1, minor), f"{_VALIDATION}/validation_windows.go", "Remove it."),
        "refuses this field on Windows, and does not start.",
        lambda value: value not in {"", "null", "~", *unset},
    )


_CGROUPS: Final = ("cgroupsPerQOS", "--cgroups-per-qos")
_ENFORCED: Final = ("enforceNodeAllocatable", "--enforce-node-allocatable")
_NO_CGROUPS: Final = "Set cgroupsPerQOS to false and enforceNodeAllocatable to []: Windows has no cgroups."
_FATAL: Final = (
    None,
    f"{_VALIDATION}/validation_windows.go",
    _NO_CGROUPS,
    "does not start with it on Windows.",
)

RULES: Final = (
    _removed(15, 77820, "Remove it: nothing replaces it.", "allow-privileged"),
    _removed(
        *(24, 106907, "Remove it: the container runtime reads the configuration of CNI by itself."),
        "network-plugin network-plugin-mtu cni-bin-dir cni-conf-dir cni-cache-dir",
    ),
    _removed(
        *(24, 106907, "Remove it: it was for dockershim, which is gone."),
        "image-pull-progress-deadline docker-endpoint experimental-dockershim-root-directory",
    ),
    _removed(
        *(26, 112120, "Remove it. Have what starts the kubelet write its output to a file."),
        "log-dir log-file log-file-max-size logtostderr alsologtostderr stderrthreshold one-output "
        "skip-headers skip-log-headers add-dir-header log-backtrace-at",
    ),
    Rule(
        *(("--container-runtime",), Minor(1, 27)),
        "https://kubernetes.io/blog/2023/03/17/upcoming-changes-in-kubernetes-v1-27/",
        "Remove it, and keep --container-runtime-endpoint.",
    ),
    _removed(30, 122595, "Use --image-credential-provider-config.", "azure-container-registry-config"),
    _removed(31, 122082, "Remove it: nothing replaces it.", "keep-terminated-pod-volumes"),
    _removed(34, 130161, "Remove it: the cloud controller manager has one.", "cloud-config"),
    _removed(
        *(35, 133779, "Remove it, and set the pause image in the configuration of containerd."),
        "pod-infra-container-image",
    ),
    Rule(
        *(("--housekeeping-interval",), Minor(1, 32)),
        f"{_SOURCE}/cmd/kubelet/app/options/globalflags_other.go",
        "Remove it: only a kubelet on Linux has it.",
    ),
    _refused(32, "singleProcessOOMKill"),
    _refused(33, "userNamespaces"),
    _refused(37, "defaultPodSysctls", unset=("{}",)),
    Rule(_CGROUPS, *_FATAL, lambda value: value.lower() == "true", ignores_from=Minor(1, 31)),
    Rule(
        *(_ENFORCED, *_FATAL, lambda value: value.strip("[]\"' -") not in {"", "none", "null", "~"}),
        ignores_from=Minor(1, 31),
    ),
    Rule(
        *(_CGROUPS, None, f"{_VALIDATION}/validation.go", "Set enforceNodeAllocatable to []."),
        "does not start with false alone: the default of enforceNodeAllocatable, not set here, needs true.",
        *(lambda value: value.lower() == "false", Severity.WARNING, _ENFORCED),
    ),
    Rule(
        ("containerRuntimeEndpoint", "--container-runtime-endpoint"),
        *(Minor(1, 32), "https://github.com/kubernetes/cri-client/blob/v0.37.1/pkg/util/util_windows.go"),
        "Write npipe:////./pipe/containerd-containerd.",
        "takes npipe and tcp alone on Windows, and does not start with unix.",
        lambda value: value.startswith("unix:"),
    ),
    Rule(
        *(("resolvConf", "--resolv-conf"), Minor(1, 27), f"{_SOURCE}/pkg/kubelet/network/dns/dns_windows.go"),
        'Set it to "" or to Host.',
        "starts no pod that uses the DNS settings of the node, unless Windows has a file of this name.",
        *(lambda value: value.startswith("/"), Severity.WARNING),
    ),
)
"""In the order in which several findings of one line are reported."""

FIELDS: Final = tuple(name for rule in RULES for name in rule.names if not name.startswith("--"))
