"""``audit``: what of the workloads in files does not run on Windows as it is written."""

from __future__ import annotations

import json
import re
import tracemalloc
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest
from sarif_kit.validate import validation_errors  # type: ignore[import-untyped]
from yaml import safe_load

from harness.every import every
from harness.windows_pods import CASES, Case
from winpool.cli import manifests
from winpool.cli.audit import MOST_CONTAINERS, version_named
from winpool.cli.audit import audited as audited_report
from winpool.cli.audit_report import log_of
from winpool.cli.manifests import documents_of
from winpool.features.audit.rules import NEWEST, RULES, Severity
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from pathlib import Path

    from unit.cli.conftest import Ended, Plugin

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    spec:
      os: {name: windows}
      nodeSelector: {kubernetes.io/os: windows}
      containers:
      - name: iis
        image: iis
        resources: {limits: {memory: 1Gi}}
        securityContext:
          privileged: false
      volumes:
      - name: cache
        emptyDir:
          medium: Memory
"""
CLEAN = WEB.replace("privileged: false", "{}").replace("medium: Memory", "{}")
PLAIN = "kind: Pod\nmetadata: {name: plain}\nspec: {containers: [{name: a, image: nginx}]}\n"
LINUX = PLAIN.replace("{containers", "{os: {name: linux}, containers")
OTHERS = (
    "labels and taints of nodes (P1, P2, P4, P10), runtime handlers of Windows nodes (P9, W16), "
    "RuntimeClasses of the cluster (P8, P13), Pod Security of namespaces (W10), LimitRanges (W34), drivers "
    "of PersistentVolumes"
)
NEEDS = f"Not judged: builds and runtimes of Windows nodes (P7, P14, W11, W44), {OTHERS}"

UNREAD = "documents that cannot be read"


def audited(plugin: Plugin, text: str, *more: str) -> Ended:
    return plugin("audit", "-f", "-", *more, stdin=text)


def codes(ended: Ended) -> list[str]:
    found = (re.search(r": ([A-Z]\d+) (?:Error|Warning|Info) ", line) for line in ended.out)
    return [each[1] for each in found if each]


def test_a_finding_is_one_line_with_place_object_rule_severity_field_and_fix(plugin: Plugin) -> None:
    ended = audited(plugin, WEB)
    assert ended.code == 3
    assert ended.out == [
        "stdin:15: Deployment web: R17 Error spec.template.spec.containers[0].securityContext.privileged: "
        "The API server refuses the pods, because spec.os.name is windows. Remove it, also if it is false. "
        "Only HostProcess containers have rights on the node.",
        "stdin:19: Deployment web: W13 Warning spec.template.spec.volumes[0].emptyDir.medium: Windows has no "
        "tmpfs: the volume is a folder on the disk of the node. What is secret in it is on that disk, and "
        "sizeLimit limits no memory. Remove medium, and encrypt the volume of the node.",
    ]
    assert ended.err == [
        "1 workload for Windows, Kubernetes 1.37: 2 findings (1 Error, 1 Warning)",
        f"{NEEDS}.",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (WEB, 3),
        (CLEAN, 0),
        (WEB.replace("privileged: false", "{}"), 0),
        (LINUX, 0),
        (PLAIN, 1),
        (f"{LINUX}---\n{PLAIN}", 0),
        (f"{CLEAN}---\n{PLAIN}", 0),
        (f"{CLEAN}---\na: [\n", 1),
        (f"{WEB}---\na: [\n", 3),
        ("kind: Service\n", 1),
        ("", 1),
    ],
)
def test_the_exit_code_says_no_could_not_tell_and_yes(plugin: Plugin, text: str, code: int) -> None:
    ended = audited(plugin, text)
    assert ended.code == code
    assert ended.err[-1].startswith("Not judged: ")


def test_where_there_is_nothing_to_judge_it_says_why(plugin: Plugin) -> None:
    assert audited(plugin, "").err[-1] == "Not judged: no workload was found."
    assert audited(plugin, LINUX).err == [
        "0 workloads for Windows, Kubernetes 1.37: 0 findings; 1 workload for Linux skipped",
        "Not judged: nothing, since every workload is for Linux.",
    ]


def test_where_there_are_only_runtime_classes_it_says_so(plugin: Plugin) -> None:
    ended = audited(plugin, f"{CLASS}{CLASS}")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err == [
        "0 workloads for Windows, Kubernetes 1.37: 0 findings; 2 RuntimeClasses read",
        "Not judged: no workload was found; labels and taints of nodes (P10).",
    ]
    report = json.loads("\n".join(audited(plugin, CLASS, "-o", "json").out))
    assert report["runtimeClasses"] == 1


def test_nothing_is_clean_in_silence(plugin: Plugin) -> None:
    text = f"{PLAIN}---\n{CLEAN.replace('os: {name: windows}', 'runtimeClassName: win')}---\nkind: Service\n"
    ended = audited(plugin, text, "--min-severity", "Error")
    assert (ended.code, ended.out) == (0, [])
    assert ended.err == [
        "1 workload for Windows, Kubernetes 1.37: 0 findings; 1 below --min-severity (P5: 1)",
        f"{NEEDS}; 1 workload without any OS (Pod plain): whether they can land on Windows nodes depends on "
        "the taints of these, which needs the cluster (P1); the RuntimeClasses that are not in the files "
        "(win); 1 object without pods that it can find (Service).",
    ]


def test_a_document_that_cannot_be_read_is_named_and_the_rest_is_audited(plugin: Plugin) -> None:
    twice = WEB.replace("      os:", "      hostPID: true\n      hostPID: true\n      os:")
    ended = audited(plugin, f"{twice}---\na: [\n---\n{LINUX}---\n{'[' * 5000}\n---\n{WEB}")
    assert ended.code == 3
    assert ended.out[0] == 'stdin:9: document 1 (web): key "hostPID" is already set on line 8'
    assert ended.out[1].startswith("stdin:24: not YAML: ")
    assert ended.out[2] == "stdin:29: nested too deeply: more than 64 levels"
    assert codes(ended) == ["R12", "R17", "W13", "R17", "W13"]
    assert ended.out[-1].startswith("stdin:49: Deployment web: W13 ")
    assert ended.err == [
        "2 workloads for Windows, Kubernetes 1.37: 5 findings (3 Error, 2 Warning); 1 workload for Linux "
        "skipped; 3 faults in documents",
        f"{NEEDS}; {UNREAD}.",
    ]


def test_a_file_that_is_no_text_is_named_and_the_rest_is_audited(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    (tmp_path / "b.yaml").write_text(CLEAN)
    ended = plugin("audit", "-f", ".")
    assert (ended.code, ended.out) == (1, ["a.yaml:1: not UTF-8 at byte 1"])
    assert ended.err[0].startswith("1 workload for Windows, ")


def test_what_has_no_kind_is_named_with_its_place(plugin: Plugin) -> None:
    ended = audited(plugin, f"{CLEAN}---\n- a\n---\nmetadata: {{name: b}}\n---\nkind: Whatever\n")
    assert ended.err[:2] == [
        "stdin:21: document 2: no object of Kubernetes: kind is not set",
        "stdin:23: document 3 (b): no object of Kubernetes: kind is not set",
    ]
    assert ended.err[-1] == f"{NEEDS}; 1 object without pods that it can find (Whatever)."


def test_rules_that_are_ignored_are_counted(plugin: Plugin) -> None:
    ended = audited(plugin, WEB, "--ignore", "r17, W34")
    assert (ended.code, codes(ended)) == (0, ["W13"])
    assert ended.err[0].endswith("1 finding (1 Warning); 1 ignored (R17: 1)")


def test_an_annotation_ignores_rules_and_what_it_says_besides_is_named(plugin: Plugin) -> None:
    annotation = '  annotations: {winpool.dev/audit-ignore: "W13: only a cache; R99: no such rule; W0: x"}\n'
    ended = audited(plugin, WEB.replace("  name: web\n", f"  name: web\n{annotation}"))
    assert (ended.code, codes(ended)) == (3, ["R17"])
    assert ended.err[0] == (
        "stdin:1: Deployment web: 'R99: no such rule' and 1 more in the annotation winpool.dev/audit-ignore: "
        "names no rule: write CODE: REASON"
    )
    assert ended.err[1].endswith("; 1 ignored (W13: 1)")


def test_a_pod_with_hundreds_of_containers_is_not_judged_in_silence(plugin: Plugin) -> None:
    def pod(number: int) -> str:
        containers = [{"name": f"c{each}", "securityContext": {"privileged": True}} for each in range(number)]
        spec = {"os": {"name": "windows"}, "containers": containers}
        return json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})

    assert audited(plugin, pod(MOST_CONTAINERS)).code == 3
    ended = audited(plugin, pod(MOST_CONTAINERS + 1))
    assert (ended.code, ended.out) == (
        1,
        ["stdin:1: Pod p: not judged: it has more than 200 containers"],
    )


IGNORED = "# winpool.dev/audit-ignore: "


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("          medium: Memory", f"          medium: Memory {IGNORED}W13: only a cache"),
        ("          medium: Memory", f"          {IGNORED}W13: only a cache\n          medium: Memory"),
        ("        emptyDir:", f"{IGNORED}W34, W13: only a cache\n\n  # more\n        emptyDir:"),
        ("      - name: cache", f"      {IGNORED}W13\n      - name: cache"),
        ("      volumes:", f"      volumes: {IGNORED}W13: a; W34: b"),
        ("    spec:", f"    {IGNORED}W13: a\n    {IGNORED}W34: b\n    spec:"),
        ("apiVersion: apps/v1", f"{IGNORED}W13: a\n\n# web\napiVersion: apps/v1"),
        ("apiVersion: apps/v1", f"apiVersion: apps/v1  {IGNORED}W13: a"),
        ("apiVersion: apps/v1", f"--- {IGNORED}W13: a\napiVersion: apps/v1"),
    ],
)
def test_a_comment_ignores_rules_for_a_field_and_all_below_it(
    plugin: Plugin, before: str, after: str
) -> None:
    assert before in WEB
    for text in (WEB.replace(before, after), f"{LINUX}---\na: [\n---\n{WEB.replace(before, after)}"):
        ended = audited(plugin, text)
        assert codes(ended) == ["R17"]
        assert "; 1 ignored (W13: 1)" in ended.err[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("          privileged: false", f"          {IGNORED}W13: a\n          privileged: false"),
        ("          medium: Memory", f"          medium: Memory\n          {IGNORED}W13: a"),
        ("        image: iis", f"        image: 'iis {IGNORED}W13: a'"),
        ("  name: web", f"  name: web\n  labels:\n    a: |\n      {IGNORED}W13: a\n    b: c"),
        ("          medium: Memory", "          medium: Memory # winpool.dev/other: W13: a"),
        ("          medium: Memory", "          medium: Memory # see winpool.dev/audit-ignore: W13: a"),
        ("          medium: Memory", f"          medium: Memory\n---\n{IGNORED}W13: a\n{PLAIN}"),
        ("apiVersion: apps/v1", f"a: |\n  b\n  {IGNORED}W13: a\n---\napiVersion: apps/v1"),
        ("apiVersion: apps/v1", f"a: [\n---\na: |\n  {IGNORED}W13: a\n---\napiVersion: apps/v1"),
    ],
)
def test_a_comment_elsewhere_ignores_nothing(plugin: Plugin, before: str, after: str) -> None:
    assert before in WEB
    ended = audited(plugin, WEB.replace(before, after))
    assert codes(ended) == ["R17", "W13"]
    assert "ignored" not in ended.err[0]


def test_a_comment_that_names_no_rule_is_told(plugin: Plugin) -> None:
    text = WEB.replace("      volumes:", f"      {IGNORED}W13: a; X9: b\n      {IGNORED}all\n      volumes:")
    ended = audited(plugin, text.replace("kind: Deployment", "kind: Deployment # winpool.dev/audit-ignore"))
    assert codes(ended) == ["R17"]
    assert ended.err[:3] == [
        f"stdin:{line}: {said!r} in the comment winpool.dev/audit-ignore names no rule: write CODE: REASON"
        for line, said in ((2, ""), (16, "X9: b"), (17, "all"))
    ]


def test_a_comment_is_for_one_item_of_a_list(plugin: Plugin) -> None:
    items = [f"- {WEB}".replace("\n", "\n  ").rstrip() for _ in range(3)]
    items[1] = f"{IGNORED}W13: a\n{items[1]}"
    ended = audited(plugin, "kind: List\nitems:\n" + "\n".join(items))
    assert codes(ended) == ["R17", "W13", "R17", "R17", "W13"]


def test_a_comment_above_a_list_is_for_all_its_items_and_told_once(plugin: Plugin) -> None:
    items = "".join(f"- {WEB}".replace("\n", "\n  ").rstrip() + "\n" for _ in range(2))
    for before in (
        f"{IGNORED}W13: a\nkind: List\nitems:\n",
        f"apiVersion: v1\n{IGNORED}W13: a\nkind: List\nitems:\n",
        f"kind: List\nitems: {IGNORED}W13: a\n",
        f"kind: Service\n{IGNORED}W13: a\n---\nkind: List\nitems:\n",
    ):
        ended = audited(plugin, f"{before}{items}---\n{WEB}")
        assert codes(ended) == ["R17", "R17", "R17", "W13"]
        assert "; 2 ignored (W13: 2)" in ended.err[0]
    ended = audited(plugin, f"{IGNORED}W13: a; X9\nkind: List\nitems:\n{items}")
    assert [line for line in ended.err if "names no rule" in line] == [
        "stdin:1: 'X9' in the comment winpool.dev/audit-ignore names no rule: write CODE: REASON"
    ]


@pytest.mark.parametrize("fault", ["", "---\na: [\n"])
def test_a_comment_before_the_dashes_is_for_the_document_after_them(plugin: Plugin, fault: str) -> None:
    for text in (
        f"{WEB}{fault}{IGNORED}W13: a\n---\n# web\n{WEB}",
        f"{json.dumps(safe_load(WEB))}\n{fault}{IGNORED}W13: a\n---\n{WEB}",
    ):
        ended = audited(plugin, text)
        assert codes(ended) == ["R17", "W13", "R17"]
        assert "; 1 ignored (W13: 1)" in ended.err[0]


@pytest.mark.slow
def test_a_file_of_comments_is_read_once(plugin: Plugin) -> None:
    lines = f"{IGNORED}W34: a\n" * 20_000
    ended = audited(plugin, WEB.replace("      volumes:", f"{lines}      volumes:"))
    assert codes(ended) == ["R17", "W13"]


def test_what_is_below_the_severity_is_counted_and_an_error_counts_in_any_case(plugin: Plugin) -> None:
    ended = audited(plugin, WEB, "--min-severity", "Error")
    assert (ended.code, codes(ended)) == (3, ["R17"])
    assert ended.err[0].endswith("1 finding (1 Error); 1 below --min-severity (W13: 1)")


def test_what_works_and_is_only_to_be_known_is_counted_unless_it_is_asked_for(plugin: Plugin) -> None:
    text = CLEAN.replace("memory: 1Gi", "memory: 1Gi, cpu: 1")
    ended = audited(plugin, text)
    assert (ended.code, ended.out) == (0, [])
    assert ended.err[0].endswith(": 0 findings; 1 below --min-severity (W37: 1)")
    assert codes(audited(plugin, text, "--min-severity", "Info")) == ["W37"]


def test_the_outcome_is_that_of_the_api_server_that_is_asked_about(plugin: Plugin) -> None:
    text = CLEAN.replace("      os:", "      hostUsers: true\n      os:")
    for minor, code, word in (("1.32", 0, "drops it"), ("1.33", 3, "refuses the pods"), ("v1.36.3", 3, "")):
        ended = audited(plugin, text, "--kubernetes", minor)
        assert ended.code == code
        assert word in ended.out[0]


def test_an_api_server_that_is_newer_than_the_rules_is_judged_as_the_newest_known(plugin: Plugin) -> None:
    ended = audited(plugin, WEB, "--kubernetes", "1.99")
    assert ended.code == 3
    assert ended.err[0] == "Kubernetes 1.99 is newer than the rules: judged as 1.37"


def test_a_runtime_class_in_the_files_says_the_os(plugin: Plugin) -> None:
    text = (
        "kind: RuntimeClass\nmetadata: {name: win}\n"
        "scheduling: {nodeSelector: {kubernetes.io/os: windows}}\n---\n"
        + PLAIN.replace("{containers", "{runtimeClassName: win, hostPID: true, containers")
    )
    ended = audited(plugin, text)
    assert codes(ended) == ["P5", "R12", "W34"]
    assert "The pods are for Windows by the RuntimeClass win." in ended.out[0]
    assert ended.err[-1] == f"{NEEDS}."


def test_for_programs_there_is_json(plugin: Plugin) -> None:
    ended = audited(plugin, f"{WEB}---\na: [\n---\n{PLAIN}", "-o", "json", "--ignore", "W13")
    assert (ended.code, ended.err) == (3, [])
    report = json.loads("\n".join(ended.out))
    [found] = report.pop("findings")
    assert found["sources"]
    keys = ("file", "line", "kind", "name", "code", "severity", "outcome")
    assert [found[key] for key in keys] == ["stdin", 15, "Deployment", "web", "R17", "Error", "refused"]
    assert found["field"] == "spec.template.spec.containers[0].securityContext.privileged"
    assert found["evidence"] == "spec.os.name"
    assert report["kubernetesVersion"] == "1.37"
    assert report["ignored"] == {"W13": 1}
    assert report["workloads"] == {"windows": 1, "linux": 0, "unknown": 1}
    assert len(report["unread"]) == 1
    assert report["notJudged"].endswith(f"; {UNREAD}.")


def test_for_code_scanners_there_is_sarif(plugin: Plugin, tmp_path: Path) -> None:
    commented = f"          {IGNORED}W13: only a cache\n          medium: Memory"
    annotated = "name: web\n  annotations: {winpool.dev/audit-ignore: 'R17: a chart'}"
    ignoring = WEB.replace("          medium: Memory", commented).replace("name: web", annotated)
    (tmp_path / "my app.yaml").write_text(f"{WEB}---\n{ignoring}---\na: [\n")
    ended = plugin("audit", "-f", "my app.yaml", "-o", "sarif", "--ignore", "W34")
    assert (ended.code, ended.err) == (3, [])
    log = json.loads("\n".join(ended.out))
    assert validation_errors(log) == []
    [run] = log["runs"]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["R17", "W13"]
    assert [
        (
            each["ruleId"],
            each["ruleIndex"],
            each["level"],
            each["locations"][0]["physicalLocation"]["region"]["startLine"],
            each.get("suppressions"),
        )
        for each in run["results"]
    ] == [
        ("R17", 0, "error", 15, None),
        ("W13", 1, "warning", 19, None),
        ("R17", 0, "error", 36, [{"kind": "inSource", "justification": "a chart"}]),
        ("W13", 1, "warning", 41, [{"kind": "inSource", "justification": "only a cache"}]),
    ]
    [location] = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "my%20app.yaml"}
    [logical] = location["logicalLocations"]
    assert logical["fullyQualifiedName"].startswith("Deployment/web/spec.template.spec.containers[0].")
    [invocation] = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 3)
    told = [(each["level"], each["message"]["text"]) for each in invocation["toolExecutionNotifications"]]
    assert [level for level, _ in told] == ["error", "note"]
    assert told[1][1].startswith("Not judged: ")


NO_HOSTS = {"pool": None, "host_build": None, "image_build": None, "isolation": "process", "flags": ()}


@pytest.mark.slow
@every("case", CASES, ids=str)
def test_sarif_is_by_its_schema(case: Case) -> None:
    """Also for a file whose path is absolute, and for rules that are ignored by a flag."""
    text = json.dumps(case.found)
    for ignore in ((), (case.code,)):
        given = Namespace(kubernetes=NEWEST, ignore=ignore, min_severity=Severity.INFO, **NO_HOSTS)
        log = log_of(audited_report(documents_of("/a/b\udcff.yaml", text), given))
        assert validation_errors(log) == []
        results = log["runs"][0]["results"]
        [found] = [
            each
            for each in results
            if each["message"]["text"].startswith(f"Pod p: {case.at}: ") and each["ruleId"] == case.code
        ]
        assert bool(found.get("suppressions")) is bool(ignore)
        log["runs"][0]["results"][0]["level"] = "bad"
        assert validation_errors(log) != []


def test_a_folder_is_read_file_by_file(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "web.yaml").write_text(WEB)
    (tmp_path / "more" / "web.json").write_text(json.dumps({"kind": "Pod", "metadata": {"name": "a"}}))
    ended = plugin("audit", "-f", ".", "-R")
    assert {line.split(":")[0] for line in ended.out} == {"web.yaml"}
    assert ended.err[-1].endswith("; 1 object without pods that it can find (Pod).")


@pytest.mark.slow
def test_of_objects_that_are_not_judged_nothing_is_kept(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a folder with the CRDs of a few operators would take gigabytes."""
    monkeypatch.setattr(manifests, "_MAX_BYTES", 1024**2)  # Python takes as much to read a file
    others = {f"k{number}": "v" * 50 for number in range(400)}
    peaks = []
    for count in (1, 2, 8):  # the first loads modules
        for number in range(count):
            (tmp_path / f"{number}.json").write_text(json.dumps({"kind": "ConfigMap", "data": others}))
        tracemalloc.start()
        ended = plugin("audit", "-f", ".")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert ended.err[-1].endswith(" without pods that it can find (ConfigMap).")
    assert peaks[2] < 1.5 * peaks[1]


