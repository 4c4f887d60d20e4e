"""The conditions of rules for which it does not suffice that a field is there.

A ``Find`` gets the workload and the places where the fields of its rule are set. It returns those that
count, or others. A ``Test`` says of one place whether it is worse than the others. Some need
to know more than a manifest: nodes, RuntimeClasses, namespaces. Where that is not known they find nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from winpool.api.keys import OS_LABEL, WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.matrix import Verdict
from winpool.api.quantity import bytes_of
from winpool.api.text import enumerate_names
from winpool.features.audit.cluster import Host, Limits, RuntimeClass, Selection
from winpool.features.audit.workloads import AFFINITY, BETA_OS_LABEL, Place, PodOS, Workload, below
from winpool.support.compat import Compatibility, Isolation, compatible, guess_version
from winpool.support.matrix import built_in
from winpool.support.versions import build_text_of, parse_windows

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


def where(test: Callable[[Any], bool], *, host_process: bool | None = None) -> Find:
    """Return a condition for the value of the field: in all pods, or by whether they are HostProcess pods."""

    def find(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
        if host_process in (None, is_host_process(workload)):
            yield from (each for each in places if test(each.value))

    return find


def value_is(wanted: Any) -> Test:
    """Return a test whether the field has this value."""
    return lambda _, place: _same(place.value, wanted)


def set_to(wanted: Any, *, host_process: bool | None = None) -> Find:
    """Return a condition that the field has this value."""
    return where(lambda value: _same(value, wanted), host_process=host_process)


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


def is_credential_spec(value: Any) -> bool:
    """Whether the API server takes the contents of a gmsaCredentialSpec, by their length in bytes."""
    return isinstance(value, str) and 0 < _size(value) <= _GMSA_BYTES


def is_subdomain(value: Any) -> bool:
    """Whether an object can have this name (RFC 1123)."""
    return isinstance(value, str) and len(value) <= _NAME_LENGTH and bool(_SUBDOMAIN.fullmatch(value))


def malformed_credential_specs(_: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find credential specs, and names of them, that the API server refuses."""
    for each in places:
        is_taken = is_subdomain if each.path.endswith("Name") else is_credential_spec
        if not is_taken(each.value):
            yield each


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
        yield from _entries(each, "hugepages-")
        if isinstance(each.value, str) and each.value.startswith("HugePages"):
            yield each


def _entries(place: Place, prefix: str) -> Iterator[Place]:
    """Yield the entries of a map whose keys begin so."""
    for name, value in place.value.items() if isinstance(place.value, dict) else ():
        if name.startswith(prefix) and value is not None:
            yield Place(f"{place.path}[{name}]", value)


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


def is_linux_path(value: Any) -> bool:
    """Whether only Linux has a path of the host."""
    path = value.get("path") if isinstance(value, dict) else None
    return isinstance(path, str) and bool(_LINUX_PATH.fullmatch(path))


def must_exist(_: Workload, place: Place) -> bool:
    """Whether the kubelet refuses to mount a path of the host that is not there."""
    return isinstance(place.value, dict) and place.value.get("type") in _MUST_EXIST


def is_pipe(value: Any) -> bool:
    """Whether a path is that of a named pipe."""
    return isinstance(value, str) and bool(_PIPE.match(value))


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
        yield from _entries(each, _APP_ARMOR)


# Placement.

_RESTRICTIVE: Final = ("baseline", "restricted")
"""Levels of Pod Security without HostProcess containers.
https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

_SHOWN_LENGTH: Final = 80
"""Characters of the reference of an image that a message shows."""

_HYPER_V: Final = "hypervisor"
"""In the names of containerd's handlers for Hyper-V isolation, such as runhcs-wcow-hypervisor."""

_HOST_PROCESS: Final = "windowsOptions.hostProcess"


