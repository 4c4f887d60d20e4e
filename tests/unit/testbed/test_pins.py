"""Which version of Kubernetes is chosen, and what its pins must be."""

import re
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from testbed.pins import (
    MODULE_DIRECTORY,
    VARIABLE,
    Pins,
    all_pins,
    chosen_pins,
    default_pins,
    minor_of,
    pins_for,
)


@pytest.mark.parametrize("pins", all_pins(), ids=lambda pins: pins.kubernetes)
class TestEveryVersion:
    def test_names_no_toolchain_and_restates_every_staging_module(self, pins: Pins) -> None:
        text = pins.go_mod.read_text()
        assert re.search(r"^go 1\.26\.0$", text, re.MULTILINE)
        assert not re.search(r"^toolchain ", text, re.MULTILINE)
        replaced = dict(re.findall(r"^\t(\S+) => \1 (\S+)$", text, re.MULTILINE))
        assert {"k8s.io/api", "k8s.io/apiserver", "k8s.io/kubectl"} <= replaced.keys()
        assert set(replaced.values()) == {pins.kubernetes.replace("v1.", "v0.")}

    def test_has_the_checksum_of_kubernetes(self, pins: Pins) -> None:
        assert f"k8s.io/kubernetes {pins.kubernetes} h1:" in pins.go_sum.read_text()

    def test_lies_where_it_would_be_written(self, pins: Pins) -> None:
        assert pins_for(pins.kubernetes) == pins

    def test_is_chosen_by_its_minor(self, pins: Pins) -> None:
        assert chosen_pins(environment={VARIABLE: minor_of(pins.kubernetes)}) == pins


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}], ids=["unset", "empty"])
def test_without_a_choice_it_is_the_default(environment: dict[str, str]) -> None:
    assert chosen_pins(environment=environment) == default_pins()


@pytest.mark.parametrize(
    ("asked", "advice"), [("1.19", r"--kubernetes v1\.19\.N$"), ("v1.32.2", r"--kubernetes v1\.N\.P$")]
)
def test_a_version_without_pins_is_refused_with_those_that_have(asked: str, advice: str) -> None:
    with pytest.raises(
        TestbedError, match=rf"^{VARIABLE}={asked}: there are pins for 1\.37, 1\.32"
    ) as refused:
        chosen_pins(environment={VARIABLE: asked})
    assert re.search(advice, str(refused.value))


def test_a_new_patch_takes_the_place_of_its_minor_and_a_new_minor_gets_a_folder() -> None:
    assert pins_for("v1.37.99") == default_pins()
    assert pins_for("v1.32.99").go_mod == MODULE_DIRECTORY / "1.32" / "go.mod"
    assert pins_for("v1.19.1").go_mod == MODULE_DIRECTORY / "1.19" / "go.mod"


def test_a_module_without_kubernetes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    with pytest.raises(TestbedError, match=r"does not require k8s\.io/kubernetes"):
        _ = default_pins(tmp_path).kubernetes
