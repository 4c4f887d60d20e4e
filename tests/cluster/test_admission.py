"""What the API server says to a manifest: the tables of ``admission/`` against the generated CRD.

What is refused is sent as a dry run over one kept connection; a dozen that stand for all kinds go through
kubectl too, since its words are what people read. What is accepted is really stored, by kubectl: a dry run
would not show defaults being kept, nor that applying again changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster.admission import tables
from cluster.admission.server import Server
from winpool.api.matrix import Verdict
from winpool.api.model import InvalidSpecError
from winpool.api.spec import WindowsNodePool
from winpool.api.status import (
    MAX_BUILDS,
    MAX_GATES,
    MAX_HISTORY,
    MAX_ISSUES,
    MAX_PLAN_STEPS,
    Build,
    Condition,
    ControlPlaneSeen,
    HistoryEntry,
    HistoryResult,
    Issue,
    Plan,
    PlanAction,
    PlanStep,
    PlanUpgrade,
    WindowsNodePoolStatus,
)
from winpool.cli.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster import Testbed

DEFAULTS = {"mode": "Active"}
"""What the API server adds to a spec."""

MEMORY_DEFAULTS = {"mode": "Observe", "sources": [{"type": "Kubelet"}]}
EVICTION_DEFAULTS = {
    "maxPodsPerNode": 3,
    "periodSeconds": 600,
    "maxNodes": "5%",
    "maxPressuredNodes": "20%",
    "minPodAgeSeconds": 120,
}
"""What it adds to a block that asks for memory pressure, and to the limits in it, which it adds too."""

UPGRADE_DEFAULTS = {
    "strategy": "Manual",
    "method": "InPlace",
    "maxUnavailable": 1,
    "maxFailedNodes": 0,
    "maxBlockedNodes": 0,
}
"""What it adds to a block about upgrades."""

GO_MAP = re.compile(r"map\[string\]interface \{\}(\{[^}]*\})")

NOISE = (
    "<nil>",
    "some validation rules were not checked",
    "no such key",
    "evaluating rule",
    "in body should",
)
"""What the API server says besides, where a fault switches rules off or a rule fails instead of answering."""


READ_BY_PEOPLE = (
    "the selector names no label",
    "an expression's value that ends in a dash",
    "a floor above the target",
    "a minor version that lost its zero",
    "a label of Kubernetes itself",
    "a label value with a slash",
    "no headroom",
    "shares of RAM as if they were used",
    "a percentage of nodes with a blank",
    "a rule of evictions about all pods",
    "an override of the budget",
    "a rollout that runs Jobs",
    "a name with a dot",
    "no selector",
    "the Windows release without quotes",
    "two rows about one release",
    "a mode that does not exist",
    "seventeen taints",
    "a field that does not exist",
    "a selector written without matchLabels",
)
"""Refused manifests that go through kubectl too: of all who refuse, with each form of field and sentence."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What kubectl said when all good pools were applied, and applied again, and the pools as stored."""

    first: str
    second: str
    pools: dict[str, dict[str, Any]]


def create(testbed: Testbed, manifest: dict[str, Any], *, validate: str = "strict") -> str:
    """Try to create a pool that must be refused; return what kubectl says."""
    result = testbed.kubectl(
        "create", f"--validate={validate}", "-f", "-", stdin=json.dumps(manifest), check=False
    )
    if result.returncode == 0:
        testbed.kubectl("delete", "wnp", manifest["metadata"]["name"])
        pytest.fail(f"accepted, and should be refused: {json.dumps(manifest['spec'])}")
    return result.stderr


def apply(testbed: Testbed, manifest: dict[str, Any], *more: str, check: bool = True) -> str:
    done = testbed.kubectl(
        "apply", "--validate=strict", *more, "-f", "-", stdin=json.dumps(manifest), check=check
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(testbed: Testbed) -> Server:
    return Server(testbed.api())


@pytest.fixture
def stored(server: Server) -> Iterator[str]:
    """Store a pool and give its name; it is gone again after the test."""
    name = "admission-stored"
    manifest = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "spec": tables.SMALLEST}
    server.create({**manifest, "metadata": {"name": name}})
    yield name
    server.delete(name)


