"""Truth mode of the bench of memory pressure: what is given to a testbed, and what is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from bench.api import Api
from bench.pressure import truth
from bench.pressure.operator_node import VARIANTS
from bench.pressure.scene import Scene, families, scene_of
from bench.pressure.stage import Delays, Stage, fleet_arguments, is_signalled, objects_of, pool_of, script_of
from bench.pressure.truth import FAILED, RUNS, SEED, SHORTENED
from bench.pressure.virtual import decide
from testbed.cluster import Testbed
from testbed.memory.pages import KIB
from testbed.memory.parsing import parse_workload
from testbed.winsim.endpoint.modelled import hardware_of
from testbed.winsim.machines import build_machine
from testbed.winsim.options import parse_options
from winpool.api.keys import MEMORY_PRESSURE_TAINT, PRESSURE_CONDITION
from winpool.api.spec import WindowsNodePoolSpec

SCENES = [scene_of(each, SEED) for each in families(SHORTENED)]
each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.family.name)


def test_a_node_is_signalled_by_condition_and_taint_together() -> None:
    condition = {"status": {"conditions": [{"type": PRESSURE_CONDITION, "status": "True"}]}}
    taint = {"spec": {"taints": [{"key": MEMORY_PRESSURE_TAINT, "effect": "NoSchedule"}]}}
    assert is_signalled({**condition, **taint})
    assert not is_signalled(condition)
    assert not is_signalled(taint)


def test_six_scenes_run_and_none_for_longer_than_twenty_minutes() -> None:
    assert sorted(RUNS) == [each.family.name for each in SCENES]
    assert len(RUNS) == 6
    assert max(each.seconds for each in SCENES) <= 20 * 60


@each_scene
def test_the_machine_of_a_testbed_is_that_of_the_scene(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    files = [f"--{name}={tmp_path / 'any'}" for name in ("ca", "cert", "key", "kubelet-ca", "kubelet-ca-key")]
    arguments = fleet_arguments(scene, VARIANTS[0], socket=tmp_path / "socket")
    options = parse_options(["--server=https://localhost", *files, *arguments])
    assert options.endpoint is not None
    machine = build_machine(
        "node",
        index=0,
        windows=True,
        address="",
        kubelet_version="",
        labels={},
        memory=options.plan.memory[0],
    )
    assert hardware_of(machine, page_file=options.endpoint.page_file) == scene.hardware


@each_scene
def test_a_pod_does_what_its_guest_does(scene: Scene) -> None:
    for guest in scene.guests:
        script = parse_workload(script_of(guest.workload), where=guest.name)
        for second in range(0, scene.seconds, 30):
            wanted = guest.workload.demand(second, seed=1)
            has = script.demand(second, seed=2)  # nothing deviates at random
            assert has.commit_bytes == pytest.approx(wanted.commit_bytes, abs=second * KIB + 2 * KIB)
            assert (has.touched, has.active) == pytest.approx((wanted.touched, wanted.active), rel=1e-3)


@each_scene
def test_the_pool_asks_for_the_same_as_in_virtual_time(scene: Scene) -> None:
    spec = WindowsNodePoolSpec.model_validate(pool_of(scene, RUNS[scene.family.name])["spec"])
    assert spec.memory_pressure is not None
    assert spec.memory_pressure.mode == "Evict"
    assert spec.memory_pressure.page_file is not None
    assert spec.memory_pressure.page_file.max_bytes == scene.page_file_bytes


def test_a_pod_that_a_budget_protects_has_one_and_other_pods_have_none() -> None:
    guests = [guest for scene in SCENES for guest in scene.guests]
    assert any(each.budget_blocks for each in guests)
    for guest in guests:
        paths = [path for path, _ in objects_of(guest, namespace="shop", node="w01")]
        assert any("poddisruptionbudgets" in each for each in paths) is guest.budget_blocks


@each_scene
def test_the_modes_differ_where_the_operator_decides_otherwise(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variant = RUNS[scene.family.name]
    stage = Stage(scene, variant, cast(Testbed, None), cast(Api, None), delays=Delays(looks=1.0))

    def given(*_: Any, **__: Any) -> list[Stage]:
        return [stage]

    monkeypatch.setattr(truth, "real_decisions", given)
    stage.decisions = decide(scene, variant)
    assert truth.main([]) == 0
    late = stage.decisions.found.pop()
    stage.decisions.add(late.what, late.at - 2 * late.interval)
    assert truth.main([]) == FAILED
    assert "DIFFERS" in capsys.readouterr().out
