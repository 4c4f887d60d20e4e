"""Rows of admins: how the layers lie over each other, and which rows contradict themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from winpool.api.fields import read_date
from winpool.api.matrix import RowVerdict, Verdict
from winpool.support.data import DataError
from winpool.support.matrix import Matrix, built_in
from winpool.support.rows import Layer, Override, Row, contradictions, layered, read_rows
from winpool.support.servicing import class_reason
from winpool.support.versions import Minor, WindowsVersion

ALLOW, WARN, DENY = RowVerdict.ALLOW, RowVerdict.WARN, RowVerdict.DENY


def judged(
    minor: int, release: str, *, cluster: tuple[Row, ...] = (), pool: tuple[Row, ...] = ()
) -> tuple[str, ...]:
    found = class_reason(Minor(1, minor), release, layers=layered(built_in(), cluster, pool))
    return found.code, found.verdict, found.layer


# ─── layers ──────────────────────────────────────────────────────────────


@every(
    ("verdict", "code", "judged_as"),
    [
        (ALLOW, "AllowedByRow", "Supported"),
        (WARN, "WarnedByRow", "Warned"),
        (DENY, "DeniedByRow", "Unsupported"),
    ],
)
@every("minor", [36, 35, 34, 37, 99])
def test_a_verdict_takes_the_place_of_the_built_in_one(
    verdict: RowVerdict, code: str, judged_as: str, minor: int
) -> None:
    row = Row("2019", verdict=verdict)
    assert judged(minor, "2019", cluster=(row,)) == (code, judged_as, "Cluster")
    assert judged(minor, "2019", pool=(row,)) == (code, judged_as, "Pool")


def test_the_pool_lies_over_the_cluster() -> None:
    allow, deny = Row("2019", verdict=ALLOW), Row("2019", verdict=DENY)
    assert judged(36, "2019", cluster=(deny,), pool=(allow,)) == ("AllowedByRow", "Supported", "Pool")
    assert judged(36, "2019", cluster=(allow,), pool=(deny,)) == ("DeniedByRow", "Unsupported", "Pool")


def test_a_field_that_a_row_does_not_set_is_that_of_the_layer_below() -> None:
    cluster = Row(
        "2019", verdict=ALLOW, end_of_support="2027-04-01", min_kubernetes="1.30", max_kubernetes="1.36"
    )
    pool = Row("2019", end_of_support="2027-05-01", min_revision=5)
    found = layered(built_in(), [cluster], [pool]).override("2019")
    assert found.verdict == (ALLOW, Layer.CLUSTER, "")
    assert found.end_of_support == (date(2027, 5, 1), Layer.POOL)
    assert found.min_revision == (5, Layer.POOL)
    assert found.kubernetes is not None
    assert (str(found.kubernetes), found.kubernetes.layer) == ("1.30 to 1.36", Layer.CLUSTER)


def test_a_row_is_for_its_release_alone() -> None:
    assert judged(36, "2022", pool=(Row("2019", verdict=DENY),)) == ("Documented", "Supported", "BuiltIn")


@pytest.mark.parametrize(
    ("first", "last", "inside", "outside"),
    [
        ("1.30", "1.34", [30, 34], [29, 35]),
        ("1.30", "", [30, 36], [29]),
        ("", "1.34", [26, 34], [35, 36]),
        ("1.34", "1.34", [34], [33, 35]),
    ],
)
def test_outside_of_its_minors_a_release_is_unsupported(
    first: str, last: str, inside: list[int], outside: list[int]
) -> None:
    rows = (Row("2022", min_kubernetes=first, max_kubernetes=last),)
    allowed = (Row("2022", min_kubernetes=first, max_kubernetes=last, verdict=ALLOW),)
    for minor in inside:
        assert judged(minor, "2022", pool=rows) == ("Documented", "Supported", "BuiltIn")
        assert judged(minor, "2022", pool=allowed) == ("AllowedByRow", "Supported", "Pool")
    for minor in outside:
        assert judged(minor, "2022", pool=rows) == ("OutsideRow", "Unsupported", "Pool")
        assert judged(minor, "2022", pool=allowed) == ("OutsideRow", "Unsupported", "Pool")


def test_minors_alone_do_not_make_a_dropped_release_supported() -> None:
    assert judged(35, "20H2", pool=(Row("20H2", max_kubernetes="1.36"),)) == (
        "Dropped",
        "Unsupported",
        "BuiltIn",
    )


@pytest.mark.parametrize(
    "row",
    [
        Row("2022", min_kubernetes="1.36", max_kubernetes="1.30"),
        Row("2022", min_kubernetes="new"),
        Row("2022", max_kubernetes="v1.34.1"),
        Row("2022", end_of_support="2020-02-30"),
    ],
)
def test_what_contradicts_itself_is_left_out(row: Row) -> None:
    assert contradictions(row)
    assert layered(built_in(), [row]).override("2022") == Override()
    kept = layered(built_in(), [Row("2022", "1.20", "1.40", end_of_support="2030-01-01")], [row]).override(
        "2022"
    )
    assert kept.kubernetes is not None
    assert (kept.kubernetes.layer, kept.end_of_support) == (Layer.CLUSTER, (date(2030, 1, 1), Layer.CLUSTER))


def test_the_minors_of_the_pool_replace_those_of_the_cluster_as_a_whole() -> None:
    cluster, pool = Row("2022", min_kubernetes="1.35"), Row("2022", max_kubernetes="1.30")
    assert judged(28, "2022", cluster=(cluster,), pool=(pool,)) == ("Documented", "Supported", "BuiltIn")


def test_a_floor_of_the_data_holds_like_any_other(edited: Callable[[str, str], Matrix]) -> None:
    matrix = edited('name: "2022", channel: LTSC,', 'name: "2022", channel: LTSC, minRevision: 681,')
    assert layered(matrix).override("2022") == Override(min_revision=(681, Layer.BUILT_IN))
    lower = layered(matrix, [Row("2022", min_revision=600)]).override("2022")
    assert lower.min_revision == (681, Layer.BUILT_IN)
    higher = layered(matrix, [Row("2022", min_revision=700)], [Row("2022", min_revision=690)]).override(
        "2022"
    )
    assert higher.min_revision == (700, Layer.CLUSTER)
    equal = layered(matrix, [Row("2022", min_revision=681)]).override("2022")
    assert equal.min_revision == (681, Layer.BUILT_IN)


ROWS = st.builds(
    Row,
    os_version=st.sampled_from(["2019", "2022", "2028", ""]),
    min_kubernetes=st.sampled_from(["", "1.20", "1.36", "x", "1"]) | st.text(max_size=5),
    max_kubernetes=st.sampled_from(["", "1.20", "1.36", "x"]),
    min_revision=st.none() | st.integers(),
    end_of_support=st.sampled_from(["", "2027-04-01", "2027-02-30", "20270401"]) | st.text(max_size=10),
    verdict=st.none() | st.sampled_from(list(RowVerdict)),
    reason=st.text(max_size=5),
    build=st.sampled_from(["", "10.0.30000", "10.0.30001", "10.0.20348", "30000"]) | st.text(max_size=12),
)


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, max_size=3))
def test_of_all_floors_the_highest_holds_and_no_row_fails(cluster: list[Row], pool: list[Row]) -> None:
    layers = layered(built_in(), cluster, pool)
    for release in ("2019", "2022", "2028"):
        floors = [
            row.min_revision
            for row in (*cluster, *pool)
            if row.os_version == release and row.min_revision is not None
        ]
        found = layers.override(release).min_revision
        assert (found[0] if found else None) == max(floors, default=None)
        assert class_reason(Minor(1, 36), release, layers=layers).verdict in Verdict
    for build, name in ((20348, "2022"), (17763, "2019")):
        assert layers.release_of(WindowsVersion(build)) == name, "no row renames what is known"
    for row in (*cluster, *pool):
        assert all(said.startswith("row for osVersion") for said in contradictions(row, matrix=built_in()))


# ─── contradictions ──────────────────────────────────────────────────────


@every(
    ("row", "said"),
    [
        (Row("2022", min_kubernetes="1.36", max_kubernetes="1.30"), "min 1.36 is newer than max 1.30"),
        (Row("2022", min_kubernetes="1.9", max_kubernetes="1.10"), ""),
        (Row("2022", min_kubernetes="1.10", max_kubernetes="1.9"), "min 1.10 is newer than max 1.9"),
        (Row("2022", min_kubernetes="1"), "kubernetesVersions.min '1' is no minor"),
        (Row("2022", max_kubernetes="v1.34.1"), "kubernetesVersions.max 'v1.34.1' is no minor"),
        (Row("2022", end_of_support="2027-02-30"), "endOfSupport '2027-02-30' is no day of the calendar"),
        (Row("2022", end_of_support="20270401"), "endOfSupport '20270401' is no day of the calendar"),
        (Row("2022", end_of_support="2028-02-29"), ""),
        (Row("2022", end_of_support="2021-08-18"), ""),
        (Row("2022", end_of_support="2021-08-17"), "is before 2021-08-18, the day of the release"),
        (Row("2022", end_of_support="2019-01-01"), "is before 2021-08-18, the day of the release"),
        (Row("2022", min_revision=-1), "minRevision -1 is negative"),
        (Row("2022", min_revision=5001), "minRevision 5001 is above the pool's os.targetRevision 5000"),
        (Row("2022", min_revision=5000), ""),
        (Row("2025", min_revision=5001), ""),
        (Row("2022", max_kubernetes="1.34", verdict=DENY), "verdict Deny with kubernetesVersions"),
        (Row("2022", max_kubernetes="1.34", verdict=ALLOW), ""),
        (Row("2028"), "the build of this release is not known"),
        (Row("2028"), "set `build`"),
        (Row("2028", build="10.0.30000"), ""),
        (Row("2022", build="10.0.20348"), ""),
        (Row("2022", build="10.0.30000"), "is not that of this release, which is 10.0.20348"),
        (Row("2028", build="10.0.20348"), "build 10.0.20348 is that of 2022"),
        (Row("2028", build="10.0.30000.1"), "build '10.0.30000.1' is no build of Windows"),
        (Row("2022", build="20348"), "build '20348' is no build of Windows"),
        (Row("next", build="10.0.30000"), "is no name for a release"),
        (Row("1809"), "has the build of 2019, and counts as 2019"),
        (
            Row(
                "2022",
                verdict=ALLOW,
                min_kubernetes="1.30",
                max_kubernetes="1.34",
                end_of_support="2030-01-01",
            ),
            "",
        ),
    ],
)
def test_a_row_that_contradicts_itself_is_told(row: Row, said: str) -> None:
    found = contradictions(row, matrix=built_in(), os_version="2022", target_revision=5000)
    assert len(found) == (1 if said else 0)
    assert said in "".join(found)
    assert all(each.startswith(f"row for osVersion '{row.os_version}': ") for each in found)


@pytest.mark.parametrize(
    ("row", "below", "said"),
    [
        (Row("2028", verdict=ALLOW), Row("2028", build="10.0.30000"), ""),
        (Row("2028", build="10.0.30000"), Row("2028", build="10.0.30000"), ""),
        (Row("2028", build="10.0.30001"), Row("2028", build="10.0.30000"), ""),
        (Row("2029", build="10.0.30000"), Row("2028", build="10.0.30000"), "is that of 2028"),
        (Row("2029", verdict=ALLOW), Row("2028", build="10.0.30000"), "set `build`"),
    ],
)
def test_rows_of_the_layers_below_may_have_named_a_release_or_a_build(
    row: Row, below: Row, said: str
) -> None:
    found = contradictions(row, matrix=built_in(), below=[below])
    assert len(found) == (1 if said else 0)
    assert said in "".join(found)


def test_every_contradiction_of_a_row_is_told() -> None:
    row = Row("2022", min_kubernetes="x", max_kubernetes="y", end_of_support="z", min_revision=-1)
    assert len(contradictions(row)) == 4


# ─── releases that only rows know ────────────────────────────────────────

NEW = WindowsVersion(30000, 5)
NAMED = Row("2028", build="10.0.30000")


def test_a_build_that_a_row_names_is_judged_as_its_release() -> None:
    assert layered(built_in()).release_of(NEW) == ""
    for layers in (layered(built_in(), [NAMED]), layered(built_in(), [], [NAMED])):
        assert layers.release_of(NEW) == "2028"
        assert layers.build_of("2028") == 30000
        assert layers.release_of(WindowsVersion(30001)) == ""
    assert (layers.build_of("2022"), layers.build_of("1809"), layers.build_of("2023")) == (20348, 17763, None)


def test_the_pool_names_a_build_over_the_cluster() -> None:
    layers = layered(built_in(), [NAMED], [Row("2028", build="10.0.30001")])
    assert (layers.release_of(NEW), layers.build_of("2028")) == ("", 30001)


@pytest.mark.parametrize(
    "rows",
    [
        [Row("2028", build="10.0.20348")],
        [Row("2022", build="10.0.30000")],
        [NAMED, Row("2029", build="10.0.30000")],
        [Row("2028", build="30000")],
    ],
)
def test_a_naming_that_contradicts_something_is_left_out(rows: list[Row]) -> None:
    layers = layered(built_in(), rows)
    assert layers.release_of(NEW) == ""
    assert layers.release_of(WindowsVersion(20348)) == "2022"


@pytest.mark.parametrize("minor", [34, 36, 99])
def test_of_a_release_that_only_a_row_knows_nothing_is_known_but_what_rows_say(minor: int) -> None:
    """No source says that it is unsupported (P4)."""
    assert judged(minor, "2028", pool=(NAMED,)) == ("ReleaseUnknown", "Unknown", "BuiltIn")
    allowed = Row("2028", build="10.0.30000", verdict=ALLOW)
    assert judged(minor, "2028", pool=(allowed,)) == ("AllowedByRow", "Supported", "Pool")


@given(st.text(max_size=12) | st.dates().map(str))
def test_a_date_is_read_as_it_is_written_or_not_at_all(text: str) -> None:
    found = read_date(text)
    assert found is None or str(found) == text


# ─── the cluster-wide file ───────────────────────────────────────────────

GOOD = """
supportMatrix:
- osVersion: "2019"
  kubernetesVersions: {min: "1.30", max: "1.34"}
  minRevision: 2061
  endOfSupport: 2027-04-01
  verdict: Allow
  reason: vendor backport
