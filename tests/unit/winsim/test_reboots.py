"""What becomes of a machine that is started again, gets an update, or another Windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from testbed.winsim.entries import Family, Outage, Updates
from testbed.winsim.lives import machine
from testbed.winsim.memory import Memory
from testbed.winsim.nodestatus import default_labels
from testbed.winsim.releases import installed, kernel_of, patched, release_of
from testbed.winsim.roster import Roster
from testbed.winsim.verbs.base import SelectingVerb
from testbed.winsim.verbs.machines import Hotpatch, Patch, Reboot, Reimage, SetUpdates
from testbed.winsim.verbs.membership import Surge

if TYPE_CHECKING:
    from testbed.winsim.fleet import Fleet

OLD = "10.0.20348.4052"
BUILD = "node.kubernetes.io/windows-build"
NOTHING: dict[str, str] = {}
KINDS: tuple[tuple[Family, int], ...] = (("windows", 2), ("linux", 1))


def filled(path: Path | None = None, *, samples: tuple[str, ...] = (), kernel: str = "") -> Roster:
    roster = Roster("win", path=path)
    for os, count in KINDS:
        names = roster.new_names(os, count)
        roster.add(
            names,
            os=os,
            addresses={name: f"127.1.{len(os)}.{number}" for number, name in enumerate(names)},
            labels={},
            taints=(),
            samples=samples,
            kernel=kernel if os == "windows" else "",
        )
    return roster


def reboot(roster: Roster, name: str, *, kernel: str = "", anew: bool = False) -> None:
    kernels = {name: kernel} if kernel else NOTHING
    roster.reboot([name], booted=100.0, settling=3.0, kernels=kernels, anew=anew)


@pytest.mark.parametrize("name", ["win-w01", "win-l01"])
def test_a_reboot_changes_the_boot_id_and_nothing_else_that_a_node_reports(name: str) -> None:
    roster = filled()
    before = machine(roster.entries[name])
    seen = [before.boot_id]
    for _ in range(3):
        reboot(roster, name)
        after = machine(roster.entries[name])
        assert after.boot_id not in seen
        seen.append(after.boot_id)
        assert (after.os, after.system_uuid, after.machine_id) == (
            before.os,
            before.system_uuid,
            before.machine_id,
        )
        assert after.booted == "1970-01-01T00:01:40Z"
    if name == "win-w01":
        assert seen == ["1", "2", "3", "4"]  # Windows counts


def test_an_update_changes_the_revision_and_not_the_build() -> None:
    roster = filled()
    before = machine(roster.entries["win-w02"])
    reboot(roster, "win-w02", kernel=patched(before.os.kernel, 4171))
    after = machine(roster.entries["win-w02"])
    assert (after.os.kernel, after.os.image) == ("10.0.20348.4171", before.os.image)
    assert after.boot_id != before.boot_id
    assert default_labels(after)[BUILD] == default_labels(before)[BUILD]


@pytest.mark.parametrize(
    ("release", "kernel", "image"),
    [
        ("2019", "10.0.17763.7", "Windows Server 2019 Datacenter"),
        ("2022", "10.0.20348.7", "Windows Server 2022 Datacenter"),
        ("2025", "10.0.26100.7", "Windows Server 2025 Datacenter"),
    ],
)
def test_a_machine_with_another_release_says_so_in_all_places(release: str, kernel: str, image: str) -> None:
    roster = filled()
    reboot(roster, "win-w01")
    reboot(roster, "win-w01", kernel=kernel_of(release, 7), anew=True)
    after = machine(roster.entries["win-w01"])
    assert (after.os.kernel, after.os.image) == (kernel, image)
    assert default_labels(after)[BUILD] == kernel.rpartition(".")[0]
    # A new system counts its starts from the first: the boot ID goes down.
    assert after.boot_id == "1"


def test_machines_join_with_the_windows_that_is_named_whatever_their_place() -> None:
    roster = filled(samples=("2019", "garbage"), kernel=kernel_of("2025", 4652))
    kernels = {machine(entry).os.kernel for entry in roster.entries.values() if entry.os == "windows"}
    assert kernels == {"10.0.26100.4652"}


def test_a_build_that_nobody_knows_keeps_its_name() -> None:
    before = machine(filled().entries["win-w01"]).os
    assert installed("10.0.99999.1", before=before).image == before.image
    with pytest.raises(ValueError, match=r"'10\.0\.\?' names no build"):
        patched("10.0.?", 1)
    assert (release_of("10.0.26100.4652"), release_of("10.0.99999.1"), release_of("?")) == ("2025", "", "")


def test_another_machine_under_the_name_runs_what_is_installed_on_it() -> None:
    roster = filled()
    reboot(roster, "win-w01")
    before = machine(roster.entries["win-w01"])
    roster.renew(["win-w01"], booted=200.0, kernels={"win-w01": kernel_of("2025", 1)})
    after = machine(roster.entries["win-w01"])
    assert (after.os.build, after.boot_id, after.booted) == ("10.0.26100", "1", "1970-01-01T00:03:20Z")
    assert after.system_uuid != before.system_uuid


@pytest.mark.parametrize(
    ("result", "kernel", "boots", "running"),
    [("succeed", "10.0.26100.9", "1", True), ("fail", OLD, "2", True), ("never_return", OLD, "2", False)],
)
def test_a_new_system_is_there_after_the_start_or_the_old_one_or_no_machine(
    result: Updates, kernel: str, boots: str, running: bool
) -> None:
    roster = filled()
    roster.set_updates(["win-w01"], result)
    reboot(roster, "win-w01", kernel="10.0.26100.9", anew=True)
    after = machine(roster.entries["win-w01"])
    assert (after.os.kernel, after.boot_id, roster.entries["win-w01"].running) == (kernel, boots, running)
    # A start without an update always succeeds.
    reboot(roster, "win-w01")
    assert (machine(roster.entries["win-w01"]).os.kernel, roster.entries["win-w01"].running) == (kernel, True)


@pytest.mark.parametrize(
    ("result", "kernel", "running"),
    [("succeed", "10.0.26100.9", True), ("fail", OLD, True), ("never_return", OLD, False)],
)
def test_a_new_machine_can_come_with_the_old_system_or_not_at_all(
    result: Updates, kernel: str, running: bool
) -> None:
    roster = filled()
    roster.set_updates(["win-w01"], result)
    roster.renew(["win-w01"], kernels={"win-w01": "10.0.26100.9"})
    roster.add_successors(
        {"win-w01": "win-w03"},
        addresses={"win-w03": "127.1.0.9"},
        ready_after=0.0,
        kernels={"win-w01": "10.0.26100.9"},
    )
    for name in ("win-w01", "win-w03"):
        entry = roster.entries[name]
        assert (machine(entry).os.kernel, entry.running) == (kernel, running)


def test_an_update_without_a_start_changes_the_revision_and_not_the_boot_id() -> None:
    roster = filled()
    before = machine(roster.entries["win-w01"])
    roster.set_updates(["win-w02"], "fail")
    failing = roster.entries["win-w02"]
    roster.set_kernels(dict.fromkeys(("win-w01", "win-w02"), "10.0.20348.9"))
    after = machine(roster.entries["win-w01"])
    assert (after.os.kernel, after.boot_id, after.booted) == ("10.0.20348.9", before.boot_id, "")
    assert roster.entries["win-w02"] == failing


def test_a_machine_that_comes_first_is_like_the_one_that_it_replaces() -> None:
    roster = filled()
    reboot(roster, "win-w02")
    roster.set_memory(["win-w02"], Memory(size_ki=1024))
    before, zone = roster.entries["win-w02"], machine(roster.entries["win-w02"]).zone
    roster.add_successors(
        {"win-w02": "win-w03"}, addresses={"win-w03": "127.1.0.9"}, ready_after=5.0, kernels={}
    )
    entry = roster.entries["win-w03"]
    after = machine(entry)
    assert (entry.replaces, entry.ready_after, entry.memory) == ("win-w02", 5.0, before.memory)
    assert (after.name, after.address, after.zone, after.boot_id) == ("win-w03", "127.1.0.9", zone, "1")
    assert after.os == machine(before).os
    assert after.system_uuid != machine(before).system_uuid
    assert roster.new_names("windows", 1) == ("win-w04",)
    roster.remove(["win-w02"])
    roster.set_replaced("win-w03")
    assert roster.entries["win-w03"].replaces == ""


def test_what_was_installed_and_started_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    roster = filled(path)
    reboot(roster, "win-w01", kernel="10.0.20348.9")
    roster.set_updates(["win-w02"], "never_return")
    later = Roster("win", path=path)
    later.load()
    assert later.entries == roster.entries
    assert machine(later.entries["win-w01"]).boot_id == "2"


class Recorder:
    """Stands for a fleet: it has machines, and writes down what verbs would have done to them."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.calls: list[Any] = []

    async def reboot(self, names: tuple[str, ...], outage: Outage, **how: Any) -> None:
        self.calls.append(("reboot", names, outage, how))

    async def replace(self, names: tuple[str, ...], **how: Any) -> None:
        self.calls.append(("replace", names, how))

    def hotpatch(self, kernels: dict[str, str]) -> None:
        self.calls.append(("hotpatch", kernels))

    def surge(self, names: tuple[str, ...], **how: Any) -> None:
        self.calls.append(("surge", names, how))

    def set_updates(self, names: tuple[str, ...], updates: Updates) -> None:
        self.calls.append(("set_updates", names, updates))


