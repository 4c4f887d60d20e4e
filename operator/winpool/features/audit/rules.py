"""The rules of the audit: one row for each thing that Windows refuses, ignores or does differently.

A rule about a field that must not be there is a row and nothing else; other conditions are functions of
``conditions.py``. The rows are in the order in which findings about one object are reported.

What is not here, and why, is in ``tools/gen/workload_rules_reference.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.api.text import enumerate_names
from winpool.features.audit import conditions
from winpool.features.audit.conditions import Find, Test, set_to, value_is, where
from winpool.features.audit.workloads import (
    BETA_OS_LABEL,
    ISOLATION_ANNOTATION,
    RUNTIME_CLASS,
    Place,
    PodOS,
    Workload,
)
from winpool.support.versions import Minor

OLDEST: Final = Minor(1, 32)
NEWEST: Final = Minor(1, 37)
"""The minors for which the outcomes in the table are known; a test compares both with the pages."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "Error"
    """The API server refuses the object, the kubelet refuses the pod, or the pod cannot start."""
    WARNING = "Warning"
    """It is accepted, and ignored or different from Linux without a word."""
    INFO = "Info"
    """It works, and there is something to know."""


SEVERITIES: Final = tuple(Severity)
"""The worst first."""


class Outcome(StrEnum):
    """What the API server does with a field."""

    REFUSED = "refused"
    DROPPED = "dropped"
    """Its feature gate is off, so the object is stored without the field."""
    ACCEPTED = "accepted"


class Needs(StrEnum):
    """What has to be known to judge a rule. Text: what a manifest alone does not show."""

    MANIFEST = "manifest"
    HOSTS = "builds and runtimes of Windows nodes"
    """``--host-build`` and a pool show them too."""
    NODES = "labels and taints of nodes"
    HANDLERS = "runtime handlers of Windows nodes"
    RUNTIME_CLASSES = "RuntimeClasses of the cluster"
    NAMESPACES = "Pod Security of namespaces"
    LIMIT_RANGES = "LimitRanges"


class Known(StrEnum):
    """How a rule was established."""

    LIVE = "live"
    """A real API server, 1.37.1, was asked with a dry run."""
    SOURCE = "source"
    """The source of Kubernetes 1.36.3 and 1.37.1 says it."""
    DOCUMENTATION = "documentation"


_LIVE: Final = (Known.LIVE,)
_LIVE_AND_SOURCE: Final = (Known.LIVE, Known.SOURCE)
_SOURCE: Final = (Known.SOURCE,)
_LIVE_AND_DOCUMENTATION: Final = (Known.LIVE, Known.DOCUMENTATION)
_SOURCE_AND_DOCUMENTATION: Final = (Known.SOURCE, Known.DOCUMENTATION)
_DOCUMENTATION: Final = (Known.DOCUMENTATION,)


