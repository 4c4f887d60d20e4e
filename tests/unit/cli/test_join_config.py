"""``join-config`` from a pool to the settings of a kubelet, its notes and its exit code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from winpool.api.fields import is_restricted_label
from winpool.api.quantity import bytes_of
from winpool.api.spec import ReservedMemory, WindowsNodePoolSpec
from winpool.cli.join_config import OUTPUTS, KubeletSettings, flags, settings_of
from winpool.support.versions import Minor

if TYPE_CHECKING:
    from unit.cli.conftest import Ended, Plugin

HEAD = "apiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\n"
POOL = f"""{HEAD}metadata: {{name: win-2022}}
spec:
  nodeSelector: {{matchLabels: {{agentpool: win22, kubernetes.io/os: windows}}}}
  os: {{version: "2022"}}
  labels: {{team: payments}}
  taints:
  - {{key: os, value: windows, effect: NoSchedule}}
  - {{key: example.com/new, effect: PreferNoSchedule}}
"""
RESERVED = "  reservedMemory: {kubeReserved: 512Mi}\n"
SMALLEST: dict[str, Any] = {"nodeSelector": {"matchLabels": {"agentpool": "a"}}, "os": {"version": "2022"}}
NEW = Minor(1, 34)


def asked(plugin: Plugin, *more: str, pool: str = POOL + RESERVED, version: str = "1.34") -> Ended:
    """Run the verb on a pool that is piped in."""
    return plugin("join-config", "win-2022", "-f", "-", "--kubelet-version", version, *more, stdin=pool)


def commented(ended: Ended) -> str:
    """Return what the comments of a file say, without their line breaks."""
    return " ".join(line.removeprefix("# ") for line in ended.out if line.startswith("#"))


def settings(*, version: Minor = NEW, reserved: ReservedMemory | None = None, **spec: Any) -> KubeletSettings:
    whole = WindowsNodePoolSpec.model_validate({**SMALLEST, **spec})
    return settings_of(
        whole.model_copy(update={"reserved_memory": reserved}), pool="win-2022", kubelet=version
    )


def test_the_file_is_a_kubelet_configuration_with_all_that_the_pool_says(plugin: Plugin) -> None:
    ended = asked(plugin)
    assert (ended.code, ended.err) == (0, [])
    assert yaml.safe_load("\n".join(ended.out)) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "systemReserved": {"memory": "2Gi"},
        "kubeReserved": {"memory": "512Mi"},
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%"},
        "registerNode": True,
        "registerWithTaints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "example.com/new", "value": "", "effect": "PreferNoSchedule"},
        ],
    }
    assert max(map(len, ended.out)) <= 100
    assert ended.out[-1] == "#   --node-labels=agentpool=win22,team=payments"


def test_help_fits_a_terminal(plugin: Plugin) -> None:
    ended = plugin("join-config", "--help")
    assert (ended.code, ended.err) == (0, [])
    assert max(map(len, ended.out)) <= 80
    assert "examples:" in ended.out


def test_the_file_tells_what_is_different_on_windows(plugin: Plugin) -> None:
    comments = commented(asked(plugin))
    for said in (
        "Windows has no cgroups",
        "protect nothing by themselves",
        "memory limits of pods equal to their requests",
        "sets all others to zero",
        "Do not add the startupTaints of the pool: the operator adds and removes them",
        "--config-dir",
        "3060Mi (systemReserved 2Gi + kubeReserved 512Mi + evictionHard 500Mi)",
    ):
        assert said in comments


def test_flags_are_arguments_one_a_line_and_nothing_else(plugin: Plugin) -> None:
    ended = asked(plugin, "-o", "flags")
    assert (ended.code, ended.err) == (0, [])
    assert ended.out == [
        "--cgroups-per-qos=false",
        "--enforce-node-allocatable=",
        "--system-reserved=memory=2Gi",
        "--kube-reserved=memory=512Mi",
        "--eviction-hard=memory.available<500Mi,nodefs.available<10%,imagefs.available<15%",
        "--register-node=true",
        "--register-with-taints=os=windows:NoSchedule,example.com/new:PreferNoSchedule",
        "--node-labels=agentpool=win22,team=payments",
    ]


def test_powershell_writes_the_same_file(plugin: Plugin) -> None:
    file = "\n".join(asked(plugin).out)
    script = "\n".join(asked(plugin, "-o", "powershell").out)
    found = re.search(r"\$content = @'\n(.*?)\n'@\n", script, re.DOTALL)
    assert found is not None
    assert found[1] == file
    assert r"$file = 'C:\var\lib\kubelet\kubelet.conf.d\90-winpool-win-2022.conf'" in script
    assert r"Write-Host '  --config-dir=C:\var\lib\kubelet\kubelet.conf.d'" in script
    assert "Write-Host '  --node-labels=agentpool=win22,team=payments'" in script
    # Outside of the file every quote is closed on its line.
    assert all(line.count("'") % 2 == 0 for line in script.replace(found[0], "").splitlines())


def test_a_kubelet_before_1_31_is_told_that_it_evicts_nobody(plugin: Plugin) -> None:
    """It takes the threshold off Allocatable, so without it the node would hold back less than declared."""
    ended = asked(plugin, version="1.30")
    assert ended.code == 0
    assert ended.err == [
        "a kubelet 1.30 subtracts memory.available from Allocatable, but evicts no pod on Windows because of "
        "it: kubelets do that since 1.31"
    ]
    assert yaml.safe_load("\n".join(ended.out))["evictionHard"]["memory.available"] == "500Mi"
    assert "A kubelet before 1.31 subtracts memory.available" in commented(ended)
    assert "A kubelet before 1.31 subtracts memory.available" not in commented(asked(plugin, version="1.31"))


def test_a_kubelet_before_1_30_has_no_folder(plugin: Plugin) -> None:
    assert "--config-dir" not in "\n".join(asked(plugin, version="1.29").out)
    script = "\n".join(asked(plugin, "-o", "powershell", version="1.29").out)
    assert "--config-dir" not in script
    assert "reads one file: merge this file into the one that --config names" in script


@pytest.mark.parametrize("version", ["1.34", "v1.34.2-eks-fb459a0", "1.34+"])
def test_a_version_is_read_in_the_forms_that_nodes_report(plugin: Plugin, version: str) -> None:
    assert "Kubernetes 1.34." in " ".join(asked(plugin, version=version).out)


def test_a_threshold_of_zero_is_not_named_since_no_kubelet_takes_it(plugin: Plugin) -> None:
    ended = asked(plugin, pool=f"{POOL}  reservedMemory: {{evictionHard: 0}}\n", version="1.30")
    assert (ended.code, ended.err) == (0, [])
    thresholds = {"nodefs.available": "10%", "imagefs.available": "15%"}
    assert yaml.safe_load("\n".join(ended.out))["evictionHard"] == thresholds


def test_a_pool_that_declares_nothing_says_nothing_about_memory(plugin: Plugin) -> None:
    ended = asked(plugin, pool=POOL)
    assert ended.code == 0
    assert ended.err[0].startswith("the pool declares no reservedMemory")
    content = yaml.safe_load("\n".join(ended.out))
    assert content.keys().isdisjoint({"systemReserved", "kubeReserved", "evictionHard"})
    assert "registerWithTaints" in content


@pytest.mark.parametrize("minor", ["1.14", "1.22"])
def test_flags_are_there_for_kubelets_whose_file_cannot_have_all_of_it(plugin: Plugin, minor: str) -> None:
    ended = asked(plugin, "-o", "flags", version=minor)
    assert ended.code == 0
    assert "--register-with-taints=os=windows:NoSchedule,example.com/new:PreferNoSchedule" in ended.out
    assert "--cgroups-per-qos=false" in ended.out


@pytest.mark.parametrize(
    ("minor", "said"),
    [
        ("1.30", "With other values a kubelet before 1.31 does not start."),
        ("1.31", "With other values the kubelet logs a warning and ignores them."),
    ],
)
def test_from_1_31_on_a_kubelet_starts_with_settings_for_cgroups(
    plugin: Plugin, minor: str, said: str
) -> None:
    """Older ones do not: https://github.com/kubernetes/kubernetes/pull/123137 ."""
    assert said in commented(asked(plugin, version=minor))