@pytest.fixture(scope="module")
def kept(testbed: Testbed, server: Server) -> Iterator[Kept]:
    """Apply all good pools twice, each time by one kubectl, which goes on after one that is refused."""
    manifests = [case.manifest for case in tables.accepted()]
    wanted = {"apiVersion": "v1", "kind": "List", "items": manifests}
    names = {manifest["metadata"]["name"] for manifest in manifests}
    assert len(names) == len(manifests), "two cases have one name"
    first, second = (apply(testbed, wanted, check=False) for _ in range(2))
    found = json.loads(testbed.kubectl("get", "wnp", "-o", "json").stdout)["items"]
    pools = {pool["metadata"]["name"]: pool for pool in found}
    yield Kept(first, second, pools)
    for name in names & pools.keys():  # kubectl, which asks for each before, takes half a minute
        server.delete(name)


@pytest.mark.parametrize("case", tables.refused("rule"), ids=lambda case: case.name)
def test_a_fault_is_refused_with_one_sentence_that_names_the_field(
    case: tables.Refused, server: Server
) -> None:
    status = server.refuse(case.manifest)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    [cause] = status["details"]["causes"]
    assert cause["field"] == case.field
    assert case.error in cause["message"]
    with pytest.raises(InvalidSpecError) as caught:
        WindowsNodePool.from_object(case.manifest)
    for problem in caught.value.problems:
        field, _, sentence = problem.partition(": ")
        assert field == case.field
        assert sentence in cause["message"], "the operator and the API server say the same, word for word"
    assert f" {case.field}: " in status["message"]
    assert cause["message"] in status["message"]
    assert not [noise for noise in NOISE if noise in status["message"]], status


@pytest.mark.parametrize("case", tables.refused("schema", "decoder"), ids=lambda case: case.name)
def test_a_fault_of_form_is_refused_in_the_words_of_the_api_server(
    case: tables.Refused, server: Server
) -> None:
    status = server.refuse(case.manifest)
    wanted = (400, "BadRequest") if case.by == "decoder" else (422, "Invalid")
    assert (status["code"], status["reason"]) == wanted
    assert case.field in status["message"]
    assert case.error in with_json(status["message"])


def with_json(said: str) -> str:
    """Return an answer with its objects as JSON; older API servers, such as 1.32, print them as Go does."""
    return GO_MAP.sub(lambda found: found[1].replace('", "', '","'), said)


@pytest.mark.parametrize("name", READ_BY_PEOPLE)
def test_people_read_it_in_what_kubectl_says(name: str, testbed: Testbed) -> None:
    [case] = [case for case in tables.refused() if case.name == name]
    said = create(testbed, case.manifest)
    assert case.field in said
    assert case.error in with_json(said)
    if case.by == "rule":
        assert f" {case.field}: " in said
        assert not [noise for noise in NOISE if noise in said], said
        # kubectl prints one fault on one line, and several as a list.
        assert "\n* " not in said


@pytest.mark.parametrize("case", tables.accepted(), ids=lambda case: case.name)
def test_a_good_pool_is_kept_as_it_was_written(case: tables.Accepted, kept: Kept) -> None:
    name = case.manifest["metadata"]["name"]
    assert f"windowsnodepool.winpool.dev/{name} created" in kept.first.splitlines(), kept.first
    assert f"windowsnodepool.winpool.dev/{name} unchanged" in kept.second.splitlines(), kept.second
    pool = kept.pools[name]
    assert pool["spec"] == with_defaults(case.manifest["spec"])
    assert pool["status"] == {"observedGeneration": -1}
    read = WindowsNodePool.from_object(pool)
    assert read.metadata.uid == pool["metadata"]["uid"]
    assert read.spec == WindowsNodePool.from_object(case.manifest).spec