def test_a_name_cannot_forge_a_line(plugin: Plugin) -> None:
    ended = audited(plugin, WEB.replace("name: web", 'name: "a\\nb\\x1b[2J"'))
    assert all("\x1b" not in line for line in ended.out)
    assert len(ended.out) == 2


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_every_rule_is_explained(plugin: Plugin, code: str) -> None:
    ended = plugin("audit", "--explain", code.lower())
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0].startswith(f"{code}: ")
    titles = [line.partition(":")[0] for line in ended.out[1:]]
    assert titles[0] == "On Windows"
    for each in ("API server", "Severity", "Fix", "Known by", "Source"):
        assert each in titles


def test_an_explanation_says_since_when_and_from_where(plugin: Plugin) -> None:
    out = plugin("audit", "--explain", "R15").out
    assert "API server:  dropped from 1.25 on, refused from 1.33 on with spec.os.name: windows" in out
    assert "Severity:    Error with spec.os.name: windows, otherwise Warning" in out
    assert "Known by:    live, source" in out
    assert "API server:  accepted, and disabled from 1.33 on" in plugin("audit", "--explain", "W25").out
    assert "API server:  refused from 1.22 on" in plugin("audit", "--explain", "W8").out
    needs = "Needs:       the labels and taints of nodes; a manifest alone does not show it"
    assert needs in plugin("audit", "--explain", "P1").out
    assert "Better with: the LimitRanges" in plugin("audit", "--explain", "W34").out


