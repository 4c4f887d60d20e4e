"""``join-config --check``: what a kubelet on Windows refuses or ignores in scripts of people, by version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from winpool.cli.join_check import MAX_BYTES, read_script
from winpool.cli.join_rules import RULES

if TYPE_CHECKING:
    from unit.cli.conftest import Ended, Plugin

POWERSHELL = r"""#Requires -RunAsAdministrator
<# The old flags, such as --allow-privileged=true,
   --network-plugin=kubenet, are gone. #>
$args = @(
  "--network-plugin=cni", # --log-dir=C:\logs
  "--bootstrap-token=abcdef.0123456789abcdef"
  # "--image-pull-progress-deadline=20m"
)
& C:\k\kube-proxy.exe --logtostderr=true `
  --log-dir=C:\logs
C:\k\kubelet.exe $args --pod_infra_container_image mcr.microsoft.com/pause:3.9 --cgroups-per-qos=$qos
containerd.exe --register-service --log-file C:\containerd.log
nssm set kubelet AppParameters --v=6 --unheard-of=1
"""
CONFIGURATION = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupsPerQOS: true
enforceNodeAllocatable:
- pods
singleProcessOOMKill: false
userNamespaces: {}
defaultPodSysctls: {net.ipv4.ip_forward: "1"}
containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock"
resolvConf: /run/systemd/resolve/resolv.conf
"""
AS_IT_SHOULD_BE = """kind: KubeletConfiguration
cgroupsPerQOS: false
enforceNodeAllocatable: []
singleProcessOOMKill:
userNamespaces: null
defaultPodSysctls: {}
containerRuntimeEndpoint: npipe:////./pipe/containerd-containerd
resolvConf: ""
"""


def checked(plugin: Plugin, script: str, *more: str) -> Ended:
    return plugin("join-config", "--check", "-", *more, stdin=script)


def told(ended: Ended) -> list[str]:
    """Return line, severity and name of each finding."""
    return [" ".join(line.removeprefix("stdin:").replace(":", "").split()[:3]) for line in ended.out]


def test_removed_flags_of_the_kubelet_are_found_in_a_script_and_no_value_is_printed(plugin: Plugin) -> None:
    ended = checked(plugin, POWERSHELL)
    assert told(ended) == ["5 Error --network-plugin", "11 Error --pod-infra-container-image"]
    assert ended.out[0] == (
        "stdin:5: Error --network-plugin: A kubelet from 1.24 on does not know this flag, and does not "
        "start. Remove it: the container runtime reads the configuration of CNI by itself. "
        "https://github.com/kubernetes/kubernetes/pull/106907"
    )
    assert ended.code == 3
    assert ended.err == [
        "Kubernetes 1.37: 2 findings (2 Error)",
        "not judged: 2 flags of containerd, 2 flags of kube-proxy",
    ]
    assert "abcdef" not in "\n".join((*ended.out, *ended.err))


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (
            "1.37",
            [
                *("3 Warning cgroupsPerQOS", "4 Warning enforceNodeAllocatable"),
                *("6 Error singleProcessOOMKill", "7 Error userNamespaces", "8 Error defaultPodSysctls"),
                *("9 Error containerRuntimeEndpoint", "10 Warning resolvConf"),
            ],
        ),
        ("1.26", ["3 Error cgroupsPerQOS", "4 Error enforceNodeAllocatable"]),
    ],
)
def test_fields_of_a_configuration_are_judged_by_the_version(
    plugin: Plugin, minor: str, expected: list[str]
) -> None:
    for script in (CONFIGURATION, CONFIGURATION.replace("\n", "\r\n")):
        ended = checked(plugin, script, "--kubelet-version", minor)
        assert (told(ended), ended.code) == (expected, 3)


def test_a_configuration_for_windows_has_no_finding(plugin: Plugin) -> None:
    ended = checked(plugin, AS_IT_SHOULD_BE)
    assert (ended.code, ended.out, ended.err) == (0, [], ["Kubernetes 1.37: 0 findings"])


def test_what_join_config_prints_has_no_finding(plugin: Plugin) -> None:
    pool = (
        "apiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: a}\nspec:\n"
        '  nodeSelector: {matchLabels: {a: b}}\n  os: {version: "2022"}\n'
    )
    for output in ("kubelet", "flags", "powershell"):
        printed = plugin(
            *("join-config", "a", "-f", "-", "--kubelet-version", "1.34", "-o", output), stdin=pool
        )
        ended = checked(plugin, "\n".join(printed.out))
        assert (ended.code, ended.out) == (0, [])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("--cgroups-per-qos=false", ["1 Warning --cgroups-per-qos"]),
        ("--cgroups-per-qos=false --enforce-node-allocatable=", []),
        ('--enforce-node-allocatable=""', []),
        ("--enforce-node-allocatable=%LEVELS%", []),
        ("--enforce-node-allocatable pods", ["1 Warning --enforce-node-allocatable"]),
        ('{"cgroupsPerQOS":true,"userNamespaces":{}}', ["1 Warning cgroupsPerQOS", "1 Error userNamespaces"]),
        ("enforceNodeAllocatable: [\n  pods\n]", ["1 Warning enforceNodeAllocatable"]),
        ("rem --log-dir\nKUBELET_KUBEADM_ARGS=--log-dir=/x", ["2 Error --log-dir"]),
        ("flanneld.exe \\\n --log-dir=x\nkubelet \\\n --log-dir=x", ["4 Error --log-dir"]),
        (
            "nodeRegistration:\n  kubeletExtraArgs:\n    network-plugin: cni\n  name: log-dir",
            ["3 Error --network-plugin"],
        ),
        ("kubeletExtraArgs:\n- name: log-dir\n  value: /x\nlog-file: x", ["2 Error --log-dir"]),
        (
            "kube-log-runner.exe --log-file=x C:\\k\\kubelet.exe --log-dir=x\n& a\\filebeat.exe --log-dir=x\n"
            "csi-proxy --log_file=x\n--log-dir=x",
            ["1 Error --log-dir", "4 Error --log-dir"],
        ),
        ("[[ $x =~ <# ]]\nkubelet --log-dir=x", ["2 Error --log-dir"]),
    ],
)
def test_words_are_read_in_the_languages_of_scripts(plugin: Plugin, script: str, expected: list[str]) -> None:
    assert told(checked(plugin, script)) == expected


def test_a_flag_behind_a_condition_on_a_version_is_not_judged(plugin: Plugin) -> None:
    script = (
        "if ($CurrentVersion -lt $V1_24) {\n    $a += '--network-plugin=cni'\n"
        "} else {\n    $a += '--log-dir'\n}\n"
        "if ($cloud) {\n    $a += '--cloud-config=x'\n}\n"
        'if [ "$minor" -lt 1.26 ]; then A=--log-file; fi\n'
    )
    ended = checked(plugin, script)
    assert told(ended) == ["7 Error --cloud-config"]
    assert ended.err[-1] == "not judged: 3 flags behind a condition on a version"


def test_every_flag_of_the_rules_is_found_from_its_version_on(plugin: Plugin) -> None:
    removed = [rule for rule in RULES if rule.holds is None and rule.since]
    assert removed
    for rule in removed:
        assert rule.since is not None
        before = f"1.{rule.since.minor - 1}"
        for name in rule.names:
            assert [line.split()[2] for line in checked(plugin, f"{name}=1").out] == [f"{name}:"]
            assert checked(plugin, f"{name}=1", "--kubelet-version", before).out == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_scripts_of_windows_are_read_in_their_encodings(plugin: Plugin, encoding: str) -> None:
    Path("join.ps1").write_bytes("# für\r\nkubelet --log-dir=x\r\n".encode(encoding))
    ended = plugin("join-config", "--check", "join.ps1")
    assert (ended.code, ended.out[0][:27]) == (3, "join.ps1:2: Error --log-dir")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"MZ\x90\x00\x03", "binary"),
        ("kubelet --log-dir=x".encode("utf-16-le"), "byte order mark"),
        (b"\xff\xfe\x00", "binary"),
        (b"#" * (MAX_BYTES + 1), "larger than 1024 KiB"),
        (b"Write-Host hello\n", "nothing was judged"),
        (b"", "nothing was judged"),
    ],
)
def test_what_is_no_script_of_a_kubelet_is_not_judged(plugin: Plugin, content: bytes, word: str) -> None:
    Path("x").write_bytes(content)
    ended = plugin("join-config", "--check", "x")
    assert (ended.code, ended.out) == (1, [])
    assert word in ended.err[-1]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--check", "missing.ps1"), "No such file"),
        (("--check", "."), "directory"),
        (("--check", "-", "pool"), "leave out POOL"),
        (("--check", "-", "-f", "pool.yaml"), "leave out POOL"),
        ((), "POOL is missing"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    plugin: Plugin, arguments: tuple[str, ...], word: str
) -> None:
    ended = plugin("join-config", *arguments)
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


def test_a_newer_version_is_judged_by_the_newest_rules_with_a_note(plugin: Plugin) -> None:
    ended = checked(plugin, "kubelet --log-dir=x", "--kubelet-version", "1.99")
    assert ended.err[0] == "Kubernetes 1.99 is newer than the rules: judged as 1.37"


def test_any_text_can_be_read() -> None:
    for text in (
        "<#" * 9 + "#>",
        "if " * 99_999,
        "a-" * 99_999 + "--b",
        "--a " * 999,
        "cgroupsPerQOS:" * 999,
        "kubeletExtraArgs:\n\n  -",
        "a\0b",
    ):
        read_script(text)
