"""Nodes that are copies of real ones: what they say, who gets which, and how they are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.pins import chosen_pins
from testbed.winsim.entries import Family
from testbed.winsim.lives import machine
from testbed.winsim.machines import WINDOWS_RELEASES, Machine
from testbed.winsim.nodestatus import default_labels
from testbed.winsim.options import parse_options
from testbed.winsim.roster import Roster
from testbed.winsim.samples import SAMPLES, parse_sample

BUILD = "node.kubernetes.io/windows-build"


def machines(
    *samples: str, count: int, os: Family = "windows", roster: Roster | None = None
) -> list[Machine]:
    listed = Roster("win") if roster is None else roster
    names = listed.new_names(os, count)
    addresses = {name: f"127.1.0.{number}" for number, name in enumerate(names)}
    added = listed.add(names, os=os, addresses=addresses, labels={}, taints=(), samples=samples)
    return [machine(entry) for entry in added]


def command_line(tmp_path: Path, *samples: str) -> list[str]:
    file = tmp_path / "file"
    file.touch()
    required = ["--server=https://127.0.0.1:1", f"--ca={file}", f"--cert={file}", f"--key={file}"]
    return [*required, *(f"--windows-sample={sample}" for sample in samples)]


@pytest.mark.parametrize(
    ("name", "kernel", "image", "kubelet", "runtime", "build"),
    [
        (
            "2016",
            "10.0.14393",
            "Microsoft Windows [Version 10.0.14393]",
            "v1.9.0-alpha.0",
            "docker://Unknown",
            "10.0.14393",
        ),
        (
            "2019",
            "10.0.17763.1397",
            "Windows Server 2019 Datacenter",
            "v1.19.3",
            "containerd://1.4.1",
            "10.0.17763",
        ),
        (
            "2019-evaluation",
            "10.0.17763.2452",
            "Windows Server 2019 Standard Evaluation",
            "v1.23.3-rc.0.3+531a28b82ee021",
            "containerd://1.5.7",
            "10.0.17763",
        ),
        ("1903", "10.0.18362.116", "Windows Server Datacenter", "v1.15.0", "docker://18.9.2", "10.0.18362"),
        ("2004", "10.0.19041.804", "Windows Server Datacenter", "v1.19.7", "docker://19.3.14", "10.0.19041"),
        (
            "2022",
            "10.0.20348.1607",
            "Windows Server 2022 Datacenter",
            "v1.24.7-eks-fb459a0",
            "containerd://1.6.6",
            "10.0.20348",
        ),
        (
            "2025",
            "10.0.26100.32995",
            "Windows Server 2025 Datacenter",
            "v1.33.12",
            "containerd://2.0.4+azure",
            "10.0.26100",
        ),
        (
            "windows-11",
            "10.0.22631.5335",
            "Windows 10 Enterprise",
            "v1.32.5",
            "containerd://1.7.27",
            "10.0.22631",
        ),
        (
            "garbage",
            "10.0.?",
            "Windows Server 2022 Datacenter",
            chosen_pins().kubernetes,
            "containerd://2.3.0",
            None,
        ),
    ],
)
def test_a_copy_says_what_the_real_node_said(
    name: str, kernel: str, image: str, kubelet: str, runtime: str, build: str | None
) -> None:
    [node] = machines(name, count=1)
    assert (node.os.kernel, node.os.image, node.os.runtime) == (kernel, image, runtime)
    assert node.kubelet_version == kubelet
    assert default_labels(node).get(BUILD) == build


def test_a_copy_with_another_kubelet_has_the_runtime_of_the_others() -> None:
    [node] = machines("2022@v1.37.1-eks-1", count=1)
    assert node.kubelet_version == "v1.37.1-eks-1"
    published = SAMPLES["2022"].os
    assert published is not None
    assert node.os == replace(published, runtime=WINDOWS_RELEASES[0].runtime)


def test_windows_nodes_take_samples_in_turn_and_go_on_with_it_when_others_join() -> None:
    roster = Roster("win")
    first = machines("2019", "2025", count=3, roster=roster)
    assert machines(count=1, os="linux", roster=roster)[0].os.family == "linux"
    joined = machines("2019", "2025", count=2, roster=roster)
    builds = [node.os.build for node in (*first, *joined)]
    assert builds == ["10.0.17763", "10.0.26100", "10.0.17763", "10.0.26100", "10.0.17763"]


def test_linux_nodes_are_no_copies() -> None:
    assert machines("2019", count=1, os="linux") == machines(count=1, os="linux")


def test_without_samples_nothing_is_different() -> None:
    assert [node.os for node in machines(count=2)] == list(WINDOWS_RELEASES)


def test_the_next_process_finds_the_same_copies(tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    before = machines("2019", "2025@v1.35.1", count=2, roster=Roster("win", path=path))
    later = Roster("win", path=path)
    later.load()
    assert [machine(entry) for entry in later.entries.values()] == before
    path.write_text(path.read_text().replace('"2019"', '"95"'))
    with pytest.raises(TestbedError, match="there is no sample '95', only 2016, 2019"):
        Roster("win", path=path).load()


def test_samples_are_asked_for_on_the_command_line(tmp_path: Path) -> None:
    assert parse_options(command_line(tmp_path)).plan.samples == ()
    asked = parse_options(command_line(tmp_path, "2019", "2022@v1.36.3"))
    assert asked.plan.samples == ("2019", "2022@v1.36.3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("95", "there is no sample '95', only 2016, 2019"),
        ("", "there is no sample ''"),
        ("2022@", "'' is not a kubelet version"),
        ("2022@1.36", "'1.36' is not a kubelet version"),
    ],
)
def test_a_mistake_is_a_sentence(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"no sample|not a kubelet version") as caught:
        parse_sample(text)
    assert said in str(caught.value)
    with pytest.raises(SystemExit) as exited:
        parse_options(command_line(tmp_path, text))
    assert exited.value.code == 2
    assert said in capsys.readouterr().err