def lands_on_windows(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods of which nothing says the OS, and which a Windows node takes."""
    if workload.reach and workload.reach.taken:
        path = workload.path("spec.nodeSelector")
        yield Place(path, more=f"Windows nodes that take them: {_hosts(workload.reach.taken)}.")


def tolerates_everything(workload: Workload, _: Place) -> bool:
    """Whether the pods are those of a DaemonSet that tolerates every taint."""
    return workload.kind == "DaemonSet" and any(
        not each.key and not each.effect and each.operator == "Exists"
        for each in workload.selection.tolerations
    )


def lands_on_linux(workload: Workload, _: Place) -> bool:
    """Whether a Linux node takes the pods, or that is not known."""
    return workload.reach is None or workload.reach.is_on_linux


def no_toleration(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods that no Windows node takes, because of the taints of those that they select."""
    reach = workload.reach
    if reach and reach.selected and not reach.taken:
        yield Place(workload.path("spec.tolerations"), more=_taints(reach.selected, workload.selection))


def no_node(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods that no Windows node takes, because none has the labels that they select."""
    reach, selection = workload.reach, workload.selection
    if reach and not reach.selected and not selection.node and workload.selects is not PodOS.LINUX:
        yield Place(workload.path("spec.nodeSelector"), more=_unselected(workload, selection))


def is_about_chosen_hosts(workload: Workload, _: Place) -> bool:
    """Whether someone has asked about certain hosts or a pool."""
    return workload.cluster.is_chosen


def class_out_of_reach(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find a RuntimeClass with which no Windows node takes a pod that sets nothing else."""
    reach, selection = workload.reach, workload.selection
    if reach is None or reach.taken:
        return
    if reach.selected:
        yield Place("scheduling.tolerations", more=_taints(reach.selected, selection))
    elif not workload.cluster.is_chosen:
        yield Place("scheduling.nodeSelector", more=_unselected(workload, selection))


def no_class(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find the name of a RuntimeClass that does not exist."""
    return places if workload.runtime_class else ()


def class_contradiction(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find labels that pods and their RuntimeClass select with different values."""
    selector = workload.value("spec.nodeSelector")
    own = selector if isinstance(selector, dict) else {}
    for key, value in workload.added.node_selector.items() if workload.added else ():
        if own.get(key, value) != value:
            theirs = f"the RuntimeClass {workload.class_name} {key}={value}"
            path = workload.path(f"spec.nodeSelector[{key}]")
            yield Place(path, own[key], f"The pods select {key}={own[key]}, and {theirs}.")


def no_handler(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find a RuntimeClass whose handler no host has that takes the pods. All have to report theirs."""
    found = workload.added
    hosts = workload.reach.taken if workload.reach else ()
    if found is None or not hosts:
        return
    if all(each.handlers is not None and found.handler not in each.handlers for each in hosts):
        known = sorted({name for each in hosts for name in each.handlers or () if name})
        more = f"Its handler is {found.handler}; handlers of the nodes: {', '.join(known) or 'none by name'}."
        yield from (Place(each.path, each.value, more) for each in places)


def no_recursive_read_only(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find recursiveReadOnly: Enabled where a host that takes the pods reports that its handler cannot."""
    found = workload.added or RuntimeClass()
    hosts = workload.reach.taken if workload.reach and (found.handler or not workload.class_name) else ()
    without = [each for each in hosts if each.handlers is not None and not each.handlers.get(found.handler)]
    for each in places if without else ():
        if each.value == "Enabled":
            yield Place(each.path, each.value, f"Such nodes: {_hosts(without)}.")


# HostProcess containers.


def refused_by_pod_security(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find HostProcess containers in a namespace that enforces a level without them."""
    level = (workload.cluster.enforced or {}).get(workload.namespace)
    if level in _RESTRICTIVE:
        more = f"The namespace {workload.namespace} enforces {level}."
        yield from _first_host_process(workload, places, more)


def old_runtime(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find HostProcess containers that get to a host whose runtime cannot start them."""
    for host in workload.reach.taken if workload.reach else ():
        verdict = _compatible(host.kernel, host.runtime, "", Isolation.PROCESS, is_host_process=True)
        if verdict.verdict is Verdict.UNSUPPORTED:
            more = f"The runtime of {host} is {host.runtime}."
            yield from _first_host_process(workload, places, more)
            return


def _first_host_process(workload: Workload, places: Sequence[Place], more: str) -> Iterator[Place]:
    if is_host_process(workload):
        first = next(each for each in places if each.value is True)
        yield Place(first.path, first.value, more)


# Images.


class Image(NamedTuple):
    """The Windows that an image is for, empty if nothing says it, and what does. A tag can be wrong."""

    version: str
    source: str
    is_guess: bool = False


class Runs(NamedTuple):
    """What becomes of a container on the hosts that take its pod: those that run it, and those that do not.

    ``unknown`` is why it is not known for some. ``warned`` runs it, with something to know.
    """

    place: Place
    image: Image
    refused: list[tuple[Host, str]]
    warned: list[tuple[Host, str]]
    others: int
    unknown: str


def runs_nowhere(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find containers that no host runs that takes the pods, and those with a warning about the others."""
    for each in _containers(workload):
        if each.refused and not each.others and not each.warned:
            yield Place(each.place.path, each.place.value, _told(each, each.refused))
        elif each.warned and not each.refused:
            yield Place(each.place.path, each.place.value, _told(each, each.warned))


def is_certain(workload: Workload, place: Place) -> bool:
    """Whether a container does run on no host, by what someone declares and not by a tag."""
    return any(
        each.place.path == place.path and each.refused and not each.image.is_guess
        for each in _containers(workload)
    )


def runs_on_some(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods with a container that some of the hosts that take them run, and others do not."""
    for each in _containers(workload):
        if each.refused and (each.others or each.warned):
            yield Place(
                workload.path(f"spec.nodeSelector[{WINDOWS_BUILD_LABEL}]"), more=_told(each, each.refused)
            )
            return


def unknown_images(workload: Workload) -> str:
    """Return why it is not known whether a container runs on the hosts that take its pod, or nothing."""
    return next((each.unknown for each in _containers(workload) if each.unknown), "")


def _containers(workload: Workload) -> Iterator[Runs]:
    hosts = workload.reach.taken if workload.reach else ()
    is_asked = workload.os is PodOS.WINDOWS or workload.cluster.image_build
    if not hosts or not is_asked:
        return
    declared, isolation = _declared(workload), _isolation(workload)
    for container, of_host in zip(workload.containers(), host_processes(workload), strict=True):
        if not of_host:
            written = container.value.get("image")
            image = declared or _guessed(written if isinstance(written, str) else "")
            yield _runs(Place(f"{container.path}.image", written), image, hosts, isolation)


def _runs(place: Place, image: Image, hosts: Sequence[Host], isolation: Isolation) -> Runs:
    runs = Runs(place, image, [], [], 0, "")
    if not image.version:
        return runs._replace(unknown=image.source, others=len(hosts))
    others, unknown = 0, ""
    for host in hosts:
        found = _compatible(host.kernel, host.runtime, image.version, isolation, is_host_process=False)
        told = found.reasons[0].text
        match found.verdict:
            case Verdict.UNSUPPORTED:
                runs.refused.append((host, told))
            case Verdict.WARNED:
                runs.warned.append((host, told))
            case Verdict.UNKNOWN:
                others, unknown = others + 1, told.removesuffix(".")
            case Verdict.SUPPORTED:
                others += 1
    return runs._replace(others=others, unknown=unknown)


def _told(runs: Runs, hosts: Sequence[tuple[Host, str]]) -> str:
    first, why = hosts[0]
    also = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    told = f"On {first}{also}: {why} The image is for {runs.image.version}, according to {runs.image.source}."
    return f"{told} This is a guess: a tag can be wrong." if runs.image.is_guess else told


def _declared(workload: Workload) -> Image | None:
    """Return what all images are for: by the command line, the annotation, or the build that the pod selects.

    Of several builds the oldest counts: images for it run on all of them.
    """
    if workload.cluster.image_build:
        return Image(workload.cluster.image_build, "--image-build")
    written = workload.value(f"metadata.annotations[{WINDOWS_BUILD_ANNOTATION}]")
    if isinstance(written, str) and (said := parse_windows(written)):
        return Image(str(said), f"the annotation {WINDOWS_BUILD_ANNOTATION}")
    versions = [version for each in _builds(workload) if (version := parse_windows(each))]
    oldest = min(versions, key=lambda each: each.build, default=None)
    if oldest is None:
        return None
    is_of_class = workload.added is not None and WINDOWS_BUILD_LABEL in workload.added.node_selector
    who = f"the RuntimeClass {workload.class_name}" if is_of_class else "the pod"
    return Image(str(oldest), f"the build that {who} selects by {WINDOWS_BUILD_LABEL}")


@lru_cache(maxsize=1024)
def _guessed(reference: str) -> Image:
    """Return what an image is for by its tag, or that nothing says it."""
    guess = guess_version(reference, matrix=built_in())
    if guess is not None:
        return Image(str(guess), f"its tag ({reference})", is_guess=True)
    nothing = f"nothing says the Windows version of {reference[:_SHOWN_LENGTH] or 'its image'}"
    return Image("", f"{nothing}: use --image-build or the annotation {WINDOWS_BUILD_ANNOTATION}")


def _builds(workload: Workload) -> tuple[str, ...]:
    """Return the values of the build label that the node selector or required affinity of the pod allows."""
    written = workload.selection.labels.get(WINDOWS_BUILD_LABEL)
    if isinstance(written, str):
        return (written,)
    terms = [list(_builds_of(each.value)) for each in workload.places(AFFINITY)]
    # One term is enough for a node, so that one without a build lets the pod go anywhere.
    return tuple(dict.fromkeys(build for term in terms for build in term)) if all(terms) else ()


def _builds_of(term: Any) -> Iterator[str]:
    for each in below(term, "matchExpressions[*]"):
        fields = each.value if isinstance(each.value, dict) else {}
        if (fields.get("key"), fields.get("operator")) == (WINDOWS_BUILD_LABEL, "In"):
            values = (inner.value for inner in below(fields, "values[*]"))
            yield from (value for value in values if isinstance(value, str))


def _isolation(workload: Workload) -> Isolation:
    is_hyper_v = workload.added is not None and _HYPER_V in workload.added.handler
    return Isolation.HYPER_V if is_hyper_v else workload.cluster.isolation


@lru_cache(maxsize=1024)
def _compatible(
    kernel: str, runtime: str, image: str, isolation: Isolation, *, is_host_process: bool
) -> Compatibility:
    return compatible(
        kernel, image, isolation, matrix=built_in(), runtime=runtime, host_process=is_host_process
    )


# Words.


def _hosts(hosts: Sequence[Host]) -> str:
    return enumerate_names(sorted(name for each in hosts for name in each.names))


def _taints(hosts: Sequence[Host], selection: Selection) -> str:
    """Say which taints keep the pods away: those of the first kinds of nodes."""
    found = [
        (f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}", host)
        for host in hosts
        for each in selection.untolerated(host)
    ]
    texts = list(dict.fromkeys(text for text, _ in found))
    return f"Taints that they do not tolerate: {enumerate_names(texts)} (on {_hosts(hosts)})."


def _unselected(workload: Workload, selection: Selection) -> str:
    hosts = workload.cluster.hosts or ()
    builds = list(dict.fromkeys(build_text_of(each.kernel) or each.kernel for each in hosts))
    labels = [
        f"{key}={value}" for key, value in selection.labels.items() if key not in (OS_LABEL, BETA_OS_LABEL)
    ]
    if selection.terms is not None:
        labels.append("a required node affinity")
    asked = f"They select {enumerate_names(labels)}" if labels else "They select Windows nodes"
    there = f"the Windows hosts are {enumerate_names(builds)}" if builds else "there is none"
    return f"{asked}, and {there}."