def test_a_pool_without_taints_registers_none(plugin: Plugin) -> None:
    pool = f"{HEAD}metadata: {{name: win-2022}}\nspec:\n  nodeSelector: {{matchLabels: {{a: b}}}}\n"
    ended = asked(plugin, "-o", "flags", pool=f'{pool}  os: {{version: "2022"}}\n')
    assert ended.out == ["--cgroups-per-qos=false", "--enforce-node-allocatable=", "--node-labels=a=b"]


def test_labels_that_no_kubelet_may_set_are_left_out_and_named(plugin: Plugin) -> None:
    pool = POOL.replace(
        "{team: payments}",
        "{team: payments, node-role.kubernetes.io/win: '', acme.node-restriction.kubernetes.io/pci: 'yes'}",
    )
    ended = asked(plugin, "-o", "flags", pool=pool + RESERVED)
    assert ended.out[-1] == "--node-labels=agentpool=win22,team=payments"
    assert ended.err == [
        "labels that a kubelet must not set: acme.node-restriction.kubernetes.io/pci, "
        "node-role.kubernetes.io/win; the operator adds those of spec.labels, and an admin must add those of "
        "nodeSelector"
    ]


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("agentpool", True),
        ("example.com/pool", True),
        ("karpenter.sh/nodepool", True),
        ("notkubernetes.io/x", True),
        ("node.kubernetes.io/exclude-from-external-load-balancers", True),
        ("acme.node.kubernetes.io/x", True),
        ("kubelet.kubernetes.io/x", True),
        ("topology.kubernetes.io/zone", True),
        ("kubernetes.io/hostname", True),
        ("kubernetes.io/role", False),
        ("node-role.kubernetes.io/win", False),
        ("node-restriction.kubernetes.io/x", False),
        ("acme.node-restriction.kubernetes.io/x", False),
        ("kops.k8s.io/instancegroup", False),
        ("k8s.io/x", False),
    ],
)
def test_which_labels_a_kubelet_may_set(key: str, *, allowed: bool) -> None:
    """By the error that a kubelet ends with: prefixes kubelet. and node.kubernetes.io, and a set of keys."""
    assert is_restricted_label(key) is not allowed


