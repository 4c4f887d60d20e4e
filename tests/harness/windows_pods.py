"""Pods in which the audit finds something or nothing, by rule: for unit tests and for an API server."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

Object = dict[str, Any]

WINDOWS: Final[Object] = {"kubernetes.io/os": "windows"}
LINUX: Final[Object] = {"kubernetes.io/os": "linux"}


def a_pod(spec: Object | None = None, container: Object | None = None, **more: Any) -> Object:
    """Return a pod in which no rule finds anything; ``spec`` and ``container`` are laid over it.

    ``os_name`` is None for a pod without ``spec.os``; ``annotations`` are those of the pod.
    """
    os_name = more.get("os_name", "windows")
    image = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
    memory = {"limits": {"memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": more.get("annotations", {})},
        "spec": {
            **({"os": {"name": os_name}} if os_name else {}),
            "nodeSelector": WINDOWS,
            "containers": [{"name": "c", "image": image, "resources": memory, **(container or {})}],
            **(spec or {}),
        },
    }


def without_os(pod: Object) -> Object:
    """Return the pod without ``spec.os``."""
    found = deepcopy(pod)
    found["spec"].pop("os", None)
    return found


def in_a_deployment(pod: Object) -> Object:
    """Return a Deployment of such pods."""
    metadata = {"labels": {"app": "p"}, "annotations": pod["metadata"]["annotations"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "p"}},
            "template": {"metadata": metadata, "spec": pod["spec"]},
        },
    }


@dataclass(frozen=True, slots=True)
class Case:
    """A pod in which a rule finds something in ``at``, and one like it in which it finds nothing."""

    code: str
    at: str
    found: Object
    near: Object = field(default_factory=a_pod)

    def __str__(self) -> str:
        return f"{self.code} {self.at}"


def _security(**fields: Any) -> Object:
    return {"securityContext": fields}


def _options(**fields: Any) -> Object:
    return _security(windowsOptions=fields)


def _volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def _mount(**fields: Any) -> Object:
    return {"volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}


def _item(**fields: Any) -> Object:
    return {"key": "k", "path": "k", **fields}


def _probed(name: str, *command: str) -> Object:
    return {f"{name}Probe": {"exec": {"command": [*command]}}}


def _hooked(name: str, *command: str) -> Object:
    return {"lifecycle": {name: {"exec": {"command": [*command]}}}}


_EMPTY: Final = _volume(emptyDir={})
_HOST_DNS: Final = "ClusterFirstWithHostNet"
_ALIASES: Final = [{"ip": "10.0.0.1", "hostnames": ["x.example"]}]
_POD: Final = "spec.securityContext"
_C: Final = "spec.containers[0].securityContext"
_HOST_PROCESS: Final[Object] = {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
_RUN_AS: Final = "windowsOptions.runAsUserName"
_SPEC_NAME: Final = "windowsOptions.gmsaCredentialSpecName"
_MALFORMED: Final = (
    *("", "a\\b\\c", "us|er", "...", " ", "\\user", "domain\\", "a\nb", "u" * 105, f"{'d' * 256}\\u"),
    *("do*main\\user", "-a.b.c.d.e.f.g.h\\user"),
)
_WELL_FORMED: Final = (
    "ContainerUser",
    "NT AUTHORITY\\SYSTEM",
    "a.example.com.of.us\\user",
    "u" * 104,
    "über",
)


def _refused_in_pods() -> dict[str, tuple[tuple[Object, str], ...]]:
    """Return, by rule, fields of a pod that are refused with ``os.name: windows``, and where."""

    def pod(name: str, value: Any) -> tuple[Object, str]:
        return _security(**{name: value}), f"{_POD}.{name}"

    linux_options = {"level": "s0"}
    return {
        "R1": (pod("runAsUser", 1),),
        "R3": (pod("runAsGroup", 1),),
        "R4": (pod("supplementalGroups", [1]),),
        "R5": (pod("supplementalGroupsPolicy", "Merge"), pod("supplementalGroupsPolicy", "Strict")),
        "R6": (pod("fsGroup", 1), pod("fsGroupChangePolicy", "Always")),
        "R7": (pod("sysctls", [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),),
        "R8": (pod("seLinuxOptions", linux_options),),
        "R9": (pod("seLinuxChangePolicy", "Recursive"),),
        "R10": (pod("seccompProfile", {"type": "RuntimeDefault"}),),
        "R11": (pod("appArmorProfile", {"type": "RuntimeDefault"}),),
        "R12": (({"hostPID": True}, "spec.hostPID"),),
        "R13": (({"hostIPC": True}, "spec.hostIPC"),),
        "R14": tuple(
            ({"shareProcessNamespace": each}, "spec.shareProcessNamespace") for each in (True, False)
        ),
        "R15": tuple(({"hostUsers": each}, "spec.hostUsers") for each in (True, False)),
        "R16": (({"resources": {"limits": {"memory": "1Gi"}}}, "spec.resources"),),
    }


def _refused_in_containers() -> dict[str, tuple[tuple[str, Any], ...]]:
    """Return, by rule, fields of the security context of a container that are refused, with a value."""
    return {
        "R2": (("runAsUser", 1),),
        "R3": (("runAsGroup", 1),),
        "R8": (("seLinuxOptions", {"level": "s0"}),),
        "R10": (("seccompProfile", {"type": "RuntimeDefault"}),),
        "R11": (("appArmorProfile", {"type": "RuntimeDefault"}),),
        "R17": (("privileged", True), ("privileged", False)),
        "R18": (("allowPrivilegeEscalation", False),),
        "R19": (("capabilities", {}), ("capabilities", {"drop": ["ALL"]}), ("capabilities", {"add": ["X"]})),
        "R20": (("readOnlyRootFilesystem", True), ("readOnlyRootFilesystem", False)),
        "R21": (("procMount", "Default"),),
    }


_NEAR: Final = {
    "R1": a_pod(_security(runAsNonRoot=False)),
    "R7": a_pod(_security(sysctls=[])),
    "R12": a_pod({"hostPID": False}),
    "R13": a_pod({"hostIPC": False}),
    "R16": a_pod(container={"resources": {"limits": {"memory": "1Gi", "cpu": 1}}}),
}
"""What is nearly refused; by default it is the pod without the field."""

REFUSED: Final = (
    *(
        Case(code, at, a_pod(spec), _NEAR.get(code, a_pod()))
        for code, fields in _refused_in_pods().items()
        for spec, at in fields
    ),
    *(
        Case(code, f"{_C}.{name}", a_pod(container=_security(**{name: value})))
        for code, fields in _refused_in_containers().items()
        for name, value in fields
    ),
)
"""What the API server refuses with ``os.name: windows``, and accepts or drops without it."""

ALWAYS_REFUSED: Final = (
    Case(
        "R22",
        f"{_POD}.windowsOptions",
        a_pod({"nodeSelector": LINUX, **_options(runAsUserName="ContainerUser")}, os_name="linux"),
        a_pod(_options(runAsUserName="ContainerUser")),
    ),
    Case(
        "R22",
        f"{_C}.windowsOptions",
        a_pod({"nodeSelector": LINUX}, _options(runAsUserName="ContainerUser"), os_name="linux"),
        a_pod(container=_options(runAsUserName="ContainerUser")),
    ),
    *(
        Case(
            "W5",
            f"{_POD}.{_RUN_AS}",
            a_pod(_options(runAsUserName=each)),
            a_pod(_options(runAsUserName=near)),
        )
        for each, near in zip(_MALFORMED, _WELL_FORMED * 3, strict=False)
    ),
    Case("W5", f"{_C}.{_RUN_AS}", a_pod(container=_options(runAsUserName="a:b"))),
    *(
        Case("W7", f"{_POD}.windowsOptions.gmsaCredentialSpec", a_pod(_options(gmsaCredentialSpec=each)))
        for each in ("", "x" * (64 * 1024 + 1))
    ),
    Case(
        "W7",
        f"{_C}.windowsOptions.gmsaCredentialSpec",
        a_pod(container=_options(gmsaCredentialSpec="")),
        a_pod(container=_options(gmsaCredentialSpec="x" * 64 * 1024)),
    ),
    *(
        Case(
            "W7",
            f"{_POD}.{_SPEC_NAME}",
            a_pod(_options(gmsaCredentialSpecName=each)),
            a_pod(_options(gmsaCredentialSpecName="web-app.2.example")),
        )
        for each in ("", "WebApp", "a_b", "a..b", "-a", "a-", "a" * 254)
    ),
    Case(
        "W7",
        f"{_C}.{_SPEC_NAME}",
        a_pod(container=_options(gmsaCredentialSpecName="WEB")),
        a_pod(container=_options(gmsaCredentialSpecName="a" * 253)),
    ),
    Case(
        "W8",
        "spec.hostNetwork",
        a_pod(_options(**_HOST_PROCESS)),
        a_pod({"hostNetwork": True, **_options(**_HOST_PROCESS)}),
    ),
    Case(
        "W9",
        "spec.initContainers[0].securityContext.windowsOptions.hostProcess",
        a_pod(
            {"hostNetwork": True, "initContainers": [{"name": "i", "image": "x"}]}, _options(**_HOST_PROCESS)
        ),
        a_pod({"hostNetwork": True}, _options(**_HOST_PROCESS)),
    ),
    Case(
        "W9",
        f"{_C}.windowsOptions.hostProcess",
        a_pod({"hostNetwork": True, **_options(**_HOST_PROCESS)}, _options(hostProcess=False)),
        a_pod({"hostNetwork": True, **_options(**_HOST_PROCESS)}, _options(hostProcess=True)),
    ),
)
"""What the API server refuses with and without ``os.name``; those of R22 with it alone."""

ACCEPTED: Final = (
    Case("P2", "spec.os.name", a_pod({"nodeSelector": {"disk": "ssd"}})),
    Case("P3", "spec.os.name", a_pod({"nodeSelector": LINUX})),
    Case("P3", "spec.os.name", a_pod(os_name="linux"), a_pod({"nodeSelector": LINUX}, os_name="linux")),
    Case("P5", "spec.os.name", a_pod(os_name=None)),
    Case(
        "P6",
        "spec.nodeSelector[beta.kubernetes.io/os]",
        a_pod({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
    ),
    Case(
        "P6",
        "spec.nodeSelector[beta.kubernetes.io/arch]",
        a_pod({"nodeSelector": {**WINDOWS, "beta.kubernetes.io/arch": "amd64"}}),
        a_pod({"nodeSelector": {**WINDOWS, "kubernetes.io/arch": "amd64"}}),
    ),
    *(
        Case(
            "P11",
            f"metadata.annotations[{key}]",
            a_pod(annotations={key: "hyperv"}),
            a_pod(annotations={key: "process"}),
        )
        for key in ("experimental.windows.kubernetes.io/isolation-type",)
    ),
    Case(
        "W1",
        "spec.hostNetwork",
        a_pod({"hostNetwork": True}),
        a_pod({"hostNetwork": True, **_options(**_HOST_PROCESS)}),
    ),
    Case("W1", "spec.hostNetwork", a_pod({"hostNetwork": True}), a_pod({"hostNetwork": False})),
    *(
        Case("W2", "spec.dnsPolicy", a_pod({"dnsPolicy": _HOST_DNS}), near)
        for near in (
            a_pod({"dnsPolicy": "ClusterFirst"}),
            a_pod({"dnsPolicy": _HOST_DNS, "hostNetwork": True}),
            a_pod({"dnsPolicy": _HOST_DNS, "hostNetwork": True, **_options(**_HOST_PROCESS)}),
        )
    ),
    Case("W6", f"{_POD}.{_SPEC_NAME}", a_pod(_options(gmsaCredentialSpecName="web"))),
    Case("W6", f"{_C}.{_SPEC_NAME}", a_pod(container=_options(gmsaCredentialSpecName="web"))),
    Case(
        "W4",
        f"{_POD}.runAsNonRoot",
        a_pod(_security(runAsNonRoot=True)),
        a_pod(_security(runAsNonRoot=True, windowsOptions={"runAsUserName": "ContainerUser"})),
    ),
    Case(
        "W4",
        f"{_C}.runAsNonRoot",
        a_pod(_options(runAsUserName="containeradministrator"), _security(runAsNonRoot=True)),
        a_pod(
            _options(runAsUserName="ContainerAdministrator"),
            _security(runAsNonRoot=True, windowsOptions={"runAsUserName": "ContainerUser"}),
        ),
    ),
    Case(
        "W12",
        f"{_POD}.runAsNonRoot",
        a_pod({"hostNetwork": True, **_security(runAsNonRoot=True, windowsOptions=_HOST_PROCESS)}),
        a_pod({"hostNetwork": True, **_security(runAsNonRoot=False, windowsOptions=_HOST_PROCESS)}),
    ),
    Case(
        "W13", "spec.volumes[0].emptyDir.medium", a_pod(_volume(emptyDir={"medium": "Memory"})), a_pod(_EMPTY)
    ),
    Case(
        "W14",
        "spec.volumes[0].emptyDir.medium",
        a_pod(
            _volume(emptyDir={"medium": "HugePages"}),
            {"resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}},
        ),
        a_pod(_volume(emptyDir={"medium": ""})),
    ),
    Case(
        "W14",
        "spec.containers[0].resources.limits[hugepages-2Mi]",
        a_pod(container={"resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}}),
    ),
    Case(
        "W15",
        "spec.containers[0].volumeMounts[0].mountPropagation",
        a_pod(_EMPTY, _mount(mountPropagation="HostToContainer")),
        a_pod(_EMPTY, _mount(mountPropagation="None")),
    ),
    *(
        Case("W19", f"spec.volumes[0].{at}", a_pod(_volume(**found)), a_pod(_volume(**near)))
        for at, found, near in (
            (
                "secret.defaultMode",
                {"secret": {"secretName": "s", "defaultMode": 0o400}},
                {"secret": {"secretName": "s", "defaultMode": 0o444}},
            ),
            (
                "configMap.items[0].mode",
                {"configMap": {"name": "m", "items": [_item(mode=0o500)]}},
                {"configMap": {"name": "m", "items": [_item(mode=0o755)]}},
            ),
            (
                "projected.sources[0].secret.items[0].mode",
                {"projected": {"sources": [{"secret": {"name": "s", "items": [_item(mode=0o440)]}}]}},
                {"projected": {"sources": [{"secret": {"name": "s", "items": [_item()]}}]}},
            ),
        )
    ),
    Case(
        "W20",
        "spec.containers[0].volumeDevices",
        a_pod(
            _volume(persistentVolumeClaim={"claimName": "x"}),
            {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]},
        ),
        a_pod(_volume(persistentVolumeClaim={"claimName": "x"}), {"volumeDevices": [], **_mount()}),
    ),
    Case("W22", "spec.volumes[0].nfs", a_pod(_volume(nfs={"server": "s", "path": "/p"})), a_pod(_EMPTY)),
    Case(
        "W23",
        "spec.volumes[0].iscsi",
        a_pod(_volume(iscsi={"targetPortal": "1.1.1.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0})),
    ),
    Case("W23", "spec.volumes[0].fc", a_pod(_volume(fc={"targetWWNs": ["500a0982991b8dc5"], "lun": 0}))),
    Case("W24", "spec.volumes[0].flexVolume", a_pod(_volume(flexVolume={"driver": "example.com/x"}))),
    Case("W25", "spec.volumes[0].gitRepo", a_pod(_volume(gitRepo={"repository": "https://x.example/y"}))),
    *(
        Case("W26", f"spec.volumes[0].{kind}", a_pod(_volume(**{kind: source})), a_pod(_EMPTY))
        for kind, source in (
            ("awsElasticBlockStore", {"volumeID": "v"}),
            ("azureDisk", {"diskName": "d", "diskURI": "https://x.example/d"}),
            ("azureFile", {"secretName": "s", "shareName": "s"}),
            ("gcePersistentDisk", {"pdName": "d"}),
            ("vsphereVolume", {"volumePath": "[d] v"}),
        )
    ),
    *(
        Case(
            "W27",
            "spec.volumes[0].hostPath",
            a_pod(_volume(hostPath={"path": path, "type": "Directory"})),
            a_pod(_volume(hostPath={"path": near, "type": "Directory"})),
        )
        for path, near in (
            ("/proc", "/process"),
            ("/sys/fs/cgroup", "/etc/cni/net.d"),
            ("/dev/", "C:\\dev"),
            ("/var/run/docker.sock", "/var/run/csi.sock"),
            ("/run/containerd/containerd.sock", "/run/containerd"),
        )
    ),
    *(
        Case(
            "W28",
            "spec.volumes[0].hostPath.path",
            a_pod({"hostNetwork": True, **_volume(hostPath={"path": path}), **_options(**_HOST_PROCESS)}),
            near,
        )
        for path, near in (
            ("\\\\.\\pipe\\containerd-containerd", a_pod(_volume(hostPath={"path": "\\\\.\\pipe\\x"}))),
            (
                "//./pipe/docker_engine",
                a_pod(
                    {"hostNetwork": True, **_volume(hostPath={"path": "C:\\x"}), **_options(**_HOST_PROCESS)}
                ),
            ),
        )
    ),
    Case(
        "W34",
        "spec.containers[0].resources.limits.memory",
        a_pod(container={"resources": {"requests": {"memory": "1Gi"}}}),
        a_pod(container={"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1024Mi"}}}),
    ),
    Case(
        "W34",
        "spec.containers[0].resources.requests.memory",
        a_pod(container={"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "512Mi"}}}),
    ),
    Case(
        "W37",
        "spec.containers[0].resources.limits.cpu",
        a_pod(container={"resources": {"limits": {"memory": "1Gi", "cpu": "500m"}}}),
        a_pod(container={"resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m"}}}),
    ),
    Case(
        "W41",
        "spec.hostAliases",
        a_pod({"hostNetwork": True, "hostAliases": _ALIASES, **_options(**_HOST_PROCESS)}),
        a_pod({"hostAliases": _ALIASES}),
    ),
    *(
        Case("W42", f"spec.containers[0].{at}", a_pod(container=found), a_pod(container=near))
        for at, found, near in (
            ("command", {"command": ["/bin/sh", "-c", "x"]}, {"command": ["cmd", "/c", "sh"]}),
            ("args", {"args": ["bash", "-c", "x"]}, {"command": ["app.exe"], "args": ["bash"]}),
            (
                "readinessProbe.exec.command",
                _probed("readiness", "/usr/bin/x"),
                _probed("readiness", "/x.exe"),
            ),
            ("livenessProbe.exec.command", _probed("liveness", "sh"), _probed("liveness", "/bin/x.exe")),
            ("startupProbe.exec.command", _probed("startup", "sh"), _probed("startup", "powershell")),
            ("lifecycle.preStop.exec.command", _hooked("preStop", "/bin/sleep"), _hooked("preStop", "cmd")),
            ("lifecycle.postStart.exec.command", _hooked("postStart", "sh"), _hooked("postStart", "x")),
        )
    ),
    *(
        Case("W43", f"spec.containers[0].{at}", a_pod(container=found), a_pod(container=near))
        for at, found, near in (
            (
                "livenessProbe.exec.command",
                _probed("liveness", "ping", "-n", "1", "x.example"),
                _probed("liveness", "cmd", "/c", "ping -n 6 127.0.0.1 > nul"),
            ),
            ("command", {"command": ["cmd", "/c", "a & ping.exe x"]}, {"command": ["cmd", "/c", "a-ping x"]}),
            (
                "args",
                {"args": ["C:\\Windows\\System32\\ping.exe", "-t", "x"]},
                {"args": ["ping", "-t", "localhost"]},
            ),
        )
    ),
    *(
        Case(
            "W45",
            f"metadata.annotations[{key}]",
            a_pod(annotations={key: "runtime/default"}),
            a_pod(annotations={"apparmor.example/c": "runtime/default"}),
        )
        for key in ("container.apparmor.security.beta.kubernetes.io/c",)
    ),
)
"""What the API server accepts."""

GATED: Final = (
    Case(
        "W33",
        "spec.containers[0].lifecycle.stopSignal",
        a_pod(container={"lifecycle": {"stopSignal": "SIGTERM"}}),
        a_pod(container=_hooked("preStop", "x.exe")),
    ),
    Case(
        "W38",
        "spec.containers[0].resizePolicy[0].restartPolicy",
        a_pod(container={"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
        a_pod(container={"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
    ),
    Case(
        "W39",
        "spec.resourceClaims",
        a_pod({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
        a_pod({"resourceClaims": []}),
    ),
)
"""What older API servers drop, and newer ones accept or drop too, whatever ``os.name`` says."""

CASES: Final = (*REFUSED, *ALWAYS_REFUSED, *ACCEPTED, *GATED)
