"""The rules of the audit: each finds its own cases and leaves those beside them alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from harness.windows_pods import (
    ACCEPTED,
    ALWAYS_REFUSED,
    CASES,
    GATED,
    LINUX,
    REFUSED,
    Case,
    a_pod,
    in_a_deployment,
    without_os,
)
from winpool.features.audit.audit import Finding, findings, ignored
from winpool.features.audit.cluster import Cluster, RuntimeClass
from winpool.features.audit.rules import NEWEST, OLDEST, RULES, Needs, Outcome, Severity
from winpool.features.audit.workloads import workload_of
from winpool.support.matrix import built_in
from winpool.support.versions import Minor

Object = dict[str, Any]

MINORS: Final = tuple(Minor(1, each) for each in range(OLDEST.minor, NEWEST.minor + 1))


def found_in(content: Any, minor: Minor = NEWEST) -> list[Finding]:
    workload = workload_of(content)
    return findings(workload, minor) if workload else []


def one(case: Case, content: Object, minor: Minor = NEWEST) -> Finding:
    """Return what the rule of a case finds in its place, which is one thing."""
    found = [each for each in found_in(content, minor) if each.rule.code == case.code]
    [here] = [each for each in found if each.field.endswith(case.at)]
    return here


def codes(content: Object, minor: Minor = NEWEST) -> set[str]:
    return {each.rule.code for each in found_in(content, minor)}


def test_every_rule_that_a_manifest_shows_has_a_case() -> None:
    shipped = [rule.code for rule in RULES if rule.needs is Needs.MANIFEST and rule.code != "P13"]
    assert len(set(shipped)) == len(shipped)
    assert {case.code for case in CASES} == set(shipped), "P13 is about two objects: test_cluster_rules"


def test_every_row_has_its_words_and_its_source() -> None:
    for rule in RULES:
        assert rule.sources
        assert rule.known
        assert rule.happens.endswith(".")
        assert rule.fix.endswith(".")


def test_the_rules_are_for_minors_that_the_matrix_knows() -> None:
    assert set(MINORS) <= set(built_in().minors)
    assert max(built_in().minors) <= NEWEST, "a newer minor: judge the outcomes of it, too"


def test_nothing_is_found_in_a_pod_that_is_as_it_should_be() -> None:
    assert found_in(a_pod()) == []


@every("case", CASES, ids=str)
def test_a_rule_finds_its_case(case: Case) -> None:
    found = one(case, case.found)
    assert found.field == case.at
    assert one(case, in_a_deployment(case.found)).field == f"spec.template.{case.at}"


@every("case", CASES, ids=str)
def test_a_rule_leaves_what_is_near_alone(case: Case) -> None:
    assert case.code not in codes(case.near)


@every("case", REFUSED, ids=str)
def test_a_refused_field_is_an_error_with_os_name_and_accepted_without(case: Case) -> None:
    named, unnamed = one(case, case.found), one(case, without_os(case.found))
    assert (named.outcome, named.severity) == (Outcome.REFUSED, Severity.ERROR)
    assert unnamed.outcome is Outcome.ACCEPTED
    assert unnamed.severity in (unnamed.rule.without_os, unnamed.rule.worse and unnamed.rule.worse.severity)
    assert unnamed.says == unnamed.rule.happens


@every("case", ALWAYS_REFUSED, ids=str)
def test_what_is_refused_always_is_an_error(case: Case) -> None:
    found = one(case, case.found)
    assert (found.outcome, found.severity) == (Outcome.REFUSED, Severity.ERROR)


@every("case", ACCEPTED, ids=str)
def test_what_is_accepted_is_accepted_in_every_minor(case: Case) -> None:
    for minor in MINORS if case.code != "W25" else MINORS[1:]:
        assert one(case, case.found, minor).outcome is Outcome.ACCEPTED


@every("case", [each for each in REFUSED if "containers" in each.at], ids=str)
def test_a_rule_that_is_for_containers_is_for_init_and_ephemeral_containers_too(case: Case) -> None:
    for kind in ("initContainers", "ephemeralContainers"):
        pod = a_pod({kind: case.found["spec"]["containers"]})
        at = case.at.replace("containers", kind, 1)
        assert one(replace(case, at=at), pod).field == at


@pytest.mark.parametrize(
    ("code", "refused_since"), [("R5", "1.33"), ("R9", "1.33"), ("R15", "1.33"), ("R16", "1.34")]
)
def test_a_field_whose_gate_is_off_is_dropped(code: str, refused_since: str) -> None:
    case = next(each for each in REFUSED if each.code == code)
    for minor in MINORS:
        is_refused = str(minor) >= refused_since
        named = one(case, case.found, minor)
        assert named.outcome is (Outcome.REFUSED if is_refused else Outcome.DROPPED)
        assert named.severity is (Severity.ERROR if is_refused else Severity.WARNING)
        assert is_refused or f"That of {refused_since} and later refuses" in named.says
        unnamed = one(case, without_os(case.found), minor)
        assert unnamed.outcome is (Outcome.ACCEPTED if is_refused else Outcome.DROPPED)


@pytest.mark.parametrize(
    ("code", "at", "severities"),
    [
        ("R5", "supplementalGroupsPolicy", ["Warning", "Error"]),
        ("R7", "sysctls", ["Error"]),
        ("R16", "resources", ["Error"]),
        ("R17", "privileged", ["Warning", "Info"]),
        ("R19", "capabilities", ["Info", "Info", "Warning"]),
        ("R20", "readOnlyRootFilesystem", ["Warning", "Info"]),
    ],
)
def test_without_os_name_the_value_can_make_it_worse(code: str, at: str, severities: list[str]) -> None:
    cases = [each for each in REFUSED if each.code == code and each.at.endswith(at)]
    assert [one(each, without_os(each.found)).severity for each in cases] == severities


def test_a_non_root_user_that_is_the_administrator_is_an_error() -> None:
    assert [one(each, each.found).severity for each in ACCEPTED if each.code == "W4"] == ["Info", "Error"]


@pytest.mark.parametrize(
    ("code", "outcomes"),
    [
        ("W33", "      dropped dropped dropped dropped dropped"),
        ("W38", "dropped accepted accepted accepted accepted accepted"),
        ("W39", "dropped dropped accepted accepted accepted accepted"),
    ],
)
def test_a_field_whose_gate_is_off_is_dropped_whatever_the_os(code: str, outcomes: str) -> None:
    [case] = [each for each in GATED if each.code == code]
    words = outcomes.split()
    for minor, outcome in zip(MINORS[-len(words) :], words, strict=True):
        for pod in (case.found, without_os(case.found)):
            found = one(case, pod, minor)
            dropped = f"The API server of Kubernetes {minor} drops it. " if outcome == "dropped" else ""
            assert found.outcome == outcome
            assert found.severity is found.rule.severity
            assert found.says == dropped + found.rule.happens
    assert len(words) == len(MINORS) or code not in codes(case.found, OLDEST)


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        *((each, "Error") for each in ("Directory", "File", "Socket", "CharDevice", "BlockDevice")),
        *((each, "Warning") for each in ("DirectoryOrCreate", "FileOrCreate", "", None)),
    ],
)
def test_a_path_of_linux_that_has_to_exist_is_an_error(kind: str | None, severity: str) -> None:
    volume = {"name": "v", "hostPath": {"path": "/dev/kvm", "type": kind}}
    [found] = found_in(a_pod({"volumes": [volume]}))
    assert (found.rule.code, found.severity) == ("W27", severity)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["/bin/bash"], {"W42"}),
        (["/sbin/init"], {"W42"}),
        (["ash", "-c", "ping x"], {"W42", "W43"}),
        (["/usr/local/bin/app"], set()),
        (["/app"], set()),
        (["/bin/run.cmd"], set()),
        (["pwsh", "-c", "/bin/sh"], set()),
        (["powershell", "/bin/sh"], set()),
        (["C:\\bin\\sh"], set()),
        ([], set()),
        ("/bin/sh", set()),
        ([1, None], set()),
        (["ping"], set()),
        (["ping", "-n", "3"], set()),
        (["ping", "-t", "127.0.0.1"], set()),
        (["cmd", "/c", "ping 127.1 -n 11 >nul & ping -w 9 10.0.0.1"], {"W43"}),
        (["powershell", "-c", "ping $env:COMPUTERNAME; exit"], set()),
        (["cmd", "/c", "start ping -t %COMPUTERNAME%"], set()),
        (["curl", "http://ping.example/ping"], set()),
        (["shipping", "x"], set()),
    ],
)
def test_programs_of_linux_and_pings_are_known_by_their_words(command: Any, found: set[str]) -> None:
    assert codes(a_pod(container={"command": command})) == found
    assert codes(a_pod(container={"livenessProbe": {"exec": {"command": command}}})) == found


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("registry.example/tests/busybox:1.29", set()),
        ("acme/busybox", set()),
        ("busybox:1.36", {"W42"}),
        ("docker.io/library/busybox", {"W42"}),
        ("acme/notbusybox", {"W42"}),
    ],
)
def test_busybox_for_windows_has_programs_of_linux(image: str, found: set[str]) -> None:
    assert codes(a_pod(container={"image": image, "command": ["/bin/sh"]})) == found
    assert codes(a_pod(container={"image": image, "livenessProbe": {"exec": {"command": ["sh"]}}})) == found


def test_a_program_of_linux_is_named() -> None:
    [found] = found_in(a_pod(container={"command": ["/bin/sh", "-c", "secret"]}))
    assert found.says.endswith(" The program is /bin/sh.")


def test_a_host_process_pings_from_the_network_of_the_node() -> None:
    options = {"windowsOptions": {"hostProcess": True, "runAsUserName": "x"}}
    pod = {"hostNetwork": True, "securityContext": options}
    assert codes(a_pod(pod, {"command": ["ping", "x.example"]})) == set()


def test_a_bidirectional_mount_is_an_error() -> None:
    mount = {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}
    [found] = found_in(a_pod(container={"volumeMounts": [mount]}))
    assert (found.rule.code, found.severity) == ("W15", "Error")


def test_a_git_repo_is_no_finding_while_the_plugin_works() -> None:
    [case] = [each for each in CASES if each.code == "W25"]
    assert found_in(case.found, Minor(1, 32)) == []


def test_a_workload_without_os_name_is_named_with_what_would_be_refused() -> None:
    pod = a_pod({"hostPID": True}, {"securityContext": {"privileged": False}}, os_name=None)
    [found] = [each for each in found_in(pod) if each.rule.code == "P5"]
    assert "The pods are for Windows by spec.nodeSelector." in found.says
    assert found.says.endswith(": spec.hostPID, spec.containers[0].securityContext.privileged.")


def test_a_chart_that_sets_much_is_named_with_the_first_fields_only() -> None:
    fields = {"privileged": False, "capabilities": {}, "procMount": "Default", "runAsUser": 1}
    pod = a_pod({"hostPID": True, "hostIPC": True}, {"securityContext": fields}, os_name=None)
    [found] = [each for each in found_in(pod) if each.rule.code == "P5"]
    assert found.says.endswith(" and 1 more.")


def test_pods_for_linux_and_pods_of_unknown_os_have_no_findings() -> None:
    fields = {"hostPID": True, "securityContext": {"runAsUser": 1}}
    assert found_in(a_pod({"nodeSelector": LINUX, **fields}, os_name="linux")) == []
    plain = a_pod({**fields, "nodeSelector": {}}, {"image": "nginx"}, os_name=None)
    assert found_in(plain) == []


def test_a_runtime_class_that_is_not_known_may_select_the_nodes() -> None:
    pod = a_pod({"nodeSelector": {}, "runtimeClassName": "win"})
    assert found_in(pod) == []
    workload = workload_of(pod, Cluster(runtime_classes={"win": RuntimeClass(node_selector={"disk": "ssd"})}))
    assert workload is not None
    assert [each.rule.code for each in findings(workload, NEWEST)] == ["P2"]


@pytest.mark.parametrize(
    ("text", "codes", "unread"),
    [
        ("W13: only a cache", {"W13": "only a cache"}, []),
        ("W13", {"W13": ""}, []),
        (
            "W13, R17: a chart; no secrets;R18:x\nR19",
            {"W13": "a chart; no secrets", "R17": "a chart; no secrets", "R18": "x", "R19": ""},
            [],
        ),
        ("W13:", {"W13": ""}, []),
        ("everything", {}, ["everything"]),
        ("W13, R99: both", {"W13": "both"}, ["W13, R99: both"]),
        ("", {}, []),
    ],
)
def test_an_annotation_names_the_rules_that_are_ignored(
    text: str, codes: dict[str, str], unread: list[str]
) -> None:
    pod = a_pod(annotations={"winpool.dev/audit-ignore": text})
    for content in (pod, in_a_deployment(pod)):
        workload = workload_of(content)
        assert workload is not None
        assert ignored(workload) == (codes, unread)


def test_the_annotation_may_be_on_the_object() -> None:
    content = in_a_deployment(a_pod(annotations={"winpool.dev/audit-ignore": "W13: a"}))
    content["metadata"]["annotations"] = {"winpool.dev/audit-ignore": "W34: b"}
    workload = workload_of(content)
    assert workload is not None
    assert ignored(workload) == ({"W34": "b", "W13": "a"}, [])


def _words() -> list[str]:
    """Return the names of fields that rules read, and what is between them."""
    paths = [field for rule in RULES for field in rule.fields]
    words = {part.strip("[]") for path in paths for part in path.split(".")}
    return sorted({each.removesuffix("[*]").removesuffix("[") for each in words} | {"kind", "template", "os"})


VALUES: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["windows", "linux", "Deployment", "CronJob", "1Gi", "hyperv"])
    | st.text()
)
JSON: Final = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_words()) | st.text(), inner, max_size=6)
    ),
    max_leaves=40,
)


@given(JSON)
def test_no_object_raises(content: Any) -> None:
    workload = workload_of(content, Cluster(runtime_classes={"win": RuntimeClass()}))
    if workload:
        findings(workload, NEWEST)
        ignored(workload)


@given(JSON, JSON, st.sampled_from(["windows", None]))
def test_no_pod_raises(spec: Any, container: Any, os_name: str | None) -> None:
    spec, container = (each if isinstance(each, dict) else {"image": each} for each in (spec, container))
    for minor in (OLDEST, NEWEST):
        found_in(in_a_deployment(a_pod(spec, container, os_name=os_name)), minor)


@given(st.lists(st.sampled_from(CASES), max_size=6), st.sampled_from(REFUSED), st.sampled_from(MINORS))
def test_a_refused_field_removes_no_finding(cases: list[Case], added: Case, minor: Minor) -> None:
    """A field more that the API server refuses: whatever was found before is found again."""
    pod = a_pod()
    for case in cases:
        _merge(pod["spec"], case.found["spec"])
    before = {(each.rule.code, each.field) for each in found_in(pod, minor)}
    _merge(pod["spec"], added.found["spec"], over=False)
    assert before <= {(each.rule.code, each.field) for each in found_in(pod, minor)}


def _merge(into: Object, more: Object, *, over: bool = True) -> None:
    for key, value in more.items():
        if key == "containers":
            _merge(into[key][0], value[0], over=over)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            into[key] = dict(into[key])
            _merge(into[key], value, over=over)
        elif over or key not in into:
            into[key] = value
