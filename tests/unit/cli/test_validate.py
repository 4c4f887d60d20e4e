"""``validate`` from the files to the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin

LAST_WORD = "The API server makes the final decision: ask it with --server."

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


def test_a_row_that_the_operator_would_refuse_is_refused(plugin: Plugin) -> None:
    """The CRD cannot know which releases there are."""
    ended = plugin(
        "validate", "-f", "-", stdin=f'{GOOD}  supportMatrix:\n  - {{osVersion: "2018", verdict: Allow}}\n'
    )
    assert ended.code == 1
    (line,) = ended.out
    assert line.startswith("stdin:8: document 1 (win-2022): spec.supportMatrix: row for osVersion '2018'")


def test_a_status_in_the_manifest_is_not_looked_at(plugin: Plugin) -> None:
    """As in a create: the API server drops it."""
    assert plugin("validate", "-f", "-", stdin=f"{GOOD}status: {{nodes: -1}}\n").code == 0


def test_every_fault_is_a_line_with_its_place(plugin: Plugin) -> None:
    text = f"""{HEAD}\
  nodeSelector: {{matchLabels: {{agentpool: win22}}}}
  os: {{version: 2022}}
  supportMatrix:
  - osVersion: "2019"
    endOfSupport: 2027-02-30
  lables: {{}}
"""
    Path("pool.yaml").write_text(text)
    ended = plugin("validate", "-f", "pool.yaml")
    assert ended.code == 1
    assert ended.out == [
        'pool.yaml:6: document 1 (win-2022): spec.os.version: Invalid value: "integer": spec.os.version in '
        'body must be of type string: "integer"; write it in quotes: "2022"',
        "pool.yaml:9: document 1 (win-2022): spec.supportMatrix[0].endOfSupport: Invalid value: "
        "\"2027-02-30\": must be a date that exists, as year-month-day, such as '2027-04-01'",
        'pool.yaml:10: document 1 (win-2022): spec.lables: unknown field "spec.lables"; '
        "did you mean `labels`?",
    ]
    assert ended.err == ["3 errors", LAST_WORD]


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("  os: {version: 2022}\n", 'write it in quotes: "2022"'),
        ("  os: {version: y}\n", 'write it in quotes: "y"'),
        (
            '  os: {version: "2022"}\n'
            '  supportMatrix: [{osVersion: "2022", kubernetesVersions: {min: 1.30}}]\n',
            'write it in quotes: "1.30"',
        ),
        ('  os: {version: "2022", minRevision: "681"}\n', "write it without quotes: 681"),
    ],
)
def test_where_only_quotes_are_wrong_the_line_says_so(plugin: Plugin, spec: str, hint: str) -> None:
    text = f"{HEAD}  nodeSelector: {{matchLabels: {{agentpool: win22}}}}\n{spec}"
    (line,) = plugin("validate", "-f", "-", stdin=text).out
    assert line.endswith(f"; {hint}")


def test_a_number_that_no_quotes_would_save_gets_no_hint(plugin: Plugin) -> None:
    text = GOOD.replace('version: "2022"', 'version: "2022", targetRevision: 10.0.20348')
    (line,) = plugin("validate", "-f", "-", stdin=text).out
    assert line.endswith('must be of type integer: "string"')


def test_a_key_that_is_there_twice_is_refused(plugin: Plugin) -> None:
    ended = plugin("validate", "-f", "-", stdin=f'{GOOD}  os: {{version: "2025"}}\n')
    assert ended.code == 1
    assert ended.out == ['stdin:7: document 1 (win-2022): key "os" is already set on line 6']


def test_folders_files_and_documents_are_all_looked_at(plugin: Plugin) -> None:
    Path("pools").mkdir()
    Path("pools/b.yml").write_text(GOOD)
    Path("pools/a.yaml").write_text(f"---\n{GOOD}---\n{GOOD.replace('2022', '2025')}")
    Path("pools/notes.txt").write_text("kind: [")
    pool = {"apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "x"}}
    Path("more.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [pool]}))
    ended = plugin("validate", "-f", "pools", "-f", "more.json")
    assert ended.out == ["more.json:1: document 1, item 1 (x): spec: Required value"]
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
    assert ended.err[0] == "--context has no effect: without --server no cluster is contacted"


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
        ("kind: [\n", "not YAML: "),
    ],
)
def test_what_is_nearly_a_pool_is_refused(plugin: Plugin, text: str, sentence: str) -> None:
    ended = plugin("validate", "-f", "-", stdin=text)
    assert ended.code == 1
    assert sentence in ended.out[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-f", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
        (("-f", "latin.yaml"), "latin.yaml: not UTF-8 at byte 11"),
        (("-f", "https://example.com/pool.yaml"), "https://example.com/pool.yaml: URLs are not supported"),
        (("-f", "pool.yaml", "--server"), "no credentials for the API server: give --kubeconfig"),
        (
            ("-f", "pool.yaml", "--server", "--kubeconfig", "missing"),
            "kubeconfig missing does not exist or is empty",
        ),
    ],
)
def test_what_cannot_be_asked_or_read_is_no_refusal(
    plugin: Plugin, arguments: tuple[str, ...], word: str
) -> None:
    Path("pool.yaml").write_text(GOOD)
    Path("latin.yaml").write_bytes("reason: 'für'".encode("latin-1"))
    ended = plugin("validate", *arguments)
    assert (ended.code, ended.out) == (2, [])
    (line,) = ended.err
    assert line.startswith("kubectl winpool validate: ")
    assert word in line


def test_a_name_cannot_move_the_cursor(plugin: Plugin) -> None:
    text = GOOD.replace("win-2022", '"a\\e[2Jb\\n"')
    (line,) = plugin("validate", "-f", "-", stdin=text).out
    assert line.isprintable()
    assert "\\x1b[2Jb\\n" in line