def test_expressions_give_a_label_where_they_leave_no_choice(plugin: Plugin) -> None:
    pool = POOL.replace(
        "{matchLabels: {agentpool: win22, kubernetes.io/os: windows}}",
        "{matchExpressions: [{key: pool, operator: In, values: [a]}, {key: tier, operator: In, "
        "values: [a, b]}, {key: gpu, operator: Exists}, {key: retired, operator: DoesNotExist}]}",
    )
    ended = asked(plugin, "-o", "flags", pool=pool + RESERVED)
    assert ended.out[-1] == "--node-labels=pool=a,team=payments"
    assert ended.err == [
        "nodeSelector also requires tier In (a, b) and gpu Exists: make sure that the nodes match"
    ]


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("-f", "-"), "-f needs --kubelet-version too"),
        (("-f", "missing.yaml", "--kubelet-version", "1.34"), "missing.yaml: No such file or directory"),
        (("-f", "https://example.com/a.yaml", "--kubelet-version", "1.34"), "URLs are not supported"),
        (("--kubelet-version", "new"), "'new' is not a Kubernetes version: write it as 1.34"),
        (("--kubelet-version", "1.13"), "'1.13' is too old: Windows nodes are stable since Kubernetes 1.14"),
        (
            ("-f", "-", "--kubelet-version", "1.22"),
            "has no registerWithTaints, which 1.23 added: use -o flags",
        ),
        (("-f", "-", "--kubelet-version", "1.22", "-o", "powershell"), "use -o flags"),
        (("-o", "json"), "invalid choice: 'json'"),
    ],
)
def test_a_command_line_without_sense_ends_with_2(plugin: Plugin, more: tuple[str, ...], word: str) -> None:
    ended = plugin("join-config", "win-2022", *more, stdin=POOL)
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


@pytest.mark.parametrize(
    "name", ["wnp/win-2022", "windowsnodepool/win-2022", "windowsnodepools.winpool.dev/win-2022"]
)
def test_the_pool_is_named_as_for_kubectl(plugin: Plugin, name: str) -> None:
    ended = plugin("join-config", name, "-f", "-", "--kubelet-version", "1.34", stdin=POOL + RESERVED)
    assert ended.out == asked(plugin).out


def test_the_pool_is_found_in_a_folder_and_with_r_in_the_folders_below(plugin: Plugin) -> None:
    Path("pools/red").mkdir(parents=True)
    Path("pools/red/a.yaml").write_text(POOL + RESERVED)
    question = ("join-config", "win-2022", "-f", "pools", "--kubelet-version", "1.34")
    assert plugin(*question, "-R").out == asked(plugin).out
    alone = plugin(*question)
    assert (alone.code, alone.err) == (1, ['there is no WindowsNodePool "win-2022" in pools'])


def test_flags_for_a_cluster_that_is_not_asked_are_taken_and_said_to_have_no_effect(plugin: Plugin) -> None:
    ended = asked(plugin, "--context", "x", "--kubeconfig", "y")
    assert ended.code == 0
    assert ended.err == ["--context and --kubeconfig have no effect: with -f no cluster is contacted"]


def test_without_kubectl_it_ends_with_1(plugin: Plugin) -> None:
    ended = plugin("join-config", "win-2022")
    assert (ended.code, ended.out) == (1, [])
    assert "kubectl cannot be started" in ended.err[-1]