async def told(verb: SelectingVerb, *, roster: Roster | None = None) -> list[Any]:
    recorder = Recorder(roster or filled())
    fleet = cast("Fleet", recorder)
    await verb.act(fleet, verb.choose(fleet))
    return recorder.calls


async def test_what_is_asked_for_arrives_at_the_fleet() -> None:
    all_of_them: Any = {"nodes": "all", "down": "5s", "ready_after": "1m", "network_after": "3m"}
    outage = Outage(down=5.0, ready_after=60.0, network_after=180.0)
    windows = ("win-w01", "win-w02")
    assert await told(Reboot.model_validate(all_of_them)) == [("reboot", ("win-l01", *windows), outage, {})]
    kernels = dict.fromkeys(windows, "10.0.20348.9")
    assert await told(Patch.model_validate({**all_of_them, "revision": 9})) == [
        ("reboot", windows, outage, {"kernels": kernels})
    ]
    given = {**all_of_them, "release": "2025", "revision": 9}
    kernels = dict.fromkeys(windows, "10.0.26100.9")
    assert await told(Reimage.model_validate({**given, "keep_node": True})) == [
        ("reboot", windows, outage, {"kernels": kernels, "anew": True})
    ]
    assert await told(Reimage.model_validate(given)) == [
        ("replace", windows, {"kernels": kernels, "outage": outage})
    ]


