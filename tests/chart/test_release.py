"""The chart on a real API server: installed, upgraded, tested, uninstalled, and nothing of a pool lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from chart.helm import NAMESPACE, RELEASE, Helm, is_test
from chart.places import WHERE
from chart.site import HERE, Site
from harness.documents import ROOT, WITH_HELM
from harness.manifests import DEPLOY, key_of
from harness.operator import Operator
from harness.waiting import eventually
from release.chart import CHART
from winpool.api.keys import CRD_NAME, POOL_LABEL

Object = dict[str, Any]

SAMPLE: Final = DEPLOY / "samples" / "win-2022.yaml"
POOL: Final = "win-2022"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
TEST_POD: Final = "winpool-test-readyz"
PROFILE: Final = "pod-security.kubernetes.io/enforce"
ONLY_THE_CRD: Final = {f"customresourcedefinition/{CRD_NAME}"}
OF_HELM: Final = {"create secrets", "update secrets"}
"""How helm keeps its record of a release."""
RESENT: Final = {"patch poddisruptionbudgets"}
"""helm replaces the selector of a budget as a whole (its patchStrategy), so it always sends a patch."""

(PAGE,) = ((ROOT / path).read_text() for path in WITH_HELM)


@pytest.fixture(scope="module")
def cluster(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site.up(tmp_path_factory.mktemp("site"), helm=helm) as site:
        yield site


@pytest.fixture
def site(cluster: Site) -> Iterator[Site]:
    """A cluster without winpool but for the namespace."""
    yield cluster
    cluster.clear()


@pytest.fixture
def operator(site: Site, tmp_path: Path) -> Iterator[Operator]:
    """An operator with the identity of the replicas, in their place: no image runs on the testbed."""
    operator = Operator(kubeconfig=site.testbed.kubeconfig("winpool"), log_file=tmp_path / "operator.log")
    yield operator
    operator.close()


def without_server_fields(manifest: Object) -> Object:
    """Return an object without what the API server and its controllers write about it."""
    metadata = {
        k: v for k, v in manifest["metadata"].items() if k not in {"managedFields", "resourceVersion"}
    }
    return {**{k: v for k, v in manifest.items() if k != "status"}, "metadata": metadata}


def test_an_upgrade_that_changes_nothing_writes_nothing_but_the_record(site: Site) -> None:
    site.install()
    before = site.live()
    since = datetime.now(UTC)
    site.upgrade("--reset-then-reuse-values")
    site.testbed.settle_audit()
    by_helm = [each for each in site.testbed.audit.writes(since=since) if each.user_agent.startswith("Helm/")]
    assert {f"{each.verb} {each.resource}" for each in by_helm} - RESENT == OF_HELM
    after = site.live()
    assert [without_server_fields(each) for each in after] == [without_server_fields(each) for each in before]


def test_values_of_an_upgrade_reach_the_cluster_and_a_rollback_takes_them_back(site: Site) -> None:
    def settings() -> tuple[int, bool, str | None]:
        by_key = {key_of(each)[1::2]: each for each in site.live()}
        return (
            by_key["Deployment", "winpool"]["spec"]["replicas"],
            ("PodDisruptionBudget", "winpool") in by_key,
            by_key["ConfigMap", "winpool-fence"].get("data", {}).get("allowNoExecute"),
        )

    site.install()
    assert settings() == (2, True, None)
    site.upgrade("--set", "replicas=1", "--set", "fence.allowNoExecute=false")
    assert settings() == (1, False, "false")
    assert site.kubectl("-n", NAMESPACE, "get", "poddisruptionbudget", "winpool").returncode != 0
    site.helm.run("rollback", RELEASE, "1", *HERE)
    assert settings() == (2, True, None)


def test_an_upgrade_keeps_what_an_admin_has_set_in_the_fence_unless_the_values_forbid(site: Site) -> None:
    def allowed() -> str | None:
        found = site.kubectl("get", "configmap", "winpool-fence", "-o", "json", *HERE)
        value: str | None = json.loads(found.stdout).get("data", {}).get("allowNoExecute")
        return value

    def patch(value: str) -> None:
        data = json.dumps({"data": {"allowNoExecute": value}})
        site.testbed.kubectl("patch", "configmap", "winpool-fence", "--type=merge", "-p", data, *HERE)

    site.install()
    patch("false")
    site.upgrade("--set", "fence.allowNoExecute=true")
    assert allowed() == "false"
    site.upgrade("--set", "fence.allowNoExecute=false")
    patch("true")
    site.upgrade("--set", "fence.allowNoExecute=false")
    assert allowed() == "false", "the page says that this value overrules what was patched by hand"
    site.upgrade("--set", "fence.allowNoExecute=true")
    assert allowed() is None


def test_the_crd_stays_when_the_chart_no_longer_has_it(site: Site) -> None:
    site.install()
    site.create_pool(SAMPLE)
    uid = site.pool(POOL)["metadata"]["uid"]
    site.upgrade("--set", "crd.create=false")
    assert site.pool(POOL)["metadata"]["uid"] == uid
    site.upgrade("--set", "crd.create=true")
    assert site.pool(POOL)["metadata"]["uid"] == uid


def test_a_pool_outlives_an_uninstallation_and_the_next_installation_continues_with_it(
    site: Site, operator: Operator
) -> None:
    before = site.nodes()
    site.install()
    site.testbed.renew_token()
    operator.start()
    site.create_pool(SAMPLE)
    site.testbed.kubectl("wait", "--for=condition=NodesUpToDate", "--timeout=120s", f"wnp/{POOL}")
    with_pool = site.nodes()
    assert all(POOL_LABEL in node["labels"] for node in with_pool.values())
    pool = site.pool(POOL)
    assert operator.metric("winpool_guard_in_force") == 1
    operator.kill()  # as the replicas, which are deleted with the rest

    assert CRD_NAME in site.uninstall()
    assert site.names() == ONLY_THE_CRD
    assert site.nodes() == with_pool
    found = site.pool(POOL)
    assert found["metadata"]["uid"] == pool["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]

    site.install()
    site.testbed.renew_token()  # the account is a new one of the same name
    operator.start()
    site.testbed.kubectl("delete", "wnp", POOL, "--timeout=120s")
    assert site.nodes() == before


def test_what_kubectl_has_applied_becomes_a_release_without_a_new_object(site: Site) -> None:
    site.testbed.kubectl("apply", "-k", str(DEPLOY))
    refused = site.helm.run("install", RELEASE, str(CHART), *HERE, check=False)
    assert refused.returncode != 0
    assert "exists and cannot be imported" in refused.stderr
    manifest = site.helm.run("template", RELEASE, str(CHART), *HERE, "--no-hooks").stdout

    def uids() -> dict[tuple[str, ...], str]:
        found = site.testbed.kubectl("get", "-o", "json", "-f", "-", stdin=manifest)
        return {key_of(each): each["metadata"]["uid"] for each in json.loads(found.stdout)["items"]}

    before = uids()
    assert f"helm install winpool deploy/chart {' '.join(HERE)} --take-ownership" in PAGE
    site.install("--take-ownership")
    assert uids() == before
    assert {each["metadata"]["labels"]["app.kubernetes.io/managed-by"] for each in site.live()} == {"Helm"}
    assert site.uninstall()
    assert site.names() == ONLY_THE_CRD


def test_the_api_server_takes_every_value_and_the_pod_of_the_test(site: Site) -> None:
    site.testbed.kubectl("apply", "-f", str(ROOT / "crds" / f"{CRD_NAME}.yaml"))
    arguments = [
        part for path, (value, *_) in WHERE.items() for part in ("--set-json", f"{path}={json.dumps(value)}")
    ]
    for values in ([], arguments):
        rendered = site.helm.template(*values)
        assert [each["metadata"]["name"] for each in rendered if is_test(each)] == [TEST_POD]
        applied = site.testbed.kubectl(
            *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=yaml.safe_dump_all(rendered)
        )
        assert len(applied.stdout.splitlines()) == len(rendered)
        assert "violate" not in applied.stderr
        assert "unknown" not in applied.stderr


# The notes.


def notes(site: Site, *arguments: str) -> str:
    """Return what an installation prints at its end, without one."""
    options = (*HERE, "--dry-run=server", *arguments)
    return site.helm.run("install", RELEASE, str(CHART), *options).stdout.partition("NOTES:")[2]


def test_notes_warn_of_a_namespace_without_the_profile(site: Site) -> None:
    command = f"kubectl label namespace {NAMESPACE} {PROFILE}=restricted"
    assert "WARNING" not in notes(site)
    site.testbed.kubectl("label", "namespace", NAMESPACE, f"{PROFILE}-")
    try:
        assert command in notes(site)
    finally:
        site.testbed.kubectl(*command.split()[1:])


def test_notes_warn_of_tokens_without_tls(site: Site) -> None:
    token = ("--set", "metrics.auth=token")
    assert "metrics.tlsSecretName" in notes(site, *token)
    assert "WARNING" not in notes(site, *token, "--set", "metrics.tlsSecretName=winpool-tls")


# helm test.


def as_kubelet(site: Site, *, url: str) -> None:
    """Run the command of the Pod of the test in its place, and report how it ended.

    The simulated nodes start no containers. Of the command, only the interpreter, the address and the number
    of attempts are others: those of the image and of the Service do not exist here.
    """
    api = site.testbed.api()

    def started() -> Object | None:
        found: list[Object] = api.get(PODS, fieldSelector=f"metadata.name={TEST_POD}")["items"]
        return next((each for each in found if each["status"].get("phase") == "Running"), None)

    pod = eventually(started, what="the Pod of the test on a node", seconds=120)
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    _, option = container["command"]
    script, _, _ = container["args"]
    done = subprocess.run([sys.executable, option, script, url, "2"], timeout=120, check=False)
    phase = "Failed" if done.returncode else "Succeeded"
    api.merge(f"{PODS}/{TEST_POD}/status", {"status": {"phase": phase}})


def outcome_of_test_at(site: Site, *, url: str) -> tuple[int, str]:
    """Return the exit code of ``helm test`` and what it prints."""
    assert f"helm test {RELEASE} {' '.join(HERE)}\n" in PAGE
    with subprocess.Popen(
        [str(site.helm.binary), "test", RELEASE, *HERE, "--timeout", "4m"],
        env=site.helm.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            as_kubelet(site, url=url)
            said, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    return process.returncode, said


def test_helm_test_succeeds_with_a_ready_operator_and_fails_without(site: Site, operator: Operator) -> None:
    site.install()
    site.testbed.renew_token()
    operator.start()
    code, said = outcome_of_test_at(site, url=f"http://127.0.0.1:{operator._port()}/readyz")
    assert (code, "Phase:          Succeeded" in said) == (0, True), said
    operator.stop()
    code, said = outcome_of_test_at(site, url="http://127.0.0.1:9/readyz")
    assert (code != 0, "Phase:          Failed" in said) == (True, True), said
