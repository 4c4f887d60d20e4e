"""What becomes of a machine that is started again, gets an update, or another Windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from testbed.winsim.entries import Family, Outage
from testbed.winsim.lives import machine
from testbed.winsim.nodestatus import default_labels
from testbed.winsim.releases import installed, kernel_of, patched
from testbed.winsim.roster import Roster
from testbed.winsim.verbs.machines import Patch, Reboot, Reimage

if TYPE_CHECKING:
    from testbed.winsim.fleet import Fleet

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


def test_another_machine_under_the_name_runs_what_is_installed_on_it() -> None:
    roster = filled()
    reboot(roster, "win-w01")
    before = machine(roster.entries["win-w01"])
    roster.renew(["win-w01"], booted=200.0, kernels={"win-w01": kernel_of("2025", 1)})
    after = machine(roster.entries["win-w01"])
    assert (after.os.build, after.boot_id, after.booted) == ("10.0.26100", "1", "1970-01-01T00:03:20Z")
    assert after.system_uuid != before.system_uuid


def test_what_was_installed_and_started_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    roster = filled(path)
    reboot(roster, "win-w01", kernel="10.0.20348.9")
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


async def told(verb: Reboot | Patch | Reimage, *, roster: Roster | None = None) -> list[Any]:
    recorder = Recorder(roster or filled())
    fleet = cast("Fleet", recorder)
    await verb.act(fleet, verb.choose(fleet))
    return recorder.calls


async def test_what_is_asked_for_arrives_at_the_fleet() -> None:
    all_of_them: Any = {"nodes": "all", "down": "5s", "ready_after": "1m"}
    outage = Outage(down=5.0, ready_after=60.0)
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
        ("replace", windows, {"kernels": kernels, "down": 5.0, "ready_after": 60.0})
    ]


async def test_what_needs_windows_is_refused_for_others() -> None:
    with pytest.raises(ValueError, match="patch: win-l01 runs no Windows"):
        await told(Patch.model_validate({"nodes": "win-l01", "revision": 9}))
    with pytest.raises(ValueError, match="reimage: win-l01 runs no Windows"):
        await told(Reimage.model_validate({"nodes": "win-l01", "release": "2022", "revision": 9}))
    with pytest.raises(ValueError, match=r"patch: win-w01: .* names no build of Windows"):
        await told(
            Patch.model_validate({"nodes": "win-w01", "revision": 9}), roster=filled(samples=("garbage",))
        )