def test_a_file_that_is_no_text_ends_with_1(plugin: Plugin) -> None:
    Path("pool.yaml").write_bytes(b"a: \xff")
    ended = plugin("join-config", "win-2022", "-f", "pool.yaml", "--kubelet-version", "1.34")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err == ["pool.yaml:1: not UTF-8 at byte 4"]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (POOL.replace("win-2022", "other"), 'there is no WindowsNodePool "win-2022" in stdin'),
        (f"{POOL}---\n{POOL}", 'WindowsNodePool "win-2022" is in stdin 2 times'),
        (f"{POOL}---\na: [", "stdin:12: not YAML: "),
        (
            POOL.replace("labels:", "lables:"),
            "stdin:7: document 1 (win-2022): spec.lables: is an unknown field",
        ),
        (f"{POOL}  os: {{}}\n", 'stdin:11: document 1 (win-2022): key "os" is already set on line 6'),
        (f"{POOL}  reservedMemory: {{systemReservd: 1Gi}}\n", "is an unknown field"),
        (f"{POOL}  reservedMemory: {{systemReserved: 2.5}}\n", "spec.reservedMemory.systemReserved: "),
        (f"{POOL}  reservedMemory: {{systemReserved: 2GB}}\n", "systemReserved: "),
        (f"{POOL}  reservedMemory: 2Gi\n", "spec.reservedMemory: must be an object"),
        (
            f"{POOL}  reservedMemory: {{systemReserved: 0, evictionHard: 0}}\n",
            "spec.reservedMemory: must have a sum",
        ),
        (POOL.replace("name: win-2022", 'name: win-2022, "a\\e": b'), "a\\x1b"),
    ],
)
def test_a_pool_that_is_refused_ends_with_1(plugin: Plugin, pool: str, said: str) -> None:
    ended = asked(plugin, pool=pool)
    assert (ended.code, ended.out) == (1, [])
    assert said in "\n".join(ended.err)
    assert "\x1b" not in "\n".join(ended.err)


def test_nulls_count_as_absent_as_everywhere(plugin: Plugin) -> None:
    assert asked(plugin, pool=f"{POOL}  reservedMemory: null\n  supportMatrix: null\n").code == 0


def test_other_objects_of_the_file_are_passed_over(plugin: Plugin) -> None:
    other = f"kind: List\n---\n{POOL.replace('win-2022', 'win-2025')}---\n[1]\n---\n"
    assert asked(plugin, pool=other + POOL + RESERVED).out == asked(plugin).out


AMOUNTS = st.integers(min_value=0, max_value=2**44) | st.sampled_from(["0", "512Mi", "2.5Gi", "2G", "16Ti"])
VALUES = st.sampled_from(
    ["", "windows", "y", "no", "true", "null", "1e3", "0x10", "08", "1_000", "2026-01-01"]
)
VERSIONS = st.builds(Minor, st.just(1), st.integers(min_value=23, max_value=40))


@given(AMOUNTS, AMOUNTS, AMOUNTS, VERSIONS)
def test_a_kubelet_with_these_settings_holds_back_what_the_pool_declares(
    system: int | str, kube: int | str, eviction: int | str, version: Minor
) -> None:
    memory = ReservedMemory.model_construct(
        system_reserved=system, kube_reserved=kube, eviction_hard=eviction
    )
    found = settings(version=version, reserved=memory)
    content = yaml.safe_load(OUTPUTS["kubelet"](found))
    sizes = [content["systemReserved"]["memory"], content["kubeReserved"]["memory"]]
    threshold = content["evictionHard"].get("memory.available")
    assert threshold is None or bytes_of(threshold) > 0
    assert all(isinstance(each, str) for each in sizes)
    assert sum(map(bytes_of, sizes)) + bytes_of(threshold or "0") == memory.declared_bytes


@given(st.dictionaries(st.sampled_from(["a", "b/c", "true"]), VALUES), VALUES, VERSIONS)
def test_texts_stay_texts_for_a_kubelet_too(labels: dict[str, str], value: str, version: Minor) -> None:
    taints = [{"key": "os", "value": value, "effect": "NoSchedule"}]
    found = settings(version=version, labels=labels, taints=taints)
    text = OUTPUTS["kubelet"](found)
    assert yaml.safe_load(text)["registerWithTaints"] == taints
    # A kubelet's YAML has more booleans and numbers than PyYAML's, so nothing is left without quotes.
    assert f'value: "{value}"' in text
    node_labels = [each for each in flags(found) if each.startswith("--node-labels=")]
    given_labels = {**labels, "agentpool": "a"}
    assert node_labels == ["--node-labels=" + ",".join(f"{k}={v}" for k, v in sorted(given_labels.items()))]