def test_it_contacts_no_cluster_and_says_so(plugin: Plugin) -> None:
    ended = audited(plugin, CLEAN, "--context", "prod")
    assert ended.err[0] == "--context has no effect: no cluster is contacted"


# Hosts that the command line names


KINDS = {
    "Pod": "kind: Pod\nmetadata: {name: a}\nspec: %s",
    "PodTemplate": "kind: PodTemplate\nmetadata: {name: a}\ntemplate: {spec: %s}",
    **{
        kind: f"kind: {kind}\nmetadata: {{name: a}}\nspec: {{template: {{spec: %s}}}}"
        for kind in ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
    },
    "CronJob": "kind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: %s}}}}",
}
CLASS = (
    "kind: RuntimeClass\nmetadata: {name: old}\n"
    "scheduling: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}}\n---\n"
)
MEMORY = "resources: {limits: {memory: 1Gi}}"
APP = f"{{os: {{name: windows}}, %scontainers: [{{name: app, image: acme/app, {MEMORY}}}]}}"
SELECTED = "nodeSelector: {kubernetes.io/os: windows}, "


def found(ended: Ended) -> list[tuple[str, str]]:
    """Return code and severity of each finding."""
    lines = (re.search(r": ([A-Z]\d+) (Error|Warning|Info) ", line) for line in ended.out)
    return [(each[1], each[2]) for each in lines if each]


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_every_kind_are_judged_for_the_hosts_that_are_named(plugin: Plugin, kind: str) -> None:
    text = KINDS[kind] % (APP % SELECTED)
    ended = audited(plugin, text, "--host-build", "2025", "--image-build", "ltsc2019")
    assert (ended.code, found(ended)) == (3, [("W44", "Error")])
    assert "On 10.0.26100: An image of 10.0.17763 does not run" in ended.out[0]
    assert ended.err[-1] == f"Not judged: {OTHERS}."
    ended = audited(plugin, text, "--host-build", "2025", "--host-build", "2019", "--image-build", "2022")
    assert (ended.code, found(ended)) == (0, [("P7", "Warning")])
    ended = audited(plugin, text, "--host-build", "2025", "--image-build", "2022")
    assert (ended.code, ended.out) == (0, [])


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_every_kind_select_what_their_runtime_class_does(plugin: Plugin, kind: str) -> None:
    text = CLASS + KINDS[kind] % (APP % "runtimeClassName: old, ")
    ended = audited(plugin, text, "--host-build", "10.0.20348")
    assert (ended.code, found(ended)) == (3, [("P14", "Error")])
    assert (
        "They select node.kubernetes.io/windows-build=10.0.17763, and the Windows hosts are" in ended.out[0]
    )
    assert audited(plugin, text, "--host-build", "10.0.17763.1").code == 0


