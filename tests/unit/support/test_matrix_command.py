"""``kubectl winpool matrix`` and the generated page: they say what the data says, without a cluster."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml

from gen.matrix_reference import COMMAND, FILE, render_markdown
from winpool.cli.__main__ import parser
from winpool.cli.matrix import render
from winpool.support.matrix import built_in
from winpool.support.table import entries
from winpool.support.versions import Minor

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 11, 21)


def test_the_page_is_what_the_data_says() -> None:
    stored = (ROOT / FILE).read_text()
    assert stored == render_markdown(built_in()), f"{FILE} is old; run: {COMMAND}"


def test_the_page_names_every_source() -> None:
    text = render_markdown(built_in())
    assert [
        each for each, source in built_in().file.sources.items() if f"| {each} | <{source.url}> |" not in text
    ] == []


def test_the_page_has_the_rules() -> None:
    text = render_markdown(built_in())
    images = "| 2025 (26100) |  |  |  |  |  |  |  |  | runs | runs | runs |"
    for said in (
        "Where sources disagree, the first of these that holds is the status",
        images,
        "A host of 14393 runs images of its own revision only",
        "and the documentation of Kubernetes calls it unsupported",
        "at most 3 minors older; before 1.25 at most 2",
        "| 20348 | 2582 to 2761 | container networking on Kubernetes",
        "| HostProcess containers | 1.22 | 1.23 | 1.26 |",
        "| 1.6 | 2022-02-15 | 2025-08-23 |",
        "can be bought for up to three years after that",
    ):
        assert said in text


def parsed(*arguments: str) -> argparse.Namespace:
    return parser("matrix").parse_args(["matrix", *arguments])


def test_the_command_line_is_read() -> None:
    given = parsed("--kubernetes", "v1.35.2", "--os", "20h2", "-o", "json")
    assert (given.kubernetes, given.os, given.output) == (Minor(1, 35), "20H2", "json")
    given = parsed()
    assert (given.kubernetes, given.os, given.output) == (None, None, "text")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kubernetes", "new"), "'new' is not a Kubernetes version: write it as 1.35"),
        (("--os", "2028"), "'2028' is not in the matrix: use one of 2016,"),
        (("-o", "xml"), "invalid choice: 'xml'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_minor_as_a_table() -> None:
    head, *rows, _, note, _, age = render("text", today=TODAY, kubernetes=Minor(1, 35)).splitlines()
    assert " ".join(head.split()) == (
        "KUBERNETES END-OF-LIFE OS BUILD STATUS TODAY END-OF-SUPPORT KEP-116 AS-OF SOURCES"
    )
    assert [row.replace("not promised", "not-promised").split() for row in rows] == [
        line.split()
        for line in (
            "1.35 2027-02-28 2019 17763 vendorOnly Warned 2029-01-09 not-promised 2026-08-18 "
            "WEB-53724,WMCO,WMCO-10.21,EKS-AMI",
            "1.35 2027-02-28 20H2 19042 dropped Unsupported 2022-08-09 - 2026-08-18 WEB-53724",
            "1.35 2027-02-28 2022 20348 documented Supported 2031-10-14 - 2026-08-18 WEB-53724",
            "1.35 2027-02-28 2025 26100 documented Supported 2034-11-14 - 2026-08-18 WEB-53724,WEB-53349",
        )
    ]
    assert note.startswith("1.35 2019: upstream dropped it; OpenShift's Windows operator lists it")
    assert age == f"The data is from {built_in().as_of} and has no later changes."


@pytest.mark.parametrize(
    ("minor", "told"),
    [
        (33, "Kubernetes 1.33: the end of life was 2026-06-28."),
        (34, "Kubernetes 1.34: the end of life was 2026-10-27."),
        (37, "Kubernetes 1.37: the end of life is 2027-10-28."),
    ],
)
def test_the_end_of_life_of_the_minor_is_told(minor: int, told: str) -> None:
    text = render("text", today=TODAY, kubernetes=Minor(1, minor), release="2022")
    assert told in text.splitlines()


def test_mainstream_support_and_what_can_be_bought_after_it_are_told() -> None:
    def told(release: str) -> str:
        return render("text", today=TODAY, kubernetes=Minor(1, 36), release=release)

    assert "Windows Server 2022: mainstream support ended on 2026-10-13, extended support ends" in told(
        "2022"
    )
    assert "extended security updates can be bought for up to three years after that." in told("2016")
    assert "Windows Server 20H2: all support ended on 2022-08-09." in told("20H2")


def test_a_cell_that_stands_alone_has_its_note_and_its_sources_as_urls() -> None:
    text = render("text", today=TODAY, kubernetes=Minor(1, 36), release="2019")
    assert "Note: upstream dropped it in 1.35; OpenShift's Windows operator" in text
    sources = [line.removeprefix("Source: ") for line in text.splitlines() if line.startswith("Source: ")]
    assert sources == [
        built_in().file.sources[each].url for each in ("WEB-MAIN", "WMCO", "WMCO-10.21", "EKS-AMI")
    ]


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("2022", "AKS no longer offers it from this minor on"),
        ("2025", "the default of AKS, and its only one, from this minor on"),
    ],
)
def test_what_aks_offers_with_1_37_is_told(release: str, told: str) -> None:
    text = render("text", today=TODAY, kubernetes=Minor(1, 37), release=release)
    [note] = [line for line in text.splitlines() if line.startswith("Note: ")]
    assert told in note
    assert built_in().file.sources["AKS-5904"].url in text


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("2022", "2022"),
        ("20h2", "20H2"),
        ("20348", "2022"),
        ("10.0.20348", "2022"),
        ("10.0.20348.1607", "2022"),
        ("ltsc2022", "2022"),
        ("windowsservercore-ltsc2022", "2022"),
        ("Windows Server 2022", "2022"),
        ("windows server 2022 datacenter", "2022"),
        ("Windows Server, version 20H2", "20H2"),
        ("17763", "2019"),
        ("nanoserver-1809", "2019"),
        ("1809", "1809"),
        ("26100", "2025"),
    ],
)
def test_a_release_can_be_named_as_people_name_it(text: str, release: str) -> None:
    assert parsed("--os", text).os == release


@pytest.mark.parametrize("text", ["20349", "10.0.22631.5335", "Windows 11", "Windows Server 2028", "latest"])
def test_what_names_no_release_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--os", text)
    assert "is not in the matrix" in capsys.readouterr().err


def test_a_cell_as_a_table_tells_every_reason() -> None:
    text = render("text", today=TODAY, kubernetes=Minor(1, 33), release="23H2")
    row, _, *reasons = text.splitlines()[1:]
    assert " ".join(row.split()) == (
        "1.33 2026-06-28 23H2 25398 vendorOnly Unsupported 2026-05-12 not promised 2026-08-21"
    )
    assert [line.partition(":")[0] for line in reasons[:2]] == ["SupportEnded", "VendorOnly"]
    assert reasons[2].startswith("KEP-116 promises nothing of Windows Server 23H2")


def test_a_cell_that_is_not_listed_is_told_where_it_is_asked_for() -> None:
    text = render("text", today=TODAY, kubernetes=Minor(1, 36), release="1903")
    row = ["1.36", "2027-06-28", "1903", "18362", "notListed", "Unsupported"]
    assert text.splitlines()[1].split()[:6] == row
    assert "NotListed: Kubernetes 1.36 does not list Windows Server 1903" in text


def test_of_a_minor_that_is_not_in_the_data_all_is_unknown() -> None:
    rows = list(entries(built_in(), today=TODAY, kubernetes=Minor(1, 44)))
    assert [row.release for row in rows] == list(built_in().releases)
    assert {row.reasons[-1].code for row in rows} == {"ReleaseUnknown"}
    assert {row.verdict for row in rows if row.end_of_support >= TODAY} == {"Unknown"}


def test_a_release_that_no_minor_lists_makes_an_empty_table() -> None:
    assert render("text", today=TODAY, release="2016").startswith("The matrix has no entry for this.")


def test_the_verdict_is_that_of_the_day() -> None:
    def verdict(today: date) -> str:
        rows = json.loads(render("json", today=today, kubernetes=Minor(1, 36), release="2022"))["rows"]
        return str(rows[0]["verdict"])

    assert verdict(date(2031, 10, 14)) == "Supported"
    assert verdict(date(2031, 10, 15)) == "Unsupported"


def test_all_rows_are_there_the_newest_first() -> None:
    found = json.loads(render("json", today=TODAY))
    assert len(found["rows"]) == len(built_in().cells)
    assert found["rows"][0]["kubernetesVersion"] == "1.37"
    assert found["rows"][-1]["kubernetesVersion"] == "1.14"
    assert found["date"] == "2026-11-21"
    assert found["asOf"] == str(built_in().as_of)
    assert found["rows"][-1]["asOf"] == "2026-08-18"
    assert found["rows"][0]["build"] == "10.0.17763"
    assert found["rows"][0]["kubernetesEndOfLife"] == "2027-10-28"
    cited = {source for row in found["rows"] for source in row["sources"]}
    assert found["sources"].keys() == cited
    assert all(url.startswith("https://") for url in found["sources"].values())


def test_yaml_says_what_json_says() -> None:
    as_json = json.loads(render("json", today=TODAY))
    assert yaml.safe_load(render("yaml", today=TODAY)) == as_json


def test_markdown_links_the_sources() -> None:
    text = render("markdown", today=TODAY, kubernetes=Minor(1, 32), release="2025")
    assert text.splitlines()[2].startswith(
        "| 1.32 | 2026-02-28 | 2025 | 26100 | vendorOnly | Warned | 2034-11-14 | not promised "
        "| AKS supports it from this minor on | 2026-08-21 | [AKS-UPG](https://"
    )


@pytest.mark.slow
def test_it_runs_without_a_cluster_and_without_a_kubeconfig(tmp_path: Path) -> None:
    program = (
        "import sys; from winpool.cli.__main__ import main; code = main(sys.argv[1:]); "
        "assert not {'aiohttp', 'kopf', 'kubernetes', 'asyncio'} & sys.modules.keys(); sys.exit(code)"
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "operator")}
    before = datetime.now(UTC).date()
    done = subprocess.run(
        [sys.executable, "-c", program, "matrix", "--os", "2025", "-o", "json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["date"] in {str(before), str(datetime.now(UTC).date())}
    assert done.stderr == ""
