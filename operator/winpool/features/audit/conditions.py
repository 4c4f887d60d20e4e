"""The conditions of rules for which it does not suffice that a field is there.

A ``Find`` gets the workload and the places where the fields of its rule are set. It returns those that
count, or others. A ``Test`` says of one place whether it is worse than the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from winpool.api.quantity import bytes_of
from winpool.features.audit.cluster import Limits
from winpool.features.audit.workloads import Place, PodOS, Workload

Find: TypeAlias = Callable[[Workload, Sequence[Place]], Iterable[Place]]
Test: TypeAlias = Callable[[Workload, Place], bool]

_ADMINISTRATOR: Final = "containeradministrator"
"""The kubelet takes it for root, in any case of letters (kuberuntime/security_context_windows.go)."""

_GMSA_BYTES: Final = 64 * 1024
_DOMAIN_BYTES: Final = 255
_USER_BYTES: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NOT_IN_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NAME_LENGTH: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_DOTS: Final = re.compile(r"[. ]+")
"""Limits and patterns of ``validateWindowsSecurityContextOptions`` in apis/core/validation/validation.go."""

_READABLE: Final = 0o444

_LINUX_PATH: Final = re.compile(
    r"/(proc|sys|dev)(/.*)?|(/var)?/run/(docker|containerd/containerd|crio/crio|dockershim)\.sock"
)
"""What Linux has and Windows does not. Others exist on Windows, too: CNI reads /etc/cni/net.d there."""
_PIPE: Final = re.compile(r"[\\/]{2}\.[\\/]pipe[\\/]", re.IGNORECASE)
_MUST_EXIST: Final = ("Directory", "File", "Socket", "CharDevice", "BlockDevice")
"""The types of a hostPath that the kubelet does not create (volume/hostpath/host_path.go)."""

_LINUX_PROGRAM: Final = re.compile(
    r"(/usr)?/s?bin/(?!.*\.(exe|cmd|bat|ps1)$)\S+|(ba|da|z|k|a)?sh", re.IGNORECASE
)
_BUSYBOX: Final = re.compile(r".+/(?<!library/)busybox(?:[:@].*)?")
"""Those for Windows have its programs in C:\\bin (k8s.io/kubernetes test/images/busybox/Dockerfile_windows).
Docker Hub's own is for Linux alone."""
_PING: Final = re.compile(r"(?:^|[\s\\/\"'&|;(])ping(?:\.exe)?\s+([^&|;>\n\"')]+)", re.IGNORECASE)
_OWN_ADDRESS: Final = re.compile(
    r"localhost|127\.[\d.]+|::1|%computername%|\$env:computername", re.IGNORECASE
)
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""An annotation for each container: this and its name."""


def where(test: Callable[[Any], bool]) -> Find:
    """Return a condition for the value of the field alone."""
    return lambda _, places: [each for each in places if test(each.value)]


def value_is(wanted: Any) -> Test:
    """Return a test whether the field has this value."""
    return lambda _, place: _same(place.value, wanted)


def set_to(wanted: Any) -> Find:
    """Return a condition that the field has this value."""
    return where(lambda value: _same(value, wanted))


def _same(value: Any, wanted: Any) -> bool:
    """Compare values of JSON: 1 is not true."""
    return type(value) is type(wanted) and bool(value == wanted)


def is_filled(value: Any) -> bool:
    """Whether a list has items: an empty one is as if it were absent."""
    return isinstance(value, list) and bool(value)


def adds(_: Workload, place: Place) -> bool:
    """Whether capabilities are added, and not only dropped."""
    return isinstance(place.value, dict) and bool(place.value.get("add"))


def is_propagated(value: Any) -> bool:
    """Whether mounts are to propagate: None is what Windows has."""
    return bool(value != "None")


def is_user_name_malformed(value: Any) -> bool:
    """Whether the API server refuses a runAsUserName."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        return True
    domain, backslash, user = value.rpartition("\\")
    is_domain_bad = bool(backslash) and (
        _size(domain) > _DOMAIN_BYTES or not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain))
    )
    is_user_bad = not user or _size(user) > _USER_BYTES or _DOTS.fullmatch(user) or _NOT_IN_USER.search(user)
    return is_domain_bad or bool(is_user_bad)