def test_the_runtime_and_the_isolation_of_the_hosts_can_be_named(plugin: Plugin) -> None:
    text = KINDS["Pod"] % (APP % SELECTED)
    old = audited(
        plugin, text, "--host-build", "2025", "--image-build", "2022", "--runtime", "containerd://1.6.22"
    )
    assert (old.code, found(old)) == (3, [("W44", "Error")])
    hyper_v = audited(plugin, text, "--host-build", "2025", "--image-build", "2019", "--isolation", "hyperv")
    assert (hyper_v.code, found(hyper_v)) == (0, [("W44", "Warning")])


def test_images_of_which_nothing_is_known_are_named(plugin: Plugin) -> None:
    ended = audited(plugin, KINDS["Pod"] % (APP % SELECTED), "--host-build", "2025")
    assert (ended.code, ended.out) == (0, [])
    assert ended.err[-1].endswith(
        "; whether hosts run the images of 1 workload (Pod a): nothing says the Windows version of acme/app: "
        "use --image-build or the annotation winpool.dev/windows-build."
    )


def test_images_are_judged_also_where_nothing_says_the_os_if_someone_says_their_build(plugin: Plugin) -> None:
    ended = audited(plugin, PLAIN, "--host-build", "2019", "--image-build", "2022")
    assert (ended.code, found(ended)) == (3, [("W44", "Error")])
    assert audited(plugin, PLAIN, "--host-build", "2025", "--image-build", "2022").code == 0
    assert audited(plugin, PLAIN, "--host-build", "2025").code == 1


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--host-build", "2022", "--pool", "a"), "not allowed with argument"),
        (("--host-build", "new"), "'new' is not a Windows version: write it as 10.0.20348, 20348 or 2022"),
        (("--host-build", "20348.3932.250714"), "'20348.3932.250714' is not a Windows version"),
        (("--image-build", "new"), "'new' is not a Windows version"),
        (("--pool", "node/a"), "'node/a' is not the name of a pool: write NAME or wnp/NAME"),
        (("--pool", "a", "--runtime", "containerd://2.0.0"), "--runtime needs --host-build"),
        (("-A",), "-f reads files, KIND/NAME and -A the cluster: use one of them"),
        (("deploy/web",), "-f reads files, KIND/NAME and -A the cluster: use one of them"),
        (("-f", "missing.yaml"), "missing.yaml: No such file or directory"),
        (("-f", "https://example.com/a.yaml"), "URLs are not supported"),
    ],
)
def test_what_makes_no_sense_ends_with_2(plugin: Plugin, more: tuple[str, ...], word: str) -> None:
    ended = audited(plugin, PLAIN, *more)
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("10.0.20348.1607", "10.0.20348.1607"),
        ("10.0.22631", "10.0.22631"),
        ("20348", "10.0.20348"),
        ("28000", "10.0.28000"),
        ("2022", "10.0.20348"),
        ("Windows Server 2025", "10.0.26100"),
        ("ltsc2019", "10.0.17763"),
        ("latest", None),
        ("", None),
    ],
)
def test_a_host_can_be_named_as_people_name_it(text: str, version: str | None) -> None:
    assert version_named(text, matrix=built_in()) == version