def with_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec as the API server keeps it.

    No item of a list has a default: ``kubectl apply`` would say "configured" each time, and Argo CD that the
    pool is out of sync for ever.
    """
    full = {**DEFAULTS, **spec}
    if "reservedMemory" in spec:
        full["reservedMemory"] = {"onMismatch": "Report", **spec["reservedMemory"]}
    if "memoryPressure" in spec:
        pressure = spec["memoryPressure"]
        eviction = {**EVICTION_DEFAULTS, **pressure.get("eviction", {})}
        full["memoryPressure"] = {**MEMORY_DEFAULTS, **pressure, "eviction": eviction}
    if "upgrade" in spec:
        full["upgrade"] = {**UPGRADE_DEFAULTS, **spec["upgrade"]}
    return full


def test_a_selector_written_without_match_labels_never_takes_all_nodes(testbed: Testbed) -> None:
    """Without strict validation the unknown field is dropped, and what is left would select everything."""
    case = next(case for case in tables.refused("decoder") if case.field.startswith("spec.nodeSelector"))
    said = create(testbed, case.manifest, validate="ignore")
    assert "spec.nodeSelector: " in said
    assert "must name at least one label" in said


def test_two_owners_can_each_have_a_taint(testbed: Testbed, server: Server, stored: str) -> None:
    """Taints are merged by key and effect where both owners use server-side apply."""
    head = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": stored}}
    for owner in ("a", "b"):
        taints = [{"key": owner, "effect": "NoSchedule"}]
        manifest = {**head, "spec": {**tables.SMALLEST, "taints": taints}}
        apply(testbed, manifest, "--server-side", f"--field-manager={owner}")
    assert [taint["key"] for taint in server.read(stored)["spec"]["taints"]] == ["a", "b"]


@pytest.mark.nightly
def test_the_largest_status_is_taken_and_reads_back_equal(server: Server, stored: str) -> None:
    """Whatever the operator has to say, no length of it may cost the whole report."""
    now, text = datetime.now(UTC), "ü" * 5000
    generation = server.read(stored)["metadata"]["generation"]
    status = WindowsNodePoolStatus(
        observed_generation=generation,
        nodes=2**31 - 1,
        builds=tuple(
            Build(
                build=f"{number}{text}",
                os_version=text,
                nodes=2**31 - 1,
                min_revision=0,
                max_revision=2**31 - 1,
                verdict=Verdict.UNSUPPORTED,
                end_of_support=text,
            )
            for number in range(MAX_BUILDS + 1)
        ),
        issues=tuple(
            Issue(reason=text, node_count=2**31 - 1, nodes=(text,) * 4, since=now, message=text, fix=text)
            for _ in range(MAX_ISSUES + 1)
        ),
        issue_count=2**31 - 1,
        plan=Plan(
            total_nodes=5000,
            steps=tuple(
                PlanStep(
                    node=text,
                    action=PlanAction.UPGRADE,
                    reason=text,
                    batch=2**31 - 1,
                    closed_gates=(text,) * (MAX_GATES + 1),
                )
                for _ in range(MAX_PLAN_STEPS + 1)
            ),
            upgrade=PlanUpgrade(
                due_nodes=2**31 - 1,
                permitted_nodes=0,
                batches=2**31 - 1,
                closed_gates=(text,) * (MAX_GATES + 1),
                likely_seconds=2**53 - 1,
                worst_case_seconds=2**53 - 1,
            ),
        ),
        control_plane=ControlPlaneSeen(version=text, since=now),
        history=tuple(
            HistoryEntry(
                target=text,
                start_time=now,
                end_time=now,
                nodes=2**31 - 1,
                failed_nodes=2**31 - 1,
                result=result,
                overrides=(text,) * (MAX_GATES + 1),
            )
            for result in list(HistoryResult) * MAX_HISTORY
        ),
        conditions=tuple(
            Condition(
                type=f"Type{number}",
                status="True",
                observed_generation=generation,
                last_transition_time=now,
                reason="R" * 128,
                message=text,
            )
            for number in range(32)
        ),
    )
    server.report(stored, status.to_object())
    assert WindowsNodePool.from_object(server.read(stored)).status == status


def test_an_unseen_pool_says_so_and_has_no_counts(server: Server, stored: str) -> None:
    """A tool that asks before the operator has looked must not take absent counts for zeros."""
    assert server.read(stored)["status"] == {"observedGeneration": -1}
    server.report(stored, {"observedGeneration": None})
    assert server.read(stored)["status"] == {"observedGeneration": -1}


def test_a_count_of_zero_can_be_waited_for(testbed: Testbed, server: Server, stored: str) -> None:
    server.report(stored, WindowsNodePoolStatus(observed_generation=1).to_object())
    testbed.kubectl("wait", f"wnp/{stored}", "--for=jsonpath={.status.readyNodes}=0", "--timeout=30s")


def test_pools_can_be_listed_by_release_and_by_mode(testbed: Testbed, stored: str) -> None:
    def names(selector: str) -> str:
        return testbed.kubectl("get", "wnp", f"--field-selector={selector}", "-o", "name").stdout

    assert stored in names("spec.os.version=2022,spec.mode=Active")
    assert stored not in names("spec.os.version=2025")
    assert stored not in names("spec.mode=Paused")
    assert stored in testbed.kubectl("get", "windowspools", "-o", "name").stdout


def test_the_table_of_pools_fits_into_80_columns(testbed: Testbed, server: Server, stored: str) -> None:
    """For names of up to 16 and reasons of up to 19 characters."""
    condition = Condition(
        type="Ready",
        status="True",
        observed_generation=1,
        last_transition_time=datetime.now(UTC),
        reason="RolloutInProgress12",
        message="",
    )
    status = WindowsNodePoolStatus(
        nodes=5000, ready_nodes=5000, up_to_date_nodes=5000, conditions=(condition,)
    )
    server.report(stored, status.to_object())
    head, row = testbed.kubectl("get", "wnp", stored).stdout.splitlines()
    assert head.split() == ["NAME", "OS", "NODES", "READY", "UP-TO-DATE", "STATE", "AGE"]
    assert row.split()[:-1] == [stored, "2022", "5000", "5000", "5000", "RolloutInProgress12"]
    assert len(stored) == 16
    assert max(len(head.rstrip()), len(row.rstrip())) <= 80
    wide = testbed.kubectl("get", "wnp", stored, "-o", "wide").stdout.splitlines()[0]
    usual, added = head.split(), ["MODE", "AVAILABLE", "SUPPORTED", "ISSUES", "BLOCKED", "PRESSURED", "HELD"]
    assert wide.split() == [*usual[:-1], *added, usual[-1]]


def test_a_build_that_nobody_knows_can_be_reported(server: Server, stored: str) -> None:
    status = WindowsNodePoolStatus(
        observed_generation=1, builds=(Build(build="unknown", nodes=1, verdict=Verdict.UNKNOWN),)
    )
    server.report(stored, status.to_object())
    kept = server.read(stored)["status"]["builds"]
    assert kept == [{"build": "unknown", "nodes": 1, "verdict": "Unknown"}]


@pytest.mark.parametrize("exists", [False, True])
def test_validate_asks_the_api_server_and_stores_nothing(
    testbed: Testbed,
    stored: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    exists: bool,
) -> None:
    name = stored if exists else "admission-not-stored"
    good = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": name}}
    good["spec"] = {**tables.SMALLEST, "labels": {"team": "payments"}}
    file = tmp_path / "pool.json"
    options = ("--dry-run=server", "--kubeconfig", str(testbed.kubeconfig("admin")))
    before = testbed.kubectl("get", "wnp", "-o", "json").stdout
    file.write_text(json.dumps(good))
    assert main(["validate", "-f", str(file), *options]) == 0
    assert "1 pool valid" in capsys.readouterr().err
    for case in (
        next(case for case in tables.refused("rule") if case.name == "a floor above the target"),
        next(case for case in tables.refused("schema") if case.name == "a row without a release"),
        next(case for case in tables.refused("decoder") if case.name == "a field that does not exist"),
    ):
        file.write_text(json.dumps({**case.manifest, "metadata": {"name": name}}))
        assert main(["validate", "-f", str(file), *options]) == 3
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(f"{file}:1: document 1 ({name}): ")
        assert case.field in line
        assert case.error in line
    assert testbed.kubectl("get", "wnp", "-o", "json").stdout == before


def test_kubectl_finds_the_plugin(testbed: Testbed) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    samples = Path(__file__).parents[2] / "deploy" / "samples"
    done = testbed.kubectl("winpool", "validate", "-f", str(samples), environment={"PATH": path})
    assert done.stdout == ""
    assert f"{len(list(samples.glob('*.yaml')))} pools valid" in done.stderr


def test_the_api_server_takes_every_sample(testbed: Testbed) -> None:
    samples = Path(__file__).parents[2] / "deploy" / "samples"
    done = testbed.kubectl("apply", "--dry-run=server", "-f", str(samples))
    assert done.stdout.count(" created (server dry run)") == len(list(samples.glob("*.yaml")))


@pytest.mark.parametrize(
    "field",
    [
        "spec",
        "spec.nodeSelector",
        "spec.os",
        "spec.supportMatrix",
        "spec.supportMatrix.kubernetesVersions",
        "spec.taints.effect",
        "spec.memoryPressure",
        "spec.memoryPressure.sources.prometheus",
        "spec.memoryPressure.pageFile",
        "spec.memoryPressure.commit",
        "spec.memoryPressure.physical",
        "spec.memoryPressure.eviction",
        "spec.memoryPressure.eviction.rules",
        "status",
        "status.builds",
    ],
)
def test_kubectl_explains_every_field(testbed: Testbed, field: str) -> None:
    explained = testbed.kubectl("explain", f"wnp.{field}").stdout
    assert "<no description>" not in explained
    assert "<empty>" not in explained
