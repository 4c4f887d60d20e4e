"""What ``helm template`` renders is what ``kubectl apply -k`` applies, field by field."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from chart.helm import NAMESPACE, RELEASE, Helm, is_test
from harness.manifests import DEPLOY, key_of
from release.chart import CHART
from release.install import kustomized
from winpool import __version__

Object = dict[str, Any]

OVERLAY: Final = DEPLOY / "overlays"
KEEP: Final = {"helm.sh/resource-policy": "keep"}
NOT_IN_THE_CHART: Final = {("v1", "Namespace", "", "winpool-system")}
"""Helm keeps its record of a release there, so it exists before the chart is installed."""
CRD: Final = "windowsnodepools.winpool.dev"


def expected(folder: Path) -> dict[tuple[str, ...], Object]:
    """Return the objects of a kustomization, with all by which the chart may differ from it."""
    found: dict[tuple[str, ...], Object] = {
        key_of(each): deepcopy(each) for each in yaml.safe_load_all(kustomized(folder))
    }
    assert found.keys() >= NOT_IN_THE_CHART
    for key in NOT_IN_THE_CHART:
        del found[key]
    (crd,) = (each for each in found.values() if each["kind"] == "CustomResourceDefinition")
    assert "annotations" not in crd["metadata"]
    crd["metadata"]["annotations"] = KEEP
    return found


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        pytest.param(DEPLOY, (), id="deploy"),
        pytest.param(OVERLAY / "single-replica", ("--set", "replicas=1"), id="single-replica"),
        pytest.param(OVERLAY / "memory", ("--set", "memory.enabled=true"), id="memory"),
        pytest.param(OVERLAY / "rollout", ("--set", "rollout.enabled=true"), id="rollout"),
        pytest.param(
            OVERLAY / "force",
            ("--set", "rollout.enabled=true", "--set", "rollout.force=true"),
            id="force",
        ),
        pytest.param(
            OVERLAY / "prometheus-operator",
            ("--set", "monitoring.prometheusOperator=true"),
            id="prometheus-operator",
        ),
    ],
)
def test_the_chart_has_the_objects_of_the_kustomization_field_by_field(
    helm: Helm, folder: Path, values: tuple[str, ...]
) -> None:
    rendered = [each for each in helm.template(*values) if not is_test(each)]
    found = {key_of(each): each for each in rendered}
    assert len(found) == len(rendered)
    wanted = expected(folder)
    assert found.keys() == wanted.keys()
    for key, manifest in found.items():
        assert manifest == wanted[key]


def test_the_chart_passes_the_strict_lint_of_helm(helm: Helm) -> None:
    done = helm.run("lint", "--strict", "--namespace", "winpool-system", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout


def test_another_namespace_is_refused_with_what_to_do(helm: Helm) -> None:
    said = helm.refusal(namespace="kube-system")
    assert (
        "winpool is always installed in the namespace winpool-system, and this release is in kube-system: "
        "add --namespace winpool-system to the command"
    ) in said


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    assert ">=1.32.0-0" in helm.refusal("--kube-version", "v1.31.9")
    assert helm.template("--kube-version", "v1.32.1-eks-1a2b3c4")


def test_a_package_of_the_chart_renders_the_same(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.iterdir()
    assert package.name == f"winpool-{__version__}.tgz"
    done = helm.run("template", RELEASE, str(package), "--namespace", NAMESPACE)
    assert [each for each in yaml.safe_load_all(done.stdout) if each] == helm.template()
