"""The plots of the bench of memory pressure: what is in them, and whether they are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

import numpy as np
from matplotlib.patches import Rectangle

from bench.pressure import plot
from bench.pressure.race import race
from bench.pressure.scene import Family, scene_of
from bench.pressure.world import World

LEAK = Family.model_validate(
    {
        "name": "leak",
        "about": "A pod leaks.",
        "seconds": 1200,
        "machine": {"ram": "32Gi", "pageFile": "aks", "readsPerSecond": 4000},
        "base": {"commit": "50% ceiling", "resident": "40% ram"},
        "pods": [
            {
                "role": "culprit",
                "workload": {"workload": "leak", "commit": "2Gi", "growthPerMinute": "12% left"},
            }
        ],
    }
)


@pytest.mark.slow
def test_the_same_machine_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        plot.draw(LEAK, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.slow
def test_a_plot_has_the_evictions_of_the_race_and_the_harm(tmp_path: Path) -> None:
    results = race(LEAK, plot.SEED, only=plot.CONTENDERS)
    raced = [(each, row) for row, result in enumerate(results) for each in result.evicted]
    assert raced
    scene = scene_of(LEAK, plot.SEED)
    picture = plot._Picture(tmp_path / "leak.svg", scene, results)
    picture.watch(World(scene))
    _, below = picture._figure(()).axes
    (marks,) = below.collections
    drawn = np.asarray(marks.get_offsets()) * (86_400, 1)
    assert drawn == pytest.approx(np.array([(each.at, row) for each, row in raced]))
    assert [each.get_text() for each in below.texts] == [each.guest.name for each, _ in raced]
    assert below.get_yticklabels()[0].get_text() == f"no one: {results[0].harm} s of harm"
    (shade,) = below.patches
    assert isinstance(shade, Rectangle)
    assert shade.get_width() * 86_400 == pytest.approx(results[0].harm, abs=10)


def test_a_plot_that_is_not_what_is_drawn_fails_the_run_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plot, "PLOTS", tmp_path)
    monkeypatch.setattr(plot, "draw", lambda family, path: path.write_text(family.name))
    (tmp_path / "burst.svg").write_text("an older one")
    (tmp_path / "plateau.svg").write_text("plateau")
    chosen = ("--family", "burst", "--family", "plateau")
    assert plot.main(chosen) == plot.MISSED
    ended = capsys.readouterr()
    assert ended.out.splitlines()[-1] == '{"bench": "pressure_plots", "plots": 2, "stale": ["burst"]}'
    assert 'make bench-pressure-plots FAMILY="burst" WRITE=1' in ended.err
    assert (tmp_path / "burst.svg").read_text() == "an older one"
    assert plot.main((*chosen, "--write")) == 0
    assert plot.main(chosen) == 0


def test_a_family_that_is_not_known_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert plot.main(("--family", "slow-leek")) == 1
    assert "slow-leek" in capsys.readouterr().err
