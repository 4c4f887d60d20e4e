"""``check``: pods of manifests against hosts of a Windows, without a cluster and without a registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import a_node
from harness.every import every
from winpool.cli.lenient import Fields
from winpool.cli.reader import Nodes
from winpool.cli.workloads import Host, version_named, workload_of
from winpool.model.node import NodeVersions
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from pathlib import Path

    from unit.cli.conftest import Ended, Plugin

PODS = {
    "Pod": "kind: Pod\nmetadata: {name: a}\nspec: %s",
    "PodTemplate": "kind: PodTemplate\nmetadata: {name: a}\ntemplate: {spec: %s}",
    **{
        kind: f"kind: {kind}\nmetadata: {{name: a}}\nspec: {{template: {{spec: %s}}}}"
        for kind in (
            "Deployment",
            "ReplicaSet",
            "ReplicationController",
            "StatefulSet",
            "DaemonSet",
            "Job",
        )
    },
    "CronJob": "kind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: %s}}}}",
}
APP = "{containers: [{name: app, image: acme/app}]}"


def pod(spec: str = "", *, annotation: str = "", image: str = "acme/app", more: str = "") -> str:
    declared = f", annotations: {{winpool.dev/windows-build: {annotation}}}" if annotation else ""
    containers = f"[{{name: app, image: '{image}'{more}}}]"
    return f"kind: Pod\nmetadata: {{name: a{declared}}}\nspec: {{{spec}containers: {containers}}}\n"


def checked(plugin: Plugin, text: str, *more: str, host: str = "10.0.26100.32995") -> Ended:
    return plugin("check", "-f", "-", "--host-build", host, *more, stdin=text)


def verdict(ended: Ended) -> str:
    """Return the verdict of the only line."""
    (line,) = ended.out
    return line.split(": ")[2]


@pytest.mark.parametrize("kind", PODS)
def test_the_pods_of_every_kind_are_found(plugin: Plugin, kind: str) -> None:
    ended = checked(plugin, PODS[kind] % APP, "--image-build", "17763")
    assert ended.code == 1
    assert ended.out[0].startswith(f"stdin:1: {kind} a, container app on 10.0.26100.32995: Unsupported: ")


@pytest.mark.parametrize(
    ("host", "image", "code", "said"),
    [
        ("10.0.26100.32995", "10.0.20348", 0, "Supported"),
        ("10.0.26100.32995", "10.0.17763", 1, "Unsupported"),
        ("10.0.20348.1607", "10.0.20348", 0, "Supported"),
        ("10.0.20348.1607", "10.0.26100", 1, "Unsupported"),
        ("10.0.17763.2452", "10.0.17763.2452", 0, "Supported"),
        ("10.0.17763.2452", "10.0.17763", 0, "Unknown"),
        ("10.0.26100.4000", "10.0.26100.4061", 0, "Warned"),
        ("10.0.28000.1", "10.0.26100", 0, "Unknown"),
    ],
)
def test_what_a_pod_declares_is_judged_by_the_rules_for_hosts(
    plugin: Plugin, host: str, image: str, code: int, said: str
) -> None:
    ended = checked(plugin, pod(annotation=image), host=host)
    assert (ended.code, verdict(ended)) == (code, said)
    assert f"The image is for {image}, according to the annotation winpool.dev/windows-build." in ended.out[0]


SELECTOR = "nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}, "
AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: node.kubernetes.io/windows-build, operator: In, "
    "values: [10.0.26100, 10.0.20348]}]}]}}}, "
)


def test_a_pod_declares_by_what_it_asks_of_nodes_the_oldest_of_several(plugin: Plugin) -> None:
    for host, spec in (("10.0.20348.1607", SELECTOR), ("10.0.26100.32995", AFFINITY)):
        ended = checked(plugin, pod(spec), host=host)
        assert (ended.code, verdict(ended)) == (0, "Supported")
        assert (
            "The image is for 10.0.20348, according to the build that the pod selects by "
            "node.kubernetes.io/windows-build." in ended.out[0]
        )


def test_a_term_without_a_build_lets_a_pod_go_anywhere(plugin: Plugin) -> None:
    other = "[{matchExpressions: [{key: disk, operator: Exists}]}, {matchExpressions: "
    ended = checked(plugin, pod(AFFINITY.replace("[{matchExpressions: ", other, 1)), host="10.0.17763.1")
    assert verdict(ended) == "Unknown"
    assert "not scheduled" not in ended.out[0]


def test_a_host_that_a_pod_does_not_ask_for_does_not_count(plugin: Plugin) -> None:
    both = ("--host-build", "10.0.17763.2452", "--host-build", "10.0.20348.1607")
    ended = plugin("check", "-f", "-", *both, stdin=pod(SELECTOR))
    assert ended.code == 0
    assert [line.split(": ")[2] for line in ended.out] == ["Unsupported", "Supported"]
    assert ended.out[0].endswith("The pod is not scheduled there: it selects 10.0.20348.")
    ended = checked(plugin, pod(SELECTOR))
    assert ended.code == 1
    assert ended.out[-1] == "stdin:1: Pod a: selects 10.0.20348, and none of these hosts has it"


CLASS = "kind: RuntimeClass\nmetadata: {name: old}\nscheduling: {nodeSelector: {%s}}\n---\n"
OLD = CLASS % "node.kubernetes.io/windows-build: 10.0.17763"
OF_CLASS = "{runtimeClassName: old, containers: [{name: app, image: acme/app}]}"


@every("kind", PODS)
def test_a_pod_of_every_kind_selects_what_its_runtime_class_does(plugin: Plugin, kind: str) -> None:
    ended = checked(plugin, OLD + PODS[kind] % OF_CLASS, host="10.0.20348")
    assert (ended.code, ended.err) == (1, [])
    assert "according to the build that the RuntimeClass old selects by node.kubernetes.io" in ended.out[0]
    assert ended.out[1] == f"stdin:5: {kind} a: selects 10.0.17763, and none of these hosts has it"


def test_a_pod_that_selects_another_build_than_its_runtime_class_is_refused(plugin: Plugin) -> None:
    ended = checked(plugin, OLD + pod(f"runtimeClassName: old, {SELECTOR}"), host="10.0.20348")
    assert (ended.code, ended.out) == (
        1,
        [
            "stdin:5: Pod a: the API server refuses the pod: it selects "
            "node.kubernetes.io/windows-build=10.0.20348, and its RuntimeClass old selects "
            "node.kubernetes.io/windows-build=10.0.17763"
        ],
    )


def test_a_runtime_class_can_say_that_its_pods_are_for_linux(plugin: Plugin) -> None:
    ended = checked(plugin, CLASS % "kubernetes.io/os: linux" + pod("runtimeClassName: old, "))
    assert ended.err == ["stdin:5: Pod a: skipped, it is for Linux"]


def test_a_runtime_class_that_is_not_in_the_files_is_named(plugin: Plugin) -> None:
    ended = checked(plugin, pod("runtimeClassName: old, "))
    assert (ended.code, verdict(ended)) == (0, "Unknown")
    assert ended.err == [
        "stdin:1: Pod a: the RuntimeClass old is not in these files, so it is unknown which nodes it selects"
    ]


def test_with_a_pool_a_runtime_class_that_is_not_in_the_files_is_read_from_the_cluster(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = a_node("w1", versions=NodeVersions(kernel="10.0.20348.4052"))
    (found,) = yaml.safe_load_all(OLD.removesuffix("---\n"))
    monkeypatch.setattr("winpool.cli.reader.read_members", lambda *_: Nodes((node,), ()))
    monkeypatch.setattr("winpool.cli.reader.read_runtime_classes", lambda *_: (Fields.of(found),))
    ended = plugin("check", "-f", "-", "--pool", "win", stdin=PODS["Pod"] % OF_CLASS)
    assert (ended.code, ended.err) == (1, [])
    assert ended.out[-1] == "stdin:1: Pod a: selects 10.0.17763, and none of these hosts has it"
    ended = plugin("check", "-f", "-", "--pool", "win", stdin=pod("runtimeClassName: new, "))
    assert (ended.code, len(ended.err)) == (0, 1)
    assert "the RuntimeClass new is not in these files or the cluster, so" in ended.err[0]


def test_a_build_that_is_given_is_taken_for_what_the_pod_declares(plugin: Plugin) -> None:
    ended = checked(plugin, pod(annotation="10.0.20348"), "--image-build", "ltsc2019")
    assert (ended.code, verdict(ended)) == (1, "Unsupported")
    assert "The image is for 10.0.17763, according to --image-build." in ended.out[0]


def test_a_tag_is_a_guess_that_warns_and_never_refuses(plugin: Plugin) -> None:
    ended = checked(plugin, pod(image="acme/app:1.0-ltsc2019"))
    assert (ended.code, verdict(ended)) == (0, "Warned")
    assert "This is a guess: a tag can be wrong." in ended.out[0]
    ended = checked(plugin, pod(image="acme/app:1.0-ltsc2022"))
    assert (ended.code, verdict(ended)) == (0, "Supported")


def test_of_an_image_that_says_nothing_nothing_is_known(plugin: Plugin) -> None:
    ended = checked(plugin, pod(image="acme/app:1.0"))
    assert (ended.code, verdict(ended)) == (0, "Unknown")
    assert "Set the annotation winpool.dev/windows-build of the pod, or use --image-build" in ended.out[0]


@pytest.mark.parametrize("place", ["pod", "container"])
def test_a_host_process_container_may_have_any_image(plugin: Plugin, place: str) -> None:
    options = "securityContext: {windowsOptions: {hostProcess: true}}"
    text = pod(f"{options}, ") if place == "pod" else pod(more=f", {options}")
    ended = checked(plugin, text, "--runtime", "containerd://1.7.24")
    assert (ended.code, verdict(ended)) == (0, "Supported")
    assert checked(plugin, text, "--runtime", "containerd://1.5.9").code == 1


def test_the_runtime_and_the_isolation_count(plugin: Plugin) -> None:
    text = pod(annotation="10.0.20348")
    assert verdict(checked(plugin, text, "--runtime", "containerd://1.6.22")) == "Unsupported"
    ended = checked(plugin, pod(annotation="10.0.17763"), "--isolation", "hyperv")
    assert (ended.code, verdict(ended)) == (0, "Warned")
    assert "does not support Hyper-V isolation" in ended.out[0]


def test_init_containers_are_checked_too(plugin: Plugin) -> None:
    text = pod("initContainers: [{name: first, image: 'acme/first:ltsc2022'}], ", image="acme/app:ltsc2025")
    ended = checked(plugin, text)
    assert [line.split(", ")[1].split(" on ")[0] for line in ended.out] == [
        "container first",
        "container app",
    ]


def test_what_is_for_linux_or_makes_no_pods_is_passed_over(plugin: Plugin) -> None:
    linux = pod("nodeSelector: {kubernetes.io/os: linux}, "), pod("os: {name: linux}, ")
    text = "---\n".join((*linux, "kind: Service\nmetadata: {name: s}\n"))
    ended = checked(plugin, text)
    assert (ended.code, ended.out) == (1, ["no pods for Windows found"])
    assert [line.rpartition(": ")[2] for line in ended.err] == [
        "skipped, it is for Linux",
        "skipped, it is for Linux",
        "skipped, it creates no pods",
    ]


def test_a_document_that_cannot_be_read_is_refused(plugin: Plugin) -> None:
    ended = checked(plugin, pod(annotation="10.0.20348") + "---\na: [\n")
    assert ended.code == 1
    assert ended.out[0].split(": ")[2] == "Supported"
    assert ended.out[1].startswith("stdin:")
    assert checked(plugin, pod(annotation="10.0.20348") + "kind: Pod\n").code == 1


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("-f", "-"), "one of the arguments --host-build --pool is required"),
        (("--host-build", "2022"), "the following arguments are required: -f"),
        (("-f", "-", "--host-build", "2022", "--pool", "a"), "not allowed with argument"),
        (
            ("-f", "-", "--host-build", "new"),
            "'new' is not a Windows version: write it as 10.0.20348, 20348 or 2022",
        ),
        (("-f", "-", "--host-build", "20348.3932.250714"), "'20348.3932.250714' is not a Windows version"),
        (("-f", "-", "--host-build", "2022", "--image-build", "new"), "'new' is not a Windows version"),
        (("-f", "-", "--pool", "node/a"), "'node/a' is not the name of a pool: write NAME or wnp/NAME"),
        (("-f", "-", "--pool", "a", "--runtime", "containerd://2.0.0"), "--runtime needs --host-build"),
        (("-f", "missing.yaml", "--host-build", "2022"), "missing.yaml: No such file or directory"),
        (("-f", "https://example.com/a.yaml", "--host-build", "2022"), "URLs are not supported"),
    ],
)
def test_what_cannot_be_done_ends_with_2(plugin: Plugin, more: tuple[str, ...], word: str) -> None:
    ended = plugin("check", *more, stdin=pod())
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


def test_flags_for_a_cluster_that_is_not_asked_are_taken_and_said_to_have_no_effect(plugin: Plugin) -> None:
    asked = ("check", "-f", "-", "--host-build", "2022", "--context", "a")
    ended = plugin(*asked, stdin=pod(annotation="10.0.20348"))
    assert ended.code == 0
    assert ended.err == ["--context has no effect: without --pool no cluster is contacted"]


def test_a_folder_is_read(plugin: Plugin, tmp_path: Path) -> None:
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "a.yaml").write_text(pod(annotation="10.0.17763"))
    (folder / "b.txt").write_text("no manifest")
    ended = plugin("check", "-f", "apps", "--host-build", "2025")
    assert ended.code == 1
    assert ended.out[0].startswith("apps/a.yaml:1: Pod a, container app on 10.0.26100: Unsupported: ")


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(["Pod", "Deployment", "CronJob"]), JSON, JSON, JSON)
def test_no_object_fails(kind: str, spec: Any, containers: Any, affinity: Any) -> None:
    inner = {
        "containers": containers,
        "nodeSelector": spec,
        "affinity": {"nodeAffinity": affinity},
        "os": spec,
    }
    for content in (spec, {"kind": kind, "spec": spec}, {"kind": "Pod", "metadata": spec, "spec": inner}):
        found = workload_of(content, {})
        assert found is None or isinstance(found.containers, tuple)


def test_the_build_of_what_is_no_windows_is_empty() -> None:
    assert Host("6.1.0-13-amd64").build_text == ""
    assert Host("10.0.20348.1607").build_text == "10.0.20348"


def test_a_text_of_a_manifest_or_a_node_cannot_move_the_cursor(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "w\x1b[2J\u202e"
    node = a_node(evil, versions=NodeVersions(kernel="10.0.20348.4052", runtime=evil))
    found = Nodes((node,), (f"node {evil}: broken",))
    monkeypatch.setattr("winpool.cli.reader.read_members", lambda *_, **__: found)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": evil},
        "spec": {"containers": [{"name": evil, "image": evil}]},
    }
    ended = plugin("check", "-f", "-", "--pool", "win-2022", stdin=json.dumps(pod))
    assert ended.out
    assert ended.err
    assert all(line.isprintable() for line in (*ended.out, *ended.err))