class Worse(NamedTuple):
    """The severity in places that pass a test, and which these are, in words."""

    severity: Severity
    test: Test
    where: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A row. ``happens`` is what happens on a Windows node, ``fix`` what to do about it.

    ``outcomes`` are those of the API server with ``spec.os.name: windows``, each from its minor on; without
    any the field is accepted. ``without_os`` is the severity without ``spec.os.name``, where the API server
    refuses nothing; None where that makes no difference. ``worse`` is the severity in some places. ``find``
    is the condition; without it each place where one of ``fields`` is set counts. ``since`` is the minor
    from which a rule holds. ``better_with`` is what makes the judgement more precise. ``kind`` is that of
    the objects which the rule is about, empty for pods.

    What most rows have in common is the default: a Warning, which a real API server and the source show, and
    that the field is to be removed.
    """

    code: str
    fields: tuple[str, ...]
    happens: str
    fix: str = "Remove it."
    sources: tuple[str, ...]
    severity: Severity = Severity.WARNING
    known: tuple[Known, ...] = _LIVE_AND_SOURCE
    find: Find | None = None
    outcomes: tuple[tuple[Minor, Outcome], ...] = ()
    without_os: Severity | None = None
    worse: Worse | None = None
    since: Minor | None = None
    applies_to: tuple[PodOS, ...] = (PodOS.WINDOWS,)
    needs: Needs = Needs.MANIFEST
    better_with: Needs | None = None
    kind: str = ""

    def places(self, workload: Workload) -> list[Place]:
        """Return where a workload has what the rule is about."""
        found = [place for field in self.fields for place in workload.places(field)]
        return found if self.find is None else list(self.find(workload, found))

    def outcome(self, minor: Minor, *, is_os_named: bool) -> Outcome:
        """Return what the API server of a ``minor`` does, by whether the pod has ``spec.os.name``."""
        found = Outcome.ACCEPTED
        for since, outcome in self.outcomes:
            found = outcome if since <= minor else found
        is_refused_by_name = found is Outcome.REFUSED and self.without_os is not None
        return Outcome.ACCEPTED if is_refused_by_name and not is_os_named else found


VALIDATION: Final = "k8s.io/kubernetes v1.37.1 pkg/apis/core/validation/validation.go"
_KUBERNETES: Final = "k8s.io/kubernetes v1.37.1 pkg"
_DOCS: Final = "https://kubernetes.io/docs"
_NETWORK: Final = f"{_DOCS}/concepts/services-networking/windows-networking/"
_PROJECTED: Final = f"{_DOCS}/concepts/storage/projected-volumes/"
_GUIDE: Final = f"{_DOCS}/concepts/windows/user-guide/"
_INTRO: Final = f"{_DOCS}/concepts/windows/intro/"
_HOST_PROCESS: Final = f"{_DOCS}/tasks/configure-pod-container/create-hostprocess-pod/"
_STORAGE: Final = f"{_DOCS}/concepts/storage/windows-storage/"
_RESOURCES: Final = f"{_DOCS}/concepts/configuration/windows-resource-management/"
_TAINTS: Final = f"{_DOCS}/concepts/scheduling-eviction/taint-and-toleration/"
_COMPATIBILITY: Final = (
    "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"
)
_GATES: Final = f"{_KUBERNETES}/features/kube_features.go"

_BY_NAME: Final = ((Minor(1, 25), Outcome.REFUSED),)
"""The API server validates by ``spec.os.name`` since 1.25 (KEP-2802)."""

_USER_NAMES: Final = ((Minor(1, 18), Outcome.REFUSED),)
_HOST_PROCESSES: Final = ((Minor(1, 22), Outcome.REFUSED),)
"""What the API server refuses whatever ``spec.os.name`` says, since its fields exist."""

_ADMITTED: Final = ((Minor(1, 20), Outcome.REFUSED),)
"""What the API server refuses by the RuntimeClass of a pod, since that is stable."""

_POD: Final = "spec.securityContext"
_CONTAINER: Final = "spec.containers[*].securityContext"


_PROJECTIONS: Final = ("secret", "configMap", "downwardAPI")
_MODES: Final = (
    *(f"spec.volumes[*].{each}.defaultMode" for each in (*_PROJECTIONS, "projected")),
    *(f"spec.volumes[*].{each}.items[*].mode" for each in _PROJECTIONS),
    *(f"spec.volumes[*].projected.sources[*].{each}.items[*].mode" for each in _PROJECTIONS),
)
_COMMANDS: Final = (
    "spec.containers[*].command",
    "spec.containers[*].args",
    *(f"spec.containers[*].{each}Probe.exec.command" for each in ("startup", "readiness", "liveness")),
    *(f"spec.containers[*].lifecycle.{each}.exec.command" for each in ("postStart", "preStop")),
)


def _gated(known: Minor, on: Minor) -> tuple[tuple[Minor, Outcome], ...]:
    """Return the outcomes of a field that exists since ``known``, and whose gate is on since ``on``."""
    return (known, Outcome.DROPPED), (on, Outcome.REFUSED)


def _refused(
    code: str,
    *fields: str,
    happens: str,
    fix: str = "Remove it.",
    without: Severity = Severity.WARNING,
    worse: Worse | None = None,
    find: Find | None = None,
    outcomes: tuple[tuple[Minor, Outcome], ...] = _BY_NAME,
    sources: tuple[str, ...] = (),
    known: tuple[Known, ...] = _LIVE_AND_SOURCE,
) -> Rule:
    """Return the row of a field that the API server refuses with ``spec.os.name: windows``."""
    return Rule(
        code=code,
        fields=fields,
        happens=happens,
        fix=fix,
        severity=Severity.ERROR,
        without_os=without,
        worse=worse,
        find=find,
        outcomes=outcomes,
        sources=(f"{VALIDATION} (validateWindows)", *sources),
        known=known,
    )


def _everywhere(field: str) -> tuple[str, str]:
    """Return a field of the security contexts of pods and of containers."""
    return f"{_POD}.{field}", f"{_CONTAINER}.{field}"


_NAMED: Final = 5
"""Fields that a finding of P5 names. A chart can set some in each of its containers."""


def _without_name(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find a workload for Windows without ``os.name``; say by what, and what would be refused with it."""
    if workload.os_name:
        return
    names = [place.path for rule in REFUSED if rule.without_os for place in rule.places(workload)]
    more = f"The pods are for Windows by {workload.evidence}."
    if names:
        listed = enumerate_names(names, most=_NAMED)
        more += f" Remove first what the API server refuses with it: {listed}."
    yield Place(workload.path("spec.os.name"), more=more)