async def test_updates_without_a_start_and_machines_that_come_first_arrive_at_the_fleet() -> None:
    windows = ("win-w01", "win-w02")
    every: Any = {"nodes": "all", "revision": 9}
    assert await told(Hotpatch.model_validate(every)) == [
        ("hotpatch", dict.fromkeys(windows, "10.0.20348.9"))
    ]
    assert await told(Surge.model_validate({**every, "release": 2025, "ready_after": "1m"})) == [
        ("surge", windows, {"ready_after": 60.0, "kernels": dict.fromkeys(windows, "10.0.26100.9")})
    ]
    assert await told(Surge.model_validate({"nodes": "win-l01"})) == [
        ("surge", ("win-l01",), {"ready_after": 0.0, "kernels": {}})
    ]
    roster = filled()
    roster.set_updates(["win-w01"], "fail")
    fail = SetUpdates.model_validate({"nodes": "all", "result": "fail"})
    assert await told(fail, roster=roster) == [("set_updates", ("win-w02",), "fail")]


async def test_what_needs_windows_is_refused_for_others() -> None:
    with pytest.raises(ValueError, match="surge: win-l01 runs no Windows"):
        await told(Surge.model_validate({"nodes": "win-l01", "release": "2022", "revision": 9}))
    with pytest.raises(ValueError, match="give release and revision together"):
        Surge.model_validate({"nodes": 1, "release": "2022"})
    with pytest.raises(ValueError, match="patch: win-l01 runs no Windows"):
        await told(Patch.model_validate({"nodes": "win-l01", "revision": 9}))
    with pytest.raises(ValueError, match="reimage: win-l01 runs no Windows"):
        await told(Reimage.model_validate({"nodes": "win-l01", "release": "2022", "revision": 9}))
    with pytest.raises(ValueError, match=r"patch: win-w01: .* names no build of Windows"):
        await told(
            Patch.model_validate({"nodes": "win-w01", "revision": 9}), roster=filled(samples=("garbage",))
        )
