"""The packaged data loads, and a file with a fault is refused with a sentence that says where."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from datetime import date
from importlib import resources
from pathlib import Path

import pytest

from gen.matrix_faults import faults
from harness.every import every
from winpool.support.data import DataError, MatrixFile, read
from winpool.support.matrix import FILE, built_in, parse
from winpool.support.versions import Minor

ROOT = Path(__file__).parents[3]
TEXT = resources.files("winpool.support").joinpath(FILE).read_text()

CELL_2022_IN_1_36 = '- {kubernetes: "1.36", release: "2022", status: documented,'
RELEASE_2022 = '- {name: "2022", channel: LTSC,'
MINOR_1_37 = '- {name: "1.37", released: 2026-08-26, endOfLife: 2027-10-28,'
MINOR_1_20 = '- {name: "1.20", released: 2020-12-08, endOfLife: 2022-02-28,'


def changed(before: str, after: str) -> str:
    assert TEXT.count(before) == 1, f"{before!r} does not stand there once"
    return TEXT.replace(before, after)


def test_the_packaged_data_is_without_fault_and_read_once() -> None:
    assert not faults(TEXT)
    assert built_in() is built_in()


@pytest.mark.slow
def test_the_wheel_has_the_data(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"winpool/support/{FILE}").decode() == TEXT


def test_minors_go_from_1_14_to_1_37_without_a_gap() -> None:
    assert [str(minor) for minor in built_in().minors] == [f"1.{number}" for number in range(14, 38)]


@pytest.mark.slow
@every(
    ("before", "after", "said"),
    [
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("2022", "2028"),
            "(kubernetes 1.36, release 2028): the release is not in releases",
            id="release-unknown",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("1.36", "1.99"),
            "(kubernetes 1.99, release 2022): the minor is not in minors",
            id="minor-unknown",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("2022", "2025"),
            "windows: 2025 in 1.36 is there 2 times",
            id="cell-twice",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("documented", "supported"),
            "windows[",
            id="status-unknown",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("documented", "dropped, caution: x"),
            "a caution belongs to documented rows only",
            id="caution",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36.replace("documented", "notListed"),
            "what is not listed has no row",
            id="not-listed",
        ),
        pytest.param(
            CELL_2022_IN_1_36,
            CELL_2022_IN_1_36 + " colour: red,",
            "unknown field `colour`",
            id="field-unknown",
        ),
        pytest.param(
            MINOR_1_37,
            '- {name: "1.37",',
            "must be unknown, since this minor has no date of release",
            id="minor-not-out",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace("1.20", "1.21"),
            "(1.21): is not the minor that follows 1.19",
            id="minor-missing",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace('"1.20"', "1.20"),
            "minors[6].name: must be a text: put it in quotes",
            id="minor-is-a-number",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace("2022-02-28", "2020-02-28"),
            "minors[6] (1.20): endOfLife 2020-02-28 is not after released 2020-12-08",
            id="dates-reversed",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace("2022-02-28", "2020-12-08"),
            "minors[6] (1.20): endOfLife 2020-12-08 is not after released 2020-12-08",
            id="dates-equal",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace("2020-12-08", "2019-12-08"),
            "minors[6] (1.20): released 2019-12-08 is not after the release of 1.19",
            id="minors-reversed",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace(" released: 2020-12-08,", ""),
            "minors[6] (1.20): has endOfLife 2022-02-28, and no date of release",
            id="end-without-release",
        ),
        pytest.param(
            MINOR_1_20,
            MINOR_1_20.replace("2022-02-28", "2022-02-30"),
            "minors[6].endOfLife: ",
            id="no-such-day",
        ),
        pytest.param(
            'version: "21H2", build: 20348',
            'version: "21H2", build: 17763',
            "releases: build 17763 is there 2 times",
            id="build-twice",
        ),
        pytest.param(
            "mainstreamEnd: 2026-10-13, extendedEnd: 2031-10-14",
            "mainstreamEnd: 2026-10-13, extendedEnd: 2025-10-14",
            "releases[9] (2022): extendedEnd 2025-10-14 is not after mainstreamEnd 2026-10-13",
            id="ends-reversed",
        ),
        pytest.param(
            "available: 2021-08-18",
            "available: 2027-08-18",
            "releases[9] (2022): mainstreamEnd",
            id="ends-before",
        ),
        pytest.param(
            'sharesBuildWith: "2019"',
            'sharesBuildWith: "2022"',
            "releases[4] (1809): build 17763 is not that of 2022",
            id="shared-build",
        ),
        pytest.param(
            'tags: ["ltsc2022"]',
            'tags: ["ltsc2025"]',
            "releases: tag ltsc2025 is there 2 times",
            id="tag-twice",
        ),
        pytest.param(
            RELEASE_2022, RELEASE_2022.replace("2022", "ltsc2022"), "spec.os.version allows", id="name"
        ),
        pytest.param(
            'containerd: "2.3", image: "registry.k8s.io/pause:3.10.2"',
            'containerd: "2.3", image: "registry.k8s.io/pause:9"',
            "sandboxes[7] (containerd 2.3): registry.k8s.io/pause:9 is not in pauseImages",
            id="pause-unknown",
        ),
        pytest.param(
            '- {kubernetes: "1.36", name: containerd,',
            '- {kubernetes: "1.36", name: podman,',
            "runtimes: no row for containerd in Kubernetes 1.36",
            id="runtime-missing",
        ),
        pytest.param(
            "stableBuilds: [20348, 26100]",
            "stableBuilds: [26100]",
            "compatibility.stableAbi: ",
            id="stable-builds",
        ),
        pytest.param(
            '{line: "2.4", released: 2026-09-16, endOfSupport: 2027-05-16',
            '{line: "2.4", released: 2026-09-16, endOfSupport: 2026-05-16',
            "containerdLines[8] (2.4): endOfSupport 2026-05-16 is not after released 2026-09-16",
            id="line-reversed",
        ),
        pytest.param(
            '- {line: "2.4",',
            '- {line: "2.5",',
            "containerdLines: no row for containerd 2.4, which sandboxes has",
            id="line-missing",
        ),
        pytest.param(
            "{build: 20348, first: 2582, last: 2761",
            "{build: 20348, first: 2582, last: 2581",
            "badRevisions[0] (build 20348): last 2581 is below first 2582",
            id="revisions-reversed",
        ),
        pytest.param(
            "{build: 20348, first: 2582",
            "{build: 20349, first: 2582",
            "badRevisions[0] (build 20349): the build is not in releases",
            id="revisions-of-no-build",
        ),
        pytest.param(
            '{name: "gMSA", alpha: "1.14", beta: "1.16"',
            '{name: "gMSA", alpha: "1.14", beta: "1.19"',
            "features[2] (gMSA): its stages are not in order",
            id="stages-reversed",
        ),
        pytest.param(
            '{name: "port-forward", stable: "1.15"',
            '{name: "port-forward"',
            "features[4] (port-forward): has no minor",
            id="feature-without-a-minor",
        ),
        pytest.param(
            "  WEB-SKEW: {", "  WEB-SKEWED: {", "source WEB-SKEW is not in sources", id="source-unknown"
        ),
        pytest.param(
            "  WEB-SKEW: {", "  WEB-SKEWED: {", "sources.WEB-SKEWED: nothing refers", id="source-unused"
        ),
        pytest.param("releases:\n", "releases:\nreleases:\n", "'releases' is there twice", id="key-twice"),
        pytest.param("releases:\n", "releases: [\n", "line ", id="no-yaml"),
    ],
)
def test_a_fault_is_refused_and_named(before: str, after: str, said: str) -> None:
    assert said in "\n".join(faults(changed(before, after)))


def test_a_minor_that_is_out_may_be_without_an_end_of_life_and_is_known() -> None:
    matrix = parse(changed(MINOR_1_37, MINOR_1_37.replace(" endOfLife: 2027-10-28,", "")))
    assert matrix.minors[Minor(1, 37)].end_of_life is None
    assert matrix.status(Minor(1, 37), "2025") == "documented"


# https://github.com/containerd/containerd/blob/v2.4.2/RELEASES.md
CONTAINERD_ENDS = {
    "1.4": date(2022, 3, 3),
    "1.5": date(2023, 2, 28),
    "1.6": date(2025, 8, 23),
    "1.7": date(2026, 9, 30),
    "2.0": date(2027, 3, 31),
    "2.1": date(2026, 7, 3),
    "2.2": date(2026, 11, 6),
    "2.3": date(2028, 4, 30),
    "2.4": date(2027, 5, 16),
}


def test_containerd_is_supported_by_its_project_for_so_long() -> None:
    assert {each.line: each.end_of_support for each in built_in().file.containerd_lines} == CONTAINERD_ENDS


def test_kubernetes_1_37_is_out() -> None:
    """https://github.com/kubernetes/website/pull/57050 ."""
    minor = built_in().minors[Minor(1, 37)]
    assert (minor.released, minor.end_of_life) == (date(2026, 8, 26), date(2027, 10, 28))


@pytest.mark.slow
def test_what_is_nested_without_end_is_refused() -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        read("[" * 1200, MatrixFile)


@pytest.mark.parametrize("text", ["", "7", "[]", "releases: 7"])
def test_what_is_no_matrix_is_refused(text: str) -> None:
    assert faults(text)