PLACEMENT: Final = (
    Rule(
        code="P1",
        fields=("spec.nodeSelector",),
        find=conditions.lands_on_windows,
        happens="Nothing says for which OS the pods are, so the scheduler places them on every Windows node "
        "whose taints they tolerate.",
        fix="Add nodeSelector: {kubernetes.io/os: linux} or {kubernetes.io/os: windows} to the pod "
        "template, or taint the Windows nodes.",
        worse=Worse(
            Severity.ERROR, conditions.tolerates_everything, "for a DaemonSet that tolerates every taint"
        ),
        applies_to=(PodOS.UNKNOWN,),
        needs=Needs.NODES,
        sources=(_GUIDE,),
        known=_LIVE,
    ),
    Rule(
        code="P2",
        fields=("spec.os.name",),
        find=conditions.no_selection,
        happens="The pods do not select nodes by their OS: the scheduler does not read os.name. On a Linux "
        "node the kubelet refuses them (PodOSNotSupported).",
        fix="Add nodeSelector: {kubernetes.io/os: windows}.",
        worse=Worse(
            Severity.ERROR,
            conditions.lands_on_linux,
            "where a Linux node takes the pods, or that is not known",
        ),
        better_with=Needs.NODES,
        sources=(f"{_KUBERNETES}/kubelet/lifecycle/predicate.go", _GUIDE),
        known=_SOURCE,
    ),
    Rule(
        code="P3",
        fields=("spec.os.name",),
        find=conditions.contradiction,
        happens="The pods select nodes of another OS. The API server accepts that, and the kubelet there "
        "refuses the pods (PodOSNotSupported).",
        fix="Make os.name and the node selection agree.",
        severity=Severity.ERROR,
        applies_to=(PodOS.WINDOWS, PodOS.LINUX),
        sources=(f"{_KUBERNETES}/kubelet/lifecycle/predicate.go",),
    ),
    Rule(
        code="P4",
        fields=("spec.tolerations",),
        find=conditions.no_toleration,
        happens="The pods tolerate the taints of none of the Windows nodes that they select: they stay "
        "Pending.",
        fix="Add tolerations for these taints to the pod template, or use a RuntimeClass that has them.",
        severity=Severity.ERROR,
        needs=Needs.NODES,
        sources=(_GUIDE, _TAINTS),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="P5",
        fields=("spec.os.name",),
        find=_without_name,
        happens="The API server does not know that the pods are for Windows: it accepts fields that Windows "
        "ignores, and the Pod Security level restricted demands fields that only Linux has.",
        fix="Set spec.os.name to windows.",
        sources=(f"{_DOCS}/concepts/security/pod-security-standards/", VALIDATION),
    ),
    Rule(
        code="P6",
        fields=(f"spec.nodeSelector[{BETA_OS_LABEL}]", "spec.nodeSelector[beta.kubernetes.io/arch]"),
        happens="Kubernetes has deprecated this label since 1.14. Kubelets still set it.",
        fix="Select kubernetes.io/os and kubernetes.io/arch instead.",
        severity=Severity.INFO,
        sources=(f"{_KUBERNETES}/kubelet/kubelet_node_status.go",),
    ),
    Rule(
        code="P7",
        fields=(f"spec.nodeSelector[{WINDOWS_BUILD_LABEL}]",),
        find=conditions.runs_on_some,
        happens="The scheduler does not compare the builds of image and node. Some of the nodes that take "
        "the pods do not run the image.",
        fix=f"Select {WINDOWS_BUILD_LABEL}, or use a RuntimeClass for each build.",
        applies_to=(PodOS.WINDOWS, PodOS.UNKNOWN),
        needs=Needs.HOSTS,
        sources=(_GUIDE, _COMPATIBILITY),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="P8",
        fields=("spec.runtimeClassName",),
        find=conditions.no_class,
        happens="There is no RuntimeClass of this name: the API server refuses the pods. It accepts a "
        "template with it.",
        fix="Create the RuntimeClass, or correct the name.",
        outcomes=_ADMITTED,
        severity=Severity.ERROR,
        applies_to=(PodOS.WINDOWS, PodOS.UNKNOWN),
        needs=Needs.RUNTIME_CLASSES,
        sources=(f"{_DOCS}/concepts/containers/runtime-class/",),
        known=_LIVE,
    ),
    Rule(
        code="P9",
        fields=("spec.runtimeClassName",),
        find=conditions.no_handler,
        happens="No node that takes the pods has the handler of the RuntimeClass: the kubelet cannot create "
        "the sandbox of the pod.",
        fix="Use a RuntimeClass with a handler that these nodes have. That of containerd for Windows is "
        "runhcs-wcow-process.",
        severity=Severity.ERROR,
        needs=Needs.HANDLERS,
        sources=("https://github.com/containerd/containerd/issues/4884",),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="P10",
        kind=RUNTIME_CLASS,
        fields=("scheduling.nodeSelector", "scheduling.tolerations"),
        find=conditions.class_out_of_reach,
        happens="No Windows node takes pods with what the RuntimeClass adds to them: they stay Pending, "
        "unless they have the tolerations themselves.",
        fix="Add the taints of the nodes to scheduling.tolerations, and select labels that nodes have.",
        needs=Needs.NODES,
        sources=(_GUIDE, f"{_DOCS}/concepts/containers/runtime-class/"),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="P11",
        fields=(f"metadata.annotations[{ISOLATION_ANNOTATION}]",),
        find=set_to("hyperv"),
        happens="No part of Kubernetes reads this annotation since 1.21: the containers run with process "
        "isolation.",
        fix="Remove it. For Hyper-V isolation ask your vendor for a RuntimeClass with such a handler.",
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="P13",
        fields=("spec.nodeSelector",),
        find=conditions.class_contradiction,
        happens="The API server refuses pods that select another value of a label than their RuntimeClass.",
        fix="Remove the label from nodeSelector, or use another RuntimeClass.",
        outcomes=_ADMITTED,
        severity=Severity.ERROR,
        applies_to=tuple(PodOS),
        better_with=Needs.RUNTIME_CLASSES,
        sources=("k8s.io/kubernetes v1.37.1 plugin/pkg/admission/runtimeclass/admission.go",),
        known=_SOURCE,
    ),
    Rule(
        code="P14",
        fields=("spec.nodeSelector",),
        find=conditions.no_node,
        happens="No Windows node has the labels that the pods select: they stay Pending until one joins.",
        fix="Select labels that Windows nodes have, or add such nodes.",
        worse=Worse(Severity.ERROR, conditions.is_about_chosen_hosts, "with --host-build or --pool"),
        needs=Needs.HOSTS,
        sources=(_GUIDE,),
        known=_DOCUMENTATION,
    ),
)
"""Which nodes the pods are placed on."""