def is_credential_spec_malformed(value: Any) -> bool:
    """Whether the API server refuses the contents of a gmsaCredentialSpec, by their length in bytes."""
    return not isinstance(value, str) or not 0 < _size(value) <= _GMSA_BYTES


def is_subdomain(value: Any) -> bool:
    """Whether an object can have this name (RFC 1123)."""
    return isinstance(value, str) and len(value) <= _NAME_LENGTH and bool(_SUBDOMAIN.fullmatch(value))


def malformed_credential_specs(_: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find credential specs, and names of them, that the API server refuses."""
    return [
        each
        for each in places
        if (
            not is_subdomain(each.value)
            if each.path.endswith("Name")
            else is_credential_spec_malformed(each.value)
        )
    ]


def _size(text: str) -> int:
    """Return the length in bytes, as Go counts."""
    return len(text.encode(errors="replace"))


def contradiction(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find an ``os.name`` that is not the OS of the nodes that the pods select."""
    return places if workload.selects not in (PodOS.UNKNOWN, workload.os_name) else ()


def no_selection(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find an ``os.name`` without anything that selects such nodes. A RuntimeClass that is not known may."""
    return places if workload.selects is PodOS.UNKNOWN and not workload.runtime_class else ()


def host_processes(workload: Workload) -> list[bool]:
    """Return of each container whether it is a HostProcess container: its own word, or that of the pod."""
    ours = workload.value("spec.securityContext.windowsOptions.hostProcess")
    return [
        _inherited(each, ("windowsOptions", "hostProcess"), ours) is True for each in workload.containers()
    ]


def is_host_process(workload: Workload) -> bool:
    """Whether any container is a HostProcess container."""
    return any(host_processes(workload))


def shared_network(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find ``hostNetwork: true`` on pods without HostProcess containers."""
    return [] if is_host_process(workload) else [each for each in places if each.value is True]


def own_network(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find HostProcess containers in a pod without ``hostNetwork: true``."""
    if is_host_process(workload) and not any(each.value is True for each in places):
        yield Place(workload.path("spec.hostNetwork"))


def mixed_host_process(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find pods that mix HostProcess containers with others, and containers that contradict their pod."""
    ours = workload.value("spec.securityContext.windowsOptions.hostProcess")
    if isinstance(ours, bool):
        yield from (each for each in places if each.value is not ours)
    elif 0 < sum(found := host_processes(workload)) < len(found):
        containers = workload.containers()
        other = containers[found.index(False)]
        yield Place(f"{other.path}.securityContext.windowsOptions.hostProcess")


def host_dns_without_host_network(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find ``ClusterFirstWithHostNet`` on pods that ask for no network of their node."""
    if is_host_process(workload) or workload.value("spec.hostNetwork") is True:
        return []
    return [each for each in places if each.value == "ClusterFirstWithHostNet"]


def aliases_of_host_processes(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find ``hostAliases`` of pods with HostProcess containers."""
    return [each for each in places if is_filled(each.value) and is_host_process(workload)]


def non_root_host_process(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find ``runAsNonRoot: true`` on pods with HostProcess containers."""
    return [each for each in places if each.value is True and is_host_process(workload)]


def non_root_by_name(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find ``runAsNonRoot: true`` where a container has no user name, or that of the administrator."""
    if is_host_process(workload):
        return []
    return [
        each
        for each in places
        if each.value is True and any(name in ("", _ADMINISTRATOR) for name in _users(workload, each))
    ]


def is_administrator(workload: Workload, place: Place) -> bool:
    """Whether a container that must not run as root runs as ContainerAdministrator."""
    return _ADMINISTRATOR in _users(workload, place)


def _users(workload: Workload, place: Place) -> Iterator[str]:
    """Yield the user names, in small letters, of the containers for which a ``runAsNonRoot`` holds."""
    ours = workload.value("spec.securityContext.windowsOptions.runAsUserName")
    is_of_pod = place.path == workload.path("spec.securityContext.runAsNonRoot")
    for each in workload.containers():
        own = _inherited(each, ("runAsNonRoot",), None)
        if (own is None) if is_of_pod else place.path.startswith(f"{each.path}."):
            name = _inherited(each, ("windowsOptions", "runAsUserName"), ours)
            yield name.lower() if isinstance(name, str) else ""


def _inherited(container: Place, names: Sequence[str], ours: Any) -> Any:
    """Return a field of the security context of a container, or what its pod has."""
    found = container.value.get("securityContext")
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return ours if found is None else found


def huge_pages(_: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find huge pages: as a medium of an emptyDir, and among requests and limits."""
    for each in places:
        if isinstance(each.value, dict):
            for name, value in each.value.items():
                if name.startswith("hugepages-") and value is not None:
                    yield Place(f"{each.path}[{name}]", value)
        elif isinstance(each.value, str) and each.value.startswith("HugePages"):
            yield each


def unbounded_memory(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find containers without a memory limit, and with a request that is another amount than the limit.

    Ephemeral containers may have neither. What a LimitRange gives counts as set. A limit of 0 is none: the
    kubelet passes it to no runtime (kuberuntime/kuberuntime_container_windows.go).
    """
    given = (workload.cluster.limits or {}).get(workload.namespace, Limits())
    for each in workload.containers():
        if ".ephemeralContainers[" in each.path:
            continue
        own, request = (
            _memory(f"{each.path}.resources.{kind}.memory", places) for kind in ("limits", "requests")
        )
        limit = _bytes(given.limit) if own is None else own
        if request is None and own is None:
            request = _bytes(given.request)
        if limit is None or limit == 0:
            yield Place(f"{each.path}.resources.limits.memory")
        elif request is not None and request != limit:
            yield Place(f"{each.path}.resources.requests.memory", request)


def _memory(path: str, places: Sequence[Place]) -> int | str | None:
    """Return an amount in bytes, or as it is written where it is no quantity."""
    return _bytes(next((each.value for each in places if each.path == path), None))


def _bytes(found: Any) -> int | str | None:
    if isinstance(found, bool) or not isinstance(found, int | str):
        return None
    try:
        return bytes_of(found)
    except ValueError:
        return found


def is_mode_narrow(value: Any) -> bool:
    """Whether a mode of files keeps anyone from reading them."""
    return isinstance(value, int) and not isinstance(value, bool) and value & _READABLE != _READABLE


def linux_paths(_: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find paths of the host that only Linux has."""
    for each in places:
        path = each.value.get("path") if isinstance(each.value, dict) else None
        if isinstance(path, str) and _LINUX_PATH.fullmatch(path):
            yield each


def must_exist(_: Workload, place: Place) -> bool:
    """Whether the kubelet refuses to mount a path of the host that is not there."""
    return isinstance(place.value, dict) and place.value.get("type") in _MUST_EXIST


def piped_host_process(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find named pipes that are mounted into HostProcess containers."""
    if not is_host_process(workload):
        return []
    return [each for each in places if isinstance(each.value, str) and _PIPE.match(each.value)]


def linux_programs(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find commands whose program is one of Linux. ``args`` begin with one if there is no command."""
    paths = {each.path for each in places}
    with_programs = tuple(
        f"{each.path}." for each in workload.containers() if _BUSYBOX.fullmatch(str(each.value.get("image")))
    )
    for each in places:
        if each.path.endswith(".args") and f"{each.path.removesuffix('args')}command" in paths:
            continue
        if each.path.startswith(with_programs):
            continue
        if (words := _words(each)) and _LINUX_PROGRAM.fullmatch(words[0]):
            yield Place(each.path, each.value, more=f"The program is {words[0]}.")


def pings(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find commands that ping others than themselves. HostProcess containers have the network of the node."""
    if is_host_process(workload):
        return
    for each in places:
        for found in _PING.finditer(" ".join(_words(each))):
            named = [word for word in found[1].split() if word[0] not in "-/" and not word.isdecimal()]
            if named and not _OWN_ADDRESS.fullmatch(named[-1]):
                yield each
                break


def _words(place: Place) -> list[str]:
    """Return the words of a command; none where it is not a list of texts."""
    found = place.value if isinstance(place.value, list) else []
    return [each for each in found if isinstance(each, str)]


def app_armor_annotations(_: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find the annotations by which containers had AppArmor profiles before 1.30."""
    for each in places:
        for name, value in each.value.items() if isinstance(each.value, dict) else ():
            if name.startswith(_APP_ARMOR) and value is not None:
                yield Place(f"{each.path}[{name}]", value)
