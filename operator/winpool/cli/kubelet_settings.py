"""What a kubelet must be started with so that its node is as a pool wants it from its first moment.

Kept apart from how it is printed (``kubelet_files``). What the operator itself puts on nodes and takes off
again is not here: a kubelet that registered ``startupTaints`` would make them look like somebody else's,
and nobody would ever take them off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.quantity import bytes_of
from winpool.api.selector import SelectorOperator
from winpool.support.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from winpool.api.spec import ReservedMemory
    from winpool.api.v1alpha1 import PoolTaint, WindowsNodePoolSpec

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

_KUBELET_LABELS: Final = frozenset(
    (
        *_BY_ITSELF,
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The settings for the kubelets of one pool, at one minor of Kubernetes.

    ``reserved`` is None where the pool declares nothing. ``withheld`` are keys of labels that no kubelet
    may set. ``unmet`` are requirements of the node selector that no label here meets.
    """

    pool: str
    kubelet: Minor
    reserved: ReservedMemory | None
    taints: tuple[PoolTaint, ...]
    labels: Mapping[str, str]
    withheld: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def evicts(self) -> bool:
        """Whether this kubelet evicts pods on Windows for want of memory."""
        return self.kubelet >= EVICTS_FROM

    @property
    def ignores_cgroups(self) -> bool:
        """Whether this kubelet starts on Windows with settings for cgroups, and ignores them."""
        return self.kubelet >= IGNORES_CGROUPS_FROM

    @property
    def reads_folder(self) -> bool:
        """Whether this kubelet takes ``--config-dir``."""
        return self.kubelet >= CONFIG_DIR_FROM

    @property
    def reservations(self) -> Mapping[str, str]:
        """``systemReserved`` and ``kubeReserved`` by name; none where the pool declares nothing."""
        if self.reserved is None:
            return {}
        return {
            "systemReserved": str(self.reserved.system_reserved),
            "kubeReserved": str(self.reserved.kube_reserved),
        }

    @property
    def thresholds(self) -> Mapping[str, str]:
        """``evictionHard`` by signal, whole; none where the pool declares nothing."""
        if self.reserved is None:
            return {}
        if not bytes_of(self.reserved.eviction_hard):
            # A kubelet refuses a threshold of 0; one that is not named while others are is off.
            return DISK_THRESHOLDS
        return {"memory.available": str(self.reserved.eviction_hard), **DISK_THRESHOLDS}

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
        pool=pool,
        kubelet=kubelet,
        reserved=spec.reserved_memory,
        taints=spec.taints,
        labels={key: value for key, value in wanted.items() if may_set(key)},
        withheld=tuple(key for key in wanted if not may_set(key)),
        unmet=unmet,
    )


def may_set(key: str) -> bool:
    """Whether a kubelet may set the label ``key`` on its own node.

    With another one under kubernetes.io or k8s.io the kubelet does not start, and the admission plugin
    NodeRestriction refuses it. KEP-279,
    https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
    """
    domain = key.rpartition("/")[0]
    if not _is_under(domain, _KUBERNETES_DOMAINS):
        return True
    return key in _KUBELET_LABELS or _is_under(domain, _KUBELET_DOMAINS)


def _is_under(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


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
    if settings.reserved is None:
        yield (
            "the pool declares no reservedMemory, so there are no settings for memory: the defaults of the "
            "kubelet reserve nothing for Windows"
        )
    elif not settings.evicts and bytes_of(settings.reserved.eviction_hard):
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