- {osVersion: "2022"}
- {osVersion: "2028", build: 10.0.30000}
"""


def test_the_file_is_read() -> None:
    assert read_rows(GOOD, matrix=built_in()) == (
        Row("2019", "1.30", "1.34", 2061, "2027-04-01", ALLOW, "vendor backport"),
        Row("2022"),
        Row("2028", build="10.0.30000"),
    )


def test_a_file_without_rows_is_read() -> None:
    assert read_rows("supportMatrix: []", matrix=built_in()) == ()


@pytest.mark.slow
@every(
    ("text", "said"),
    [
        ("", "must be a map, not nothing"),
        ("supportMatrix: {}", "supportMatrix: must be a list, not a map"),
        ("supportmatrix: []", "unknown field `supportmatrix`"),
        (
            "supportMatrix: [{osVersion: 2022}]",
            "supportMatrix[0].osVersion: must be a text: put it in quotes",
        ),
        (
            'supportMatrix: [{osVersion: "2022", kubernetesVersions: {min: 1.30}}]',
            "supportMatrix[0].kubernetesVersions.min: must be a text: put it in quotes",
        ),
        (
            'supportMatrix: [{osVersion: "2022", minRevision: "5"}]',
            "supportMatrix[0].minRevision: must be a whole number or nothing, not a text",
        ),
        (
            'supportMatrix: [{osVersion: "2022", verdict: Maybe}]',
            "supportMatrix[0].verdict: 'Maybe' must be one of Allow",
        ),
        (
            'supportMatrix: [{osVersion: "2022", colour: red}]',
            "supportMatrix[0]: Object contains unknown field `colour`",
        ),
        (
            'supportMatrix: [{osVersion: "2028"}]',
            "supportMatrix[0]: row for osVersion '2028': the build of this release is not known",
        ),
        (
            'supportMatrix: [{osVersion: "2028", build: 10.0.9999}, {osVersion: "2029", build: 10.0.9999}]',
            "supportMatrix[1]: row for osVersion '2029': build 10.0.9999 is that of 2028",
        ),
        (
            'supportMatrix: [{osVersion: "2022"}, {osVersion: "2022"}]',
            "supportMatrix[1]: there is a row for osVersion '2022' before it",
        ),
        ('supportMatrix: [{osVersion: "2022", endOfSupport: 2027-02-30}]', "'2027-02-30' is no day"),
        ("supportMatrix: []\nsupportMatrix: []", "line 2: the key 'supportMatrix' is there twice"),
        ("supportMatrix: [", "line 1: "),
        ("a: &a [*a]", ""),
        pytest.param("{" * 1200, "nested too deeply", id="1200 braces"),
        ("\x00", "not YAML"),
        ("? [a]\n: b", ""),
        ("--- 1\n--- 2", ""),
        ("!!python/object:os.system {}", "could not determine a constructor"),
        ("supportMatrix: !!bool maybe", "not YAML: "),
        ("supportMatrix: !!timestamp soon", "not YAML: "),
        ('supportMatrix: !!int ""', "not YAML: "),
        ("supportMatrix: [&a {<<: *a}]", ""),
        ("supportMatrix: &a [*a]", "supportMatrix[0]: must be a map, not a list"),
        ('supportMatrix: [{osVersion: "2022", minRevision: 1e999}]', "minRevision: must be a whole number"),
        (
            'supportMatrix: [{osVersion: "2022", endOfSupport: !!timestamp 2027-04-01}]',
            "endOfSupport: must be a text",
        ),
    ],
)
def test_a_file_with_a_fault_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read_rows(text, matrix=built_in())
    assert said in "\n".join(caught.value.problems)
    assert all(caught.value.problems)


@given(st.text(max_size=60) | st.lists(st.sampled_from(list("{}[]:-&*!\"' \n,a1")), max_size=20).map("".join))
def test_any_text_is_rows_or_refused(text: str) -> None:
    found = outcome(text)
    assert isinstance(found, tuple) or found.problems


def outcome(text: str) -> tuple[Row, ...] | DataError:
    try:
        return read_rows(text, matrix=built_in())
    except DataError as error:
        return error
