"""``validate`` from the files to the exit code."""

from __future__ import annotations

import copy
import json
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admission import tables
from harness.builders import a_spec
from winpool.cli.manifests import faults_of
from winpool.cli.validate import outlook
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin

LAST_WORD = "The API server makes the final decision: ask it with --dry-run=server."

GOOD = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: win-2022}
spec:
  nodeSelector: {matchLabels: {agentpool: win22}}
  os: {version: "2022"}
"""
HEAD = "apiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: win-2022}\nspec:\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: payments}\n"


def test_a_good_pool_is_valid(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", stdin=GOOD)
    assert (ended.code, ended.out, ended.err[1:]) == (0, [], ["1 pool valid", LAST_WORD])
    # What the verdict is depends on the day; test_outlook has those.
    assert ended.err[0].startswith("stdin:1: document 1 (win-2022): Windows Server 2022: ")
    assert ended.err[0].endswith(f"; data from {built_in().as_of}")


def test_a_pool_that_reserves_little_for_windows_is_valid_with_a_warning(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", stdin=f"{GOOD}  reservedMemory: {{systemReserved: 1Gi}}\n")
    assert (ended.code, ended.err[2]) == (0, "1 pool valid")
    assert ended.err[1].startswith("stdin:1: document 1 (win-2022): warning: The pool declares 1524Mi (")
    assert "that is 1Gi: less than the 2Gi that is good practice" in ended.err[1]
    assert len(plugin("validate", "-f", "-", stdin=f"{GOOD}  reservedMemory: {{}}\n").err) == 3


def test_a_row_that_the_operator_would_refuse_is_refused(plugin: Plugin) -> None:
    """The CRD cannot know which releases there are."""
    ended = plugin(
        "validate", "-f", "-", stdin=f'{GOOD}  supportMatrix:\n  - {{osVersion: "2018", verdict: Allow}}\n'
    )
    assert ended.code == 3
    (line,) = ended.out
    assert line.startswith("stdin:8: document 1 (win-2022): spec.supportMatrix: row for osVersion '2018'")


def test_a_status_in_the_manifest_is_not_looked_at(plugin: Plugin) -> None:
    """As in a create: the API server drops it."""
    assert plugin("validate", "-f", "-", stdin=f"{GOOD}status: {{nodes: -1}}\n").code == 0


def test_every_fault_is_a_line_with_its_place(plugin: Plugin) -> None:
    """Also of the rules that the models ask only where no field is unknown."""
    text = f"""{HEAD}\
  nodeSelector: {{matchLabels: {{agentpool: win22}}}}
  os: {{version: 2022}}
  supportMatrix:
  - osVersion: "2019"
    endOfSupport: 2027-02-30
  - {{osVersion: "2022", min_revision: 7, minRevision: "7"}}
  lables: {{}}
