"""The name of a build, and what a failed one says."""

import re
import shutil
from pathlib import Path

import pytest

from testbed import build, gobuild, gomod
from testbed.pins import Pins, all_pins, default_pins


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    """A copy of the default version's pins, to be changed at will."""
    module = tmp_path / "controlplane"
    module.mkdir()
    for name, path in default_pins().sources.items():
        shutil.copy(path, module / name)
    return default_pins(module)


def test_the_same_module_has_the_same_key(pins: Pins) -> None:
    assert build.key(pins) == build.key(default_pins())


@pytest.mark.parametrize("name", default_pins().sources)
def test_every_source_file_decides_the_key(pins: Pins, name: str) -> None:
    with pins.sources[name].open("a") as file:
        file.write("// one line more\n")
    assert build.key(pins) != build.key(default_pins())


def test_a_line_moved_from_one_file_to_the_next_changes_the_key(pins: Pins) -> None:
    sums, main = pins.sources["go.sum"], pins.sources["main.go"]
    sums.write_text("a b\nc d\n")
    main.write_text("x\n")
    before = build.key(pins)
    sums.write_text("a b\n")
    main.write_text("c d\nx\n")
    assert build.key(pins) != before


@pytest.mark.parametrize(("version", "minor"), [("v1.37.1", "37"), ("v1.32.2", "32")])
def test_linker_flags_stamp_the_version_for_server_and_client(version: str, minor: str) -> None:
    flags = build.linker_flags(version).split()
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"{package}.gitVersion={version}" in flags
        assert f"{package}.gitMajor=1" in flags
        assert f"{package}.gitMinor={minor}" in flags


def test_binaries_of_two_versions_lie_side_by_side(tmp_path: Path) -> None:
    binaries = {build.binary_path(cache=tmp_path, pins=pins) for pins in all_pins()}
    assert len(binaries) == len(all_pins()) > 1


def test_upstreams_staging_modules_become_replaces() -> None:
    upstream = gomod.parse_upstream(
        {
            "Require": [{"Path": gomod.ETCD_MODULE, "Version": "v3.9.1"}],
            "Replace": [
                {"Old": {"Path": "k8s.io/b"}, "New": {"Path": "./staging/src/k8s.io/b"}},
                {"Old": {"Path": "k8s.io/a"}, "New": {"Path": "./staging/src/k8s.io/a"}},
                {
                    "Old": {"Path": "example.org/fork"},
                    "New": {"Path": "example.org/other", "Version": "v1.0.0"},
                },
            ],
        },
        kubernetes="v1.40.2",
    )
    text = gomod.render(upstream)
    assert "\tk8s.io/a => k8s.io/a v0.40.2\n\tk8s.io/b => k8s.io/b v0.40.2\n)" in text
    assert f"\t{gomod.ETCD_MODULE} v3.9.1\n\tk8s.io/kubernetes v1.40.2\n" in text
    assert "example.org" not in text


@pytest.mark.parametrize("module", [{}, {"Require": [{"Path": gomod.ETCD_MODULE, "Version": "v3.9.1"}]}])
def test_an_upstream_of_another_shape_is_refused(module: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"v1\.40\.2 names no"):
        gomod.parse_upstream(module, kubernetes="v1.40.2")


@pytest.mark.parametrize(
    ("step", "output", "sentence"),
    [
        ("list", ["dial tcp: lookup proxy: no such host"], "cannot download the Go modules"),
        ("build", ["./main.go:1:1: syntax error"], "the control plane does not compile"),
        ("build", ["write $WORK/b001/a.out: no space left on device"], "no disk space left"),
        ("list", ["mkdir /m: no space left on device"], "no disk space left"),
    ],
)
def test_a_failed_step_says_why_and_shows_the_end_of_its_output(
    step: str, output: list[str], sentence: str, tmp_path: Path
) -> None:
    program = build.control_plane(default_pins())
    text = gobuild.explain(program, step, output, environment={"GOCACHE": str(tmp_path)})
    assert text.startswith(sentence)
    assert output[-1] in text


def test_lack_of_space_names_the_places_to_look_at(tmp_path: Path) -> None:
    program = build.control_plane(default_pins())
    output = ["no space left on device"]
    text = gobuild.explain(program, "build", output, environment={"GOCACHE": str(tmp_path)})
    assert re.search(rf"GOCACHE: {re.escape(str(tmp_path))}: [\d.]+ GiB free", text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("k8s.io/kubectl/pkg/cmd/util\n", False),
        ("go: downloading k8s.io/api v0.36.3\n", False),
        ("main.go:18:2: module lookup disabled by GOPROXY=off\n", True),
        ("# k8s.io/kubectl/pkg/cmd\n", True),
        ("./main.go:47:6: assignment mismatch\n", True),
        ("\tmultiple-value in assignment\n", True),
    ],
)
def test_what_go_says_is_told_from_what_it_lists(line: str, *, message: bool) -> None:
    assert gobuild.is_message(line) is message
