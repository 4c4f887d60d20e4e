"""Values that cannot be right are refused before anything is sent, with the name of the value."""

from __future__ import annotations

import pytest

from chart.helm import Helm


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param(("--set", "replica=3"), "replica", id="a value that does not exist"),
        pytest.param(("--set", "image.registry=r.example"), "/image", id="a field that does not exist"),
        pytest.param(("--set", "replicas=0"), "/replicas", id="no replica"),
        pytest.param(("--set", "replicas=50"), "/replicas", id="too many replicas"),
        pytest.param(("--set-string", "replicas=2"), "/replicas", id="a number as text"),
        pytest.param(
            ("--set", "image.repository=r.example/winpool:1.0"), "/image/repository", id="a tag in the name"
        ),
        pytest.param(("--set", "image.tag=1.0 beta"), "/image/tag", id="a tag with a space"),
        pytest.param(("--set", "image.digest=sha256:abc"), "/image/digest", id="a digest that was cut"),
        pytest.param(("--set", "image.pullPolicy=Sometimes"), "/image/pullPolicy", id="pull policy"),
        pytest.param(
            ("--set-json", 'image.pullSecrets=[{"name":"a"}]'), "/image/pullSecrets/0", id="pull secret"
        ),
        pytest.param(
            ("--set", "resources.requests.memory=1 GB"), "/resources/requests/memory", id="quantity"
        ),
        pytest.param(("--set", "resources.limit.memory=1Gi"), "/resources", id="a field of resources"),
        pytest.param(
            ("--set-json", 'tolerations=[{"efect":"NoSchedule"}]'), "/tolerations/0", id="toleration"
        ),
        pytest.param(
            ("--set-json", 'affinity.nodeExpressions=[{"key":"a","operator":"in"}]'),
            "/affinity/nodeExpressions/0/operator",
            id="operator of an expression",
        ),
        pytest.param(("--set", "log.level=trace"), "/log/level", id="log level"),
        pytest.param(("--set", "metrics.auth=basic"), "/metrics/auth", id="metrics auth"),
        pytest.param(
            ("--set", "networkPolicy.create=no way"), "/networkPolicy/create", id="a text for a switch"
        ),
        pytest.param(
            ("--set-json", "networkPolicy.apiServerPorts=[]"), "/networkPolicy/apiServerPorts", id="no port"
        ),
        pytest.param(
            ("--set-json", "networkPolicy.apiServerPorts=[70000]"),
            "/networkPolicy/apiServerPorts/0",
            id="port",
        ),
        pytest.param(
            ("--set-json", "networkPolicy.metricsFrom=[{}]"), "/networkPolicy/metricsFrom/0", id="peer"
        ),
        pytest.param(("--set", "monitoring.endpoint.port=http"), "/monitoring/endpoint/port", id="endpoint"),
        pytest.param(("--set-json", 'monitoring.labels={"a":1}'), "/monitoring/labels/a", id="label"),
        pytest.param(
            ("--set-string", "fence.allowNoExecute=false"), "/fence/allowNoExecute", id="a text for false"
        ),
        pytest.param(("--set", "extraArgs={1200}"), "/extraArgs/0", id="an argument that is no flag"),
        pytest.param(("--set", "extraArgs={--no-leader-elect}"), "/extraArgs/0", id="two leaders"),
        pytest.param(("--set", "extraArgs={--port=80}"), "/extraArgs/0", id="a flag of another value"),
        pytest.param(
            ("--set-json", 'extraEnv=[{"name":"WINPOOL_LEADER_ELECT","value":"false"}]'),
            "/extraEnv/0/name",
            id="a setting as a variable",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm: Helm, values: tuple[str, str], named: str) -> None:
    said = helm.refusal(*values)
    assert "values don't meet the specifications of the schema" in said
    assert named in said


def test_values_of_a_parent_chart_are_accepted(helm: Helm) -> None:
    assert helm.template("--set", "global.registry=registry.example")