"""
    Path("pool.yaml").write_text(
        text.replace("{name: win-2022}", "{name: win-2022, labels: {a: 1}, lables: {}}")
    )
    ended = plugin("validate", "-f", "pool.yaml")
    assert ended.code == 3
    must_be_text = "must be a string. Put a number or a boolean in quotes"
    assert ended.out == [
        f"pool.yaml:{line}: document 1 (win-2022): {said}"
        for line, said in (
            (3, f"metadata.labels[a]: {must_be_text}"),
            (3, "metadata.lables: is an unknown field"),
            (6, f"spec.os.version: {must_be_text}"),
            (
                9,
                "spec.supportMatrix[0].endOfSupport: must be a date that exists, as year-month-day, such as "
                "'2027-04-01'",
            ),
            (10, "spec.supportMatrix[1].minRevision: must be a whole number, without quotes"),
            (10, "spec.supportMatrix[1].min_revision: is an unknown field"),
            (11, "spec.lables: is an unknown field"),
        )
    ]
    assert ended.err == ["7 errors", LAST_WORD]


def test_what_only_the_operator_checks_is_refused_too(plugin: Plugin) -> None:
    """Schedules, time zones, releases and what closes for ever: no CEL rule can know them."""
    windows = '[{schedule: "%s", durationSeconds: 3600, timeZone: %s}]'
    always = '[{start: "2020-01-01T00:00:00Z", end: "2999-01-01T00:00:00Z"}]'
    wanted = {
        f"maintenanceWindows: {windows % ('61 0 * * *', 'Etc/UTC')}": "maintenanceWindows[0].schedule: ",
        f"maintenanceWindows: {windows % ('0 0 30 2 *', 'Etc/UTC')}": "maintenanceWindows[0].schedule: ",
        f"maintenanceWindows: {windows % ('0 0 * * *', 'Europe/Berln')}": "maintenanceWindows[0].timeZone: ",
        f"maintenanceExclusions: {always}": "maintenanceExclusions: they cover every maintenance window",
    }
    for upgrade, said in wanted.items():
        ended = plugin("validate", "-f", "-", stdin=f"{GOOD}  upgrade:\n    {upgrade}\n")
        assert ended.code == 3
        (line,) = ended.out
        assert line.startswith(f"stdin:8: document 1 (win-2022): spec.upgrade.{said}")
    unknown = GOOD.replace("2022", "2023")
    assert plugin("validate", "-f", "-", stdin=unknown).code == 0
    (line,) = plugin("validate", "-f", "-", stdin=f"{unknown}  upgrade: {{}}\n").out
    assert line.startswith(
        "stdin:6: document 1 (win-2023): spec.os.version is 2023, but the support matrix has"
    )


def test_what_only_the_operator_checks_is_told_at_once_however_much_it_is(plugin: Plugin) -> None:
    windows = """\
  upgrade:
    maintenanceWindows:
    - {schedule: "0 25 * * 6", durationSeconds: 3600, timeZone: Europe/Berlim}
    - {schedule: "0 2 * * 6", durationSeconds: 3600, timeZone: Europe/Berlim}