REFUSED: Final = (
    _refused(
        "R1",
        f"{_POD}.runAsUser",
        happens="The kubelet passes no numeric user to the runtime on Windows.",
        fix="Remove it, and name the user in securityContext.windowsOptions.runAsUserName.",
        sources=(f"{_KUBERNETES}/kubelet/kuberuntime/kuberuntime_sandbox.go",),
    ),
    _refused(
        "R2",
        f"{_CONTAINER}.runAsUser",
        happens="The kubelet passes no numeric user to the runtime on Windows.",
        fix="Remove it, and name the user in securityContext.windowsOptions.runAsUserName.",
        known=_LIVE,
    ),
    _refused("R3", *_everywhere("runAsGroup"), happens="Windows has no numeric groups: it has no effect."),
    _refused(
        "R4",
        f"{_POD}.supplementalGroups",
        happens="Windows has no numeric groups: it has no effect.",
        known=_LIVE,
    ),
    _refused(
        "R5",
        f"{_POD}.supplementalGroupsPolicy",
        happens="Windows has no numeric groups: Merge has no effect, and with Strict the kubelet refuses "
        "the pod (SupplementalGroupsPolicyNotSupported).",
        worse=Worse(Severity.ERROR, value_is("Strict"), "for Strict"),
        outcomes=_gated(Minor(1, 31), Minor(1, 33)),
        sources=(f"{_KUBERNETES}/kubelet/lifecycle/predicate.go", _GATES),
    ),
    _refused(
        "R6",
        f"{_POD}.fsGroup",
        f"{_POD}.fsGroupChangePolicy",
        happens="The kubelet changes no owner of a volume on Windows: it has no effect.",
        fix="Remove it. Set ACLs in the image or in an init container.",
        sources=(f"{_KUBERNETES}/volume/volume_unsupported.go",),
    ),
    _refused(
        "R7",
        f"{_POD}.sysctls",
        find=where(conditions.is_filled),
        happens="The kubelet on Windows knows no safe sysctl, and refuses the pod (SysctlForbidden).",
        without=Severity.ERROR,
        sources=(f"{_KUBERNETES}/kubelet/sysctl/safe_sysctls.go",),
    ),
    _refused("R8", *_everywhere("seLinuxOptions"), happens="Windows has no SELinux: it has no effect."),
    _refused(
        "R9",
        f"{_POD}.seLinuxChangePolicy",
        happens="Windows has no SELinux: it has no effect.",
        outcomes=_gated(Minor(1, 32), Minor(1, 33)),
        sources=(_GATES,),
    ),
    _refused(
        "R10",
        *_everywhere("seccompProfile"),
        happens="Windows has no seccomp: it has no effect.",
        fix="Remove it. With spec.os.name: windows, Pod Security does not demand it.",
    ),
    _refused(
        "R11",
        *_everywhere("appArmorProfile"),
        happens="Windows has no AppArmor: it has no effect.",
        outcomes=((Minor(1, 30), Outcome.REFUSED),),
        sources=(f"{_KUBERNETES}/kubelet/kubelet.go",),
    ),
    _refused(
        "R12",
        "spec.hostPID",
        find=set_to(True),
        happens="The container runtime ignores it on Windows.",
        fix="Remove it. A HostProcess container sees the processes of the node.",
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R13",
        "spec.hostIPC",
        find=set_to(True),
        happens="The container runtime ignores it on Windows.",
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R14",
        "spec.shareProcessNamespace",
        happens="The containers of a pod share no process namespace on Windows.",
        fix="Remove it, also if it is false.",
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R15",
        "spec.hostUsers",
        happens="The kubelet makes no user namespaces on Windows.",
        fix="Remove it, also if it is true.",
        outcomes=_gated(Minor(1, 25), Minor(1, 33)),
        sources=(_GATES,),
    ),
    _refused(
        "R16",
        "spec.resources",
        happens="The kubelet on Windows refuses pods with resources of the pod "
        "(PodLevelResourcesNotSupported).",
        fix="Set requests and limits in each container instead.",
        without=Severity.ERROR,
        outcomes=_gated(Minor(1, 32), Minor(1, 34)),
        sources=(f"{_KUBERNETES}/kubelet/lifecycle/handlers.go", _GATES),
    ),
    _refused(
        "R17",
        f"{_CONTAINER}.privileged",
        happens="Windows has no privileged containers: the container gets no further rights.",
        fix="Remove it, also if it is false. Only HostProcess containers have rights on the node.",
        without=Severity.INFO,
        worse=Worse(Severity.WARNING, value_is(True), "for true"),
        sources=(_HOST_PROCESS,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R18",
        f"{_CONTAINER}.allowPrivilegeEscalation",
        happens="It has no effect on Windows.",
        fix="Remove it, also if it is false.",
        without=Severity.INFO,
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R19",
        f"{_CONTAINER}.capabilities",
        happens="Windows has no capabilities: nothing is added or dropped.",
        fix="Remove it, also if it only drops capabilities or is empty.",
        without=Severity.INFO,
        worse=Worse(Severity.WARNING, conditions.adds, "where any is added"),
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R20",
        f"{_CONTAINER}.readOnlyRootFilesystem",
        happens="The root filesystem of a Windows container is always writable.",
        fix="Remove it, also if it is false. Mount volumes with readOnly.",
        without=Severity.INFO,
        worse=Worse(Severity.WARNING, value_is(True), "for true"),
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    _refused(
        "R21",
        f"{_CONTAINER}.procMount",
        happens="Windows has no /proc: it has no effect.",
        without=Severity.INFO,
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="R22",
        fields=_everywhere("windowsOptions"),
        find=lambda workload, places: places if workload.os_name == PodOS.LINUX else (),
        happens="The API server refuses windowsOptions in a pod with spec.os.name: linux.",
        fix="Remove windowsOptions, or set spec.os.name to windows.",
        severity=Severity.ERROR,
        outcomes=_BY_NAME,
        applies_to=(PodOS.LINUX,),
        sources=(f"{VALIDATION} (validateLinux)",),
    ),
)
"""What the API server refuses by ``spec.os.name``."""


DIFFERENT: Final = (
    Rule(
        code="W1",
        fields=("spec.hostNetwork",),
        find=set_to(True, host_process=False),
        happens="containerd ignores it on Windows: the pod gets a network of its own. But its ports count "
        "as ports of the node, so that one such pod fits on a node, and its DNS is that of the node.",
        fix="Remove it, or make all containers HostProcess containers.",
        sources=(
            "https://github.com/kubernetes/enhancements/pull/5121",
            "https://github.com/kubernetes/kubernetes/issues/141987",
        ),
    ),
    Rule(
        code="W2",
        fields=("spec.dnsPolicy",),
        find=conditions.host_dns_without_host_network,
        happens="It is the same as ClusterFirst: the pod has a network of its own.",
        fix="Set dnsPolicy to ClusterFirst.",
        severity=Severity.INFO,
        sources=(
            f"{_KUBERNETES}/kubelet/network/dns/dns.go",
            f"{_DOCS}/concepts/services-networking/dns-pod-service/#dns-windows",
        ),
    ),
    Rule(
        code="W4",
        fields=_everywhere("runAsNonRoot"),
        find=conditions.non_root_by_name,
        happens="The kubelet refuses a container only if its user is known to be ContainerAdministrator. An "
        "image that names no user passes, and runs as ContainerAdministrator.",
        fix="Set securityContext.windowsOptions.runAsUserName to ContainerUser.",
        severity=Severity.INFO,
        worse=Worse(Severity.ERROR, conditions.is_administrator, "for ContainerAdministrator"),
        sources=(
            f"{_KUBERNETES}/kubelet/kuberuntime/security_context_windows.go",
            "https://github.com/kubernetes/kubernetes/issues/112469",
        ),
        known=_SOURCE,
    ),
    Rule(
        code="W5",
        fields=_everywhere("windowsOptions.runAsUserName"),
        find=where(conditions.is_user_name_malformed),
        happens="The API server refuses this user name.",
        fix=r"Write USER or DOMAIN\USER, at most 104 and 255 bytes, without control characters and none of "
        r'"/\:;|=,+*?<>@[] in USER.',
        severity=Severity.ERROR,
        outcomes=_USER_NAMES,
        sources=(f"{VALIDATION} (validateWindowsSecurityContextOptions)",),
    ),
    Rule(
        code="W6",
        fields=_everywhere("windowsOptions.gmsaCredentialSpecName"),
        find=where(conditions.is_subdomain),
        happens="It needs the CRD gmsacredentialspecs.windows.k8s.io and both webhooks of windows-gmsa. "
        "Without them the API server accepts it, and the container has no identity in the domain.",
        fix="Install windows-gmsa, create the GMSACredentialSpec, and let the ServiceAccount use it.",
        severity=Severity.INFO,
        sources=(f"{_DOCS}/tasks/configure-pod-container/configure-gmsa/",),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W7",
        fields=(
            *_everywhere("windowsOptions.gmsaCredentialSpec"),
            *_everywhere("windowsOptions.gmsaCredentialSpecName"),
        ),
        find=conditions.malformed_credential_specs,
        happens="The API server refuses a credential spec that is empty or has more than 64 KiB, and a name "
        "that no object can have.",
        fix="Set gmsaCredentialSpecName alone: lower case letters, digits, - and ., at most 253.",
        severity=Severity.ERROR,
        outcomes=_USER_NAMES,
        sources=(f"{VALIDATION} (validateWindowsSecurityContextOptions)",),
    ),
    Rule(
        code="W8",
        fields=("spec.hostNetwork",),
        find=conditions.own_network,
        happens="The API server refuses HostProcess containers in a pod without hostNetwork: true.",
        fix="Set spec.hostNetwork to true.",
        severity=Severity.ERROR,
        outcomes=_HOST_PROCESSES,
        sources=(f"{VALIDATION} (validateWindowsHostProcessPod)", _HOST_PROCESS),
    ),
    Rule(
        code="W9",
        fields=(f"{_CONTAINER}.windowsOptions.hostProcess",),
        find=conditions.mixed_host_process,
        happens="The API server refuses pods of which only some containers are HostProcess containers, and "
        "containers that contradict their pod.",
        fix="Make all containers HostProcess containers, init containers too, or none.",
        severity=Severity.ERROR,
        outcomes=_HOST_PROCESSES,
        sources=(f"{VALIDATION} (validateWindowsHostProcessPod)",),
    ),
    Rule(
        code="W10",
        fields=_everywhere("windowsOptions.hostProcess"),
        find=conditions.refused_by_pod_security,
        happens="The namespace enforces a level of Pod Security that refuses HostProcess containers.",
        fix="Move the pods to a namespace that enforces privileged.",
        outcomes=((Minor(1, 25), Outcome.REFUSED),),
        severity=Severity.ERROR,
        needs=Needs.NAMESPACES,
        sources=(f"{_DOCS}/concepts/security/pod-security-standards/",),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W11",
        fields=_everywhere("windowsOptions.hostProcess"),
        find=conditions.old_runtime,
        happens="HostProcess containers need containerd 1.6 or later: they do not start on such a node.",
        fix="Update containerd on the node.",
        severity=Severity.ERROR,
        needs=Needs.HOSTS,
        sources=(_HOST_PROCESS,),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="W12",
        fields=_everywhere("runAsNonRoot"),
        find=set_to(True, host_process=True),
        happens="It must not be set for HostProcess containers.",
        sources=(_HOST_PROCESS,),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="W13",
        fields=("spec.volumes[*].emptyDir.medium",),
        find=set_to("Memory"),
        happens="Windows has no tmpfs: the volume is a folder on the disk of the node. What is secret in it "
        "is on that disk, and sizeLimit limits no memory.",
        fix="Remove medium, and encrypt the volume of the node.",
        sources=(
            "k8s.io/mount-utils v0.37.1 mount_windows.go",
            "https://github.com/kubernetes/kubernetes/issues/132841",
        ),
    ),
    Rule(
        code="W14",
        fields=(
            "spec.volumes[*].emptyDir.medium",
            "spec.containers[*].resources.limits",
            "spec.containers[*].resources.requests",
        ),
        find=conditions.huge_pages,
        happens="No Windows node has huge pages: the pod stays Pending.",
        severity=Severity.ERROR,
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W15",
        fields=("spec.containers[*].volumeMounts[*].mountPropagation",),
        find=where(conditions.is_propagated),
        happens="Mounts do not propagate on Windows. Bidirectional needs a privileged container, which "
        "Windows does not have.",
        worse=Worse(Severity.ERROR, value_is("Bidirectional"), "for Bidirectional"),
        sources=(f"{_KUBERNETES}/kubelet/kubelet_pods.go",),
    ),
    Rule(
        code="W16",
        fields=("spec.containers[*].volumeMounts[*].recursiveReadOnly",),
        find=conditions.no_recursive_read_only,
        happens="The runtime handler of nodes that take the pods does not support it: the kubelet there does "
        "not start the container.",
        severity=Severity.ERROR,
        needs=Needs.HANDLERS,
        sources=(f"{_KUBERNETES}/kubelet/kubelet_pods.go",),
        known=_SOURCE,
    ),
    Rule(
        code="W19",
        fields=_MODES,
        find=where(conditions.is_mode_narrow),
        happens="Windows has no such modes: the kubelet sets the read-only attribute and nothing else. Every "
        "user in the container can read the files.",
        fix="Mount the volume only into containers whose users may read all of it.",
        sources=(f"{_KUBERNETES}/volume/util/atomic_writer.go", _STORAGE, _PROJECTED),
        known=_SOURCE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W20",
        fields=("spec.containers[*].volumeDevices",),
        find=where(conditions.is_filled),
        happens="The kubelet maps no block devices on Windows: the pod stays in ContainerCreating.",
        fix="Use a volume with volumeMode: Filesystem.",
        severity=Severity.ERROR,
        sources=(f"{_KUBERNETES}/volume/util/volumepathhandler/volume_path_handler_unsupported.go",),
    ),
    Rule(
        code="W22",
        fields=("spec.volumes[*].nfs",),
        happens="The kubelet mounts no NFS on Windows: the mount fails.",
        fix="Use SMB, with the CSI driver smb.csi.k8s.io.",
        severity=Severity.ERROR,
        sources=("k8s.io/mount-utils v0.37.1 mount_windows.go", _STORAGE),
    ),
    Rule(
        code="W23",
        fields=("spec.volumes[*].iscsi", "spec.volumes[*].fc"),
        happens="The plugin in Kubernetes for it runs programs of Linux: the mount fails.",
        fix="Use a CSI driver with a node plugin for Windows.",
        severity=Severity.ERROR,
        sources=(f"{_KUBERNETES}/volume/iscsi", f"{_KUBERNETES}/volume/fc"),
    ),
    Rule(
        code="W24",
        fields=("spec.volumes[*].flexVolume",),
        happens="Its driver is a program that has to be on each Windows node. Kubernetes has deprecated "
        "FlexVolume since 1.23.",
        fix="Use a CSI driver with a node plugin for Windows.",
        sources=(f"{_KUBERNETES}/volume/plugins.go", _STORAGE),
        known=(Known.LIVE, Known.SOURCE, Known.DOCUMENTATION),
    ),
    Rule(
        code="W25",
        fields=("spec.volumes[*].gitRepo",),
        happens="Kubernetes disables the plugin since 1.33, and nothing can enable it since 1.36: the pod "
        "does not start.",
        fix="Clone the repository in an init container.",
        severity=Severity.ERROR,
        since=Minor(1, 33),
        sources=(_GATES,),
    ),
    Rule(
        code="W26",
        fields=tuple(
            f"spec.volumes[*].{each}"
            for each in (
                "awsElasticBlockStore",
                "azureDisk",
                "azureFile",
                "gcePersistentDisk",
                "vsphereVolume",
            )
        ),
        happens="Kubernetes has no plugin for it any more: it mounts the volume by the CSI driver of the "
        "cloud, which has to run on the Windows nodes too.",
        fix="Install the node plugin for Windows of the CSI driver.",
        severity=Severity.INFO,
        sources=("k8s.io/csi-translation-lib v0.37.1 plugins", _STORAGE),
    ),
    Rule(
        code="W27",
        fields=("spec.volumes[*].hostPath",),
        find=where(conditions.is_linux_path),
        happens="Windows nodes have no such path. With a type that has to exist the pod does not start, and "
        "with any other type nothing is there that the containers expect.",
        fix=r"Use a path or a named pipe (\\.\pipe\…) of Windows, or run these pods on Linux only.",
        worse=Worse(Severity.ERROR, conditions.must_exist, "for a type that has to exist"),
        sources=(f"{_KUBERNETES}/volume/hostpath/host_path.go", _INTRO),
        known=(Known.LIVE, Known.SOURCE, Known.DOCUMENTATION),
    ),
    Rule(
        code="W28",
        fields=("spec.volumes[*].hostPath.path",),
        find=where(conditions.is_pipe, host_process=True),
        happens="Named pipes are not mounted into HostProcess containers.",
        fix=r"Remove the volume, and open \\.\pipe\… in the container: it sees the pipes of the node.",
        sources=(_HOST_PROCESS,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W33",
        fields=("spec.containers[*].lifecycle.stopSignal",),
        happens="Its feature gate, ContainerStopSignals, is disabled by default. Where it is enabled, the "
        "API server accepts SIGTERM and SIGKILL only, and only with spec.os.name: windows.",
        outcomes=((Minor(1, 33), Outcome.DROPPED),),
        since=Minor(1, 33),
        sources=(f"{VALIDATION} (validateStopSignal)", _GATES),
    ),
    Rule(
        code="W34",
        fields=("spec.containers[*].resources.limits.memory", "spec.containers[*].resources.requests.memory"),
        find=conditions.unbounded_memory,
        happens="On Windows only the limit bounds the memory of a container, and the scheduler counts the "
        "request. Without a limit, or with another request, the containers of a node can use what Windows "
        "needs.",
        fix="Set limits.memory, and requests.memory to the same amount or not at all.",
        better_with=Needs.LIMIT_RANGES,
        sources=(_RESOURCES, _INTRO),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="W37",
        fields=("spec.containers[*].resources.limits.cpu",),
        happens="It is a hard cap, a part of all processors of the node. requests.cpu gives a container no "
        "weight: if the node is busy, a container without a limit takes from the others.",
        fix="Set it for containers that must not take processors from others.",
        severity=Severity.INFO,
        sources=(
            f"{_KUBERNETES}/kubelet/kuberuntime/kuberuntime_container_windows.go",
            "https://github.com/kubernetes/kubernetes/pull/86101",
        ),
    ),
    Rule(
        code="W38",
        fields=("spec.containers[*].resizePolicy[*].restartPolicy",),
        find=set_to("RestartContainer"),
        happens="Pods for Windows cannot be resized in place, so it has no effect.",
        fix="Remove it. Change the pod template, so that the pods are replaced.",
        severity=Severity.INFO,
        outcomes=((Minor(1, 27), Outcome.DROPPED), (Minor(1, 33), Outcome.ACCEPTED)),
        sources=(f"{_KUBERNETES}/kubelet/allocation/features_windows.go", _GATES),
    ),
    Rule(
        code="W39",
        fields=("spec.resourceClaims",),
        find=where(conditions.is_filled),
        happens="The kubelet on Windows registers no driver of Dynamic Resource Allocation and prepares no "
        "claim: the containers get no devices.",
        fix="Use a device plugin, and the resource that it reports.",
        outcomes=((Minor(1, 26), Outcome.DROPPED), (Minor(1, 34), Outcome.ACCEPTED)),
        sources=(f"{_KUBERNETES}/kubelet/cm/container_manager_windows.go", _GATES),
    ),
    Rule(
        code="W41",
        fields=("spec.hostAliases",),
        find=where(conditions.is_filled, host_process=True),
        happens="The kubelet writes no hosts file for pods with HostProcess containers: they have that of "
        "the node.",
        fix="Remove it, and use names that DNS knows.",
        sources=(f"{_KUBERNETES}/kubelet/kubelet_pods.go (shouldMountHostsFile)",),
    ),
    Rule(
        code="W42",
        fields=_COMMANDS,
        find=conditions.linux_programs,
        happens="Microsoft's base images have no such program. Unless the image adds it, the command fails.",
        fix="Use cmd /c or powershell -Command, and the paths of Windows.",
        sources=(_INTRO,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W43",
        fields=_COMMANDS,
        find=conditions.pings,
        happens="Answers to ICMP from outside the network of the pods do not come back. ping fails where "
        "TCP works.",
        fix="Use a probe with httpGet or tcpSocket, or curl.",
        sources=(_NETWORK,),
        known=_LIVE_AND_DOCUMENTATION,
    ),
    Rule(
        code="W44",
        fields=("spec.containers[*].image",),
        find=conditions.runs_nowhere,
        happens="Windows starts a container only if the builds of its image and of the node fit.",
        fix="Use an image for the build of the nodes, or select nodes that run this one.",
        worse=Worse(Severity.ERROR, conditions.is_certain, "where the build is not only by the tag"),
        applies_to=(PodOS.WINDOWS, PodOS.UNKNOWN),
        needs=Needs.HOSTS,
        sources=(_COMPATIBILITY,),
        known=_DOCUMENTATION,
    ),
    Rule(
        code="W45",
        fields=("metadata.annotations",),
        find=conditions.app_armor_annotations,
        happens="Windows has no AppArmor: it has no effect. The API server accepts the annotation, and "
        "refuses the field (R11).",
        sources=(f"{_KUBERNETES}/registry/core/pod/strategy.go (applyAppArmorVersionSkew)",),
    ),
)
"""What the API server accepts, or refuses for every pod, and Windows does differently."""

RULES: Final = (*PLACEMENT, *REFUSED, *DIFFERENT)