"""
    ended = plugin("validate", "-f", "-", stdin=GOOD.replace("2022", "2023") + windows)
    assert ended.code == 3
    places = (
        "6: document 1 (win-2023): spec.os.version is 2023",
        "9: document 1 (win-2023): spec.upgrade.maintenanceWindows[0].schedule: ",
        "9: document 1 (win-2023): spec.upgrade.maintenanceWindows[0].timeZone: ",
        "10: document 1 (win-2023): spec.upgrade.maintenanceWindows[1].timeZone: ",
    )
    assert len(ended.out) == len(places)
    for line, place in zip(ended.out, places, strict=True):
        assert line.startswith(f"stdin:{place}")
    assert ended.err[0] == "4 errors"


def test_what_the_api_server_drops_or_ignores_is_no_fault(plugin: Plugin) -> None:
    pool = {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {
            "generateName": "win-",
            "name": None,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"Example.com/Note": "any text at all"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            "creationTimestamp": None,
        },
        "spec": {
            "nodeSelector": {"matchLabels": {"a": "b"}},
            "os": {"version": "2022", "minRevision": None},
            "mode": None,
            "labels": {"a": None},
        },
        "status": {"nodes": "of a dump"},
    }
    assert plugin("validate", "-f", "-", stdin=json.dumps(pool)).code == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"metadata": {}}, "metadata.name: must be given"),
        ({"metadata": None}, "metadata.name: must be given"),
        ({"metadata": "x"}, "metadata: must be an object"),
        ({"metadata": {"name": "Win"}}, "metadata.name: must be at most 63 lowercase letters"),
        ({"metadata": {"generateName": "X."}}, "metadata.name: must be at most 63 lowercase letters"),
        ({"metadata": {"name": "a" * 300}}, "metadata.name: must have at most 253 characters"),
        ({"spec": None}, "spec: must be given"),
        ({"spec": "x"}, "spec: must be an object"),
        ({"speck": 1}, "speck: is an unknown field"),
    ],
)
def test_the_parts_of_an_object_are_checked(plugin: Plugin, more: dict[str, Any], said: str) -> None:
    spec = {"nodeSelector": {"matchLabels": {"a": "b"}}, "os": {"version": "2022"}}
    pool = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "a"}}
    ended = plugin("validate", "-f", "-", stdin=json.dumps({**pool, "spec": spec, **more}))
    assert ended.code == 3
    assert len(ended.out) == 1
    assert f": {said}" in ended.out[0]


@pytest.mark.slow
def test_what_the_api_server_refuses_is_refused_with_its_field() -> None:
    """The tables of ``tests/cluster/test_admission.py``, where a real API server is asked."""

    def at(field: str) -> str:
        return field.replace("[", ".").replace("]", "")

    assert len(tables.refused()) >= 200
    missed = []
    for case in tables.refused():
        told = [fault.partition(": ")[0] for fault in faults_of(case.manifest)]
        if not any(at(case.field).startswith(at(field)) for field in told):
            missed.append(f"{case.name}: {case.field} is not among {told}")
        elif case.by == "rule" and not any(case.error in fault for fault in faults_of(case.manifest)):
            missed.append(f"{case.name}: not said in the words of the rule")
    assert missed == []


def test_what_the_api_server_takes_is_valid() -> None:
    told = {case.name: faults_of(case.manifest) for case in tables.accepted()}
    assert len(told) >= 30
    refused = {name: faults for name, faults in told.items() if faults}
    assert refused.keys() == {
        "a leap day of a century",
        "builds at both ends",
        "rows with one field each",
        "sixteen rows",
    }
    rows = {fault.partition(": ")[0] for faults in refused.values() for fault in faults}
    assert rows == {"spec.supportMatrix"}, "only the operator knows which releases there are"


def test_more_faults_than_a_status_would_name_are_all_told() -> None:
    taints = [{"key": f"winpool.dev/{number}", "effect": "NoSchedule"} for number in range(12)]
    pool = {"metadata": {"name": "a"}, "spec": {**tables.SMALLEST, "taints": taints}}
    fields = [fault.partition(": ")[0] for fault in faults_of(pool)]
    assert fields == [f"spec.taints[{number}].key" for number in range(12)]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["os", "version", "osVersion", "taints", "key", "minRevision", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(["metadata", "spec", "status"]), ANYTHING)
def test_nothing_crashes(name: str, content: Any) -> None:
    pool = {"metadata": {"name": "a"}, "spec": tables.SMALLEST, name: content}
    before = copy.deepcopy(pool)
    assert all(faults_of(pool))
    assert pool == before


def test_a_key_that_is_there_twice_is_refused(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", stdin=f'{GOOD}  os: {{version: "2025"}}\n')
    assert ended.code == 3
    assert ended.out == ['stdin:7: document 1 (win-2022): key "os" is already set on line 6']


def test_folders_files_and_documents_are_all_looked_at(plugin: Plugin) -> None:
    Path("pools").mkdir()
    Path("pools/b.yml").write_text(GOOD)
    Path("pools/a.yaml").write_text(f"---\n{GOOD}---\n{GOOD.replace('2022', '2025')}")
    Path("pools/notes.txt").write_text("kind: [")
    pool = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "x"}}
    Path("more.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [pool]}))
    ended = plugin("validate", "-f", "pools", "-f", "more.json")
    assert ended.out == ["more.json:1: document 1, item 1 (x): spec: must be given"]
    assert plugin("validate", "-f", "pools/").err[-2:] == ["3 pools valid", LAST_WORD]


def test_with_r_the_folders_below_are_looked_at_too(plugin: Plugin) -> None:
    for folder, name in (("pools", "win-a"), ("pools/b", "win-b"), ("pools/b/c", "win-c")):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "pool.yaml").write_text(GOOD.replace("win-2022", name))
    assert plugin("validate", "-f", "pools").err[-2] == "1 pool valid"
    ended = plugin("validate", "-R", "-f", "pools")
    assert ended.err[-2] == "3 pools valid"
    assert [line.partition(":")[0] for line in ended.err[:3]] == [
        "pools/pool.yaml",
        "pools/b/pool.yaml",
        "pools/b/c/pool.yaml",
    ]


def test_flags_for_a_cluster_that_is_not_asked_are_taken_and_said_to_have_no_effect(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", "--context", "prod", stdin=GOOD)
    assert ended.code == 0
    assert ended.err[0] == "--context has no effect: without --dry-run=server no cluster is contacted"


def test_objects_of_other_kinds_are_passed_over_with_a_note(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", stdin=f"{NAMESPACE}---\n{GOOD}")
    assert (ended.code, ended.out) == (0, [])
    assert [line for line in ended.err if "; data from " not in line] == [
        "stdin:1: document 1 (payments): skipped, Namespace is not WindowsNodePool",
        "1 pool valid",
        LAST_WORD,
    ]


@pytest.mark.parametrize("text", ["", "---\n", NAMESPACE])
def test_where_there_is_no_pool_nothing_is_called_valid(plugin: Plugin, text: str) -> None:
    ended = plugin("validate", "-f", "-", stdin=text)
    assert (ended.code, ended.out) == (1, ["no WindowsNodePool found"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD.replace("v1alpha1", "v1beta1"), 'no matches for kind "WindowsNodePool" in version'),
        (GOOD.replace("winpool.dev", "example.com"), 'no matches for kind "WindowsNodePool" in version'),
        (GOOD.replace("WindowsNodePool", "WindowsNodepool"), 'no matches for kind "WindowsNodepool"'),
        (GOOD.replace("kind: WindowsNodePool\n", ""), "kind not set"),
        (GOOD.replace("apiVersion: winpool.dev/v1alpha1\n", ""), "apiVersion not set"),
        ("- a\n", "must be an object with `apiVersion` and `kind`"),
        ("hello\n", "must be an object with `apiVersion` and `kind`"),
    ],
)
def test_what_is_nearly_a_pool_is_refused(plugin: Plugin, text: str, sentence: str) -> None:
    ended = plugin("validate", "-f", "-", stdin=text)
    assert ended.code == 3
    assert sentence in ended.out[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"kind: [\n", "bad.yaml:2: not YAML: "),
        ("# für\nreason: 'für'".encode("latin-1"), "bad.yaml:1: not UTF-8 at byte 4"),
    ],
)
def test_a_document_that_cannot_be_read_is_no_answer_unless_another_is_refused(
    plugin: Plugin, content: bytes, sentence: str
) -> None:
    Path("bad.yaml").write_bytes(content)
    Path("pool.yaml").write_text(GOOD)
    ended = plugin("validate", "-f", "bad.yaml", "-f", "pool.yaml")
    assert ended.code == 1
    (line,) = ended.out
    assert line.startswith(sentence)
    assert ended.err[-2] == "1 error"
    Path("pool.yaml").write_text(GOOD.replace("os:", "so:"))
    assert plugin("validate", "-f", "bad.yaml", "-f", "pool.yaml").code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("-f", "nowhere.yaml"), 2, "nowhere.yaml: No such file or directory"),
        (("-f", "https://example.com/pool.yaml"), 2, "https://example.com/pool.yaml: URLs are not supported"),
        (("-f", "pool.yaml", "--dry-run=server"), 1, "kubectl cannot be started"),
    ],
)
def test_what_cannot_be_asked_or_opened_is_no_refusal(
    plugin: Plugin, arguments: tuple[str, ...], code: int, word: str
) -> None:
    Path("pool.yaml").write_text(GOOD)
    ended = plugin("validate", *arguments)
    assert (ended.code, ended.out) == (code, [])
    (line,) = ended.err
    assert line.startswith("kubectl winpool validate: ")
    assert word in line


def test_one_pool_that_the_server_refuses_is_a_no_whatever_it_says_of_the_others(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/bin/sh\nif grep -q bad "$5"\n'
        "then echo 'The WindowsNodePool \"bad\" is invalid: spec.os: no'\n"
        "else echo 'Error from server (InternalError): no webhook'\nfi >&2\nexit 1\n"
    )
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    unasked = plugin("validate", "-f", "-", "--dry-run=server", stdin=GOOD)
    assert (unasked.code, unasked.out) == (1, [])
    assert "no webhook" in unasked.err[-1]
    text = f"{GOOD}---\n{GOOD.replace('win-2022', 'bad')}"
    refused = plugin("validate", "-f", "-", "--dry-run=server", stdin=text)
    assert (refused.code, refused.out) == (3, ["stdin:8: document 2 (bad): spec.os: no"])
    assert "no webhook" in refused.err[0]


def test_a_name_cannot_move_the_cursor(plugin: Plugin) -> None:
    text = GOOD.replace("win-2022", '"a\\e[2Jb\\n"')
    (line,) = plugin("validate", "-f", "-", stdin=text).out
    assert line.isprintable()
    assert "\\x1b[2Jb\\n" in line


TODAY = date(2026, 11, 21)
END_OF_2022 = date(2031, 10, 14)


def outlook_of(version: str, *rows: dict[str, Any], today: date = TODAY) -> str:
    spec = a_spec(more={"os": {"version": version}, "supportMatrix": list(rows)})
    return outlook(spec, matrix=built_in(), today=today)


def test_outlook_tells_the_verdict_with_each_minor_that_is_maintained() -> None:
    assert outlook_of("2022") == (
        "Windows Server 2022: Supported with Kubernetes 1.35 and 1.36 and 1.37; supported until 2031-10-14; "
        f"data from {built_in().as_of}"
    )


def test_a_release_that_was_dropped_is_told_before_any_node_runs_it() -> None:
    assert "Unsupported with Kubernetes 1.35 and 1.36 and 1.37" in outlook_of("20H2")
    assert "Warned with Kubernetes 1.35 and 1.36, Unknown with Kubernetes 1.37" in outlook_of("2019")


def test_rows_of_the_pool_are_heard() -> None:
    row = {"osVersion": "2019", "kubernetesVersions": {"max": "1.35"}, "verdict": "Allow"}
    assert "Supported with Kubernetes 1.35, Unsupported with Kubernetes 1.36 and 1.37" in outlook_of(
        "2019", row
    )
    assert "; supported until 2027-01-31; " in outlook_of(
        "2022", {"osVersion": "2022", "endOfSupport": "2027-01-31"}
    )


def test_a_release_that_shares_its_build_is_told_as_its_nodes_would_be_judged() -> None:
    row = {"osVersion": "2019", "verdict": "Allow"}
    title = "Windows Server 1809, judged as 2019, which has the same build: "
    assert outlook_of("1809", row) == title + outlook_of("2019", row).removeprefix("Windows Server 2019: ")
    assert "supported until 2029-01-09" in outlook_of("1809", row)


@pytest.mark.parametrize(
    ("after", "ending"),
    [(0, "; supported until 2031-10-14"), (1, "; support ended on 2031-10-14")],
)
def test_the_last_day_is_one_of_support(after: int, ending: str) -> None:
    found, _, age = outlook_of("2022", today=END_OF_2022 + timedelta(days=after)).rpartition("; ")
    assert found.endswith(ending)
    assert age == f"data from {built_in().as_of}"


def test_a_release_that_nobody_knows_is_a_warning_with_the_ones_that_are_known() -> None:
    found = outlook_of("2023")
    assert found.startswith("warning: spec.os.version is 2023")
    assert "2022" in found
    assert "supportMatrix" in found


def test_a_release_that_only_a_row_knows_is_told_as_the_row_has_it() -> None:
    named = {"osVersion": "2028", "build": "10.0.30000"}
    assert "Windows Server 2028: Unknown with Kubernetes" in outlook_of("2028", named)
    assert "; end of support unknown; " in outlook_of("2028", named)
    row = {**named, "verdict": "Allow", "endOfSupport": "2038-01-12"}
    assert "Supported with Kubernetes 1.35 and 1.36 and 1.37; supported until 2038-01-12" in outlook_of(
        "2028", row
    )
