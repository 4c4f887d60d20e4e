"""Which image runs on which host: every cell that Microsoft published, and each rule at its edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.every import every
from winpool.api.matrix import Verdict
from winpool.support.compat import Compatibility, Isolation, compatible
from winpool.support.matrix import Matrix, built_in
from winpool.support.servicing import worst

PROCESS, HYPER_V = Isolation.PROCESS, Isolation.HYPER_V

VERSIONS = {
    "2016": "10.0.14393.7000",
    "1709": "10.0.16299.1087",
    "1803": "10.0.17134.1130",
    "2019": "10.0.17763.2452",
    "1903": "10.0.18362.900",
    "1909": "10.0.18363.1556",
    "2004": "10.0.19041.804",
    "20H2": "10.0.19042.1889",
    "2022": "10.0.20348.1607",
    "23H2": "10.0.25398.1",
    "2025": "10.0.26100.32995",
}

# Hyper-V isolation, then process isolation: y runs, n does not, ? not published, . no such cell. What Windows
# runs in Hyper-V isolation is a warning all the same: Kubernetes does not support it.
IMAGES = ["2016", "1709", "1803", "2019", "1903", "1909", "2004", "20H2", "2022", "2025"]
TABLE = """
2016   yy   nn   nn   nn   ..   ..   ..   ..   nn   ..
1709   yn   yy   nn   nn   nn   ..   ..   ..   ..   ..
1803   yn   yn   yy   nn   nn   ..   ..   ..   ..   ..
2019   yn   yn   yn   yy   nn   nn   nn   nn   nn   ..
1903   yn   yn   yn   yn   yy   nn   nn   nn   ..   ..
1909   yn   ..   ..   yn   yn   yy   nn   nn   ..   ..
2004   yn   ..   ..   yn   yn   yn   yy   nn   ..   ..
20H2   yn   ..   ..   yn   yn   yn   yn   yy   ..   ..
2022   yn   ..   ..   yn   ..   ..   ..   ..   yy   ..
23H2   ..   ..   ..   ..   ..   ..   ..   ..   ?y   ..
2025   yn   ..   ..   yn   ..   ..   ..   ..   yy   yy
"""
CELLS = [
    (line.split()[0], image, isolation, pair[index])
    for line in TABLE.strip().splitlines()
    for image, pair in zip(IMAGES, line.split()[1:], strict=True)
    for index, isolation in enumerate((HYPER_V, PROCESS))
    if pair[index] != "."
]
MEANING = {"n": Verdict.UNSUPPORTED, "?": Verdict.UNKNOWN}
RUNS = {PROCESS: Verdict.SUPPORTED, HYPER_V: Verdict.WARNED}


def meaning(letter: str, isolation: Isolation) -> Verdict:
    return RUNS[isolation] if letter == "y" else MEANING[letter]


def on(host: str, image: str, isolation: Isolation = PROCESS, *, runtime: str = "") -> Compatibility:
    return compatible(host, image, isolation, matrix=built_in(), runtime=runtime)


def said(host: str, image: str, isolation: Isolation = PROCESS, *, runtime: str = "") -> tuple[str, str]:
    """Return the verdict and the code of the worst reason."""
    found = on(host, image, isolation, runtime=runtime)
    return found.verdict, found.reasons[0].code


@every(("host", "image", "isolation", "letter"), CELLS)
def test_published_cell(host: str, image: str, isolation: Isolation, letter: str) -> None:
    assert on(VERSIONS[host], VERSIONS[image], isolation).verdict is meaning(letter, isolation)


# What Microsoft prints nowhere, and what follows from its rules.
@pytest.mark.parametrize(
    ("host", "image", "hyper_v", "process"),
    [
        ("2025", "23H2", "y", "y"),
        ("2025", "20H2", "y", "n"),
        ("2022", "2025", "n", "n"),
        ("2022", "20H2", "y", "n"),
        ("2022", "23H2", "n", "n"),
        ("2019", "2025", "n", "n"),
        ("23H2", "2019", "?", "n"),
        ("23H2", "2025", "n", "n"),
        ("1909", "2022", "n", "n"),
    ],
)
def test_derived_cell(host: str, image: str, hyper_v: str, process: str) -> None:
    assert on(VERSIONS[host], VERSIONS[image], HYPER_V).verdict is meaning(hyper_v, HYPER_V)
    assert on(VERSIONS[host], VERSIONS[image], PROCESS).verdict is meaning(process, PROCESS)


@every(
    ("host", "image", "verdict", "code"),
    [
        # 2016 takes its own revision only.
        ("10.0.14393.7000", "10.0.14393.7000", "Supported", "RevisionsMatch"),
        ("10.0.14393.7000", "10.0.14393.6999", "Unsupported", "RevisionMismatch"),
        ("10.0.14393.7000", "10.0.14393", "Unknown", "RevisionUnknown"),
        ("10.0.14393", "10.0.14393.7000", "Unknown", "RevisionUnknown"),
        # February 2020: both sides of 1039.
        ("10.0.17763.1039", "10.0.17763.1039", "Supported", "BuildsMatch"),
        ("10.0.17763.2452", "10.0.17763.1039", "Supported", "BuildsMatch"),
        ("10.0.17763.2452", "10.0.17763.1038", "Unsupported", "BaselineMismatch"),
        ("10.0.17763.1038", "10.0.17763.1039", "Unsupported", "BaselineMismatch"),
        ("10.0.17763.1038", "10.0.17763.1000", "Supported", "BuildsMatch"),
        ("10.0.17763.2452", "10.0.17763", "Unknown", "BaselineUnknown"),
        ("10.0.17763", "10.0.17763.2452", "Unknown", "BaselineUnknown"),
        ("10.0.17763", "10.0.17763", "Unknown", "BaselineUnknown"),
        # The revision is not published for these two; equal ones are on the same side anyway.
        ("10.0.18362.900", "10.0.18362.900", "Supported", "BuildsMatch"),
        ("10.0.18362.900", "10.0.18362.899", "Unknown", "BaselineUnknown"),
        ("10.0.18363.900", "10.0.18363.899", "Unknown", "BaselineUnknown"),
        # Newer than its host: seen to fail, not published.
        ("10.0.26100.4000", "10.0.26100.4061", "Warned", "ImageNewerThanHost"),
        ("10.0.26100.32767", "10.0.26100.32768", "Warned", "ImageNewerThanHost"),
        ("10.0.26100.4061", "10.0.26100.4061", "Supported", "BuildsMatch"),
        ("10.0.20348.1607", "10.0.20348", "Supported", "BuildsMatch"),
        ("10.0.20348", "10.0.20348.1607", "Supported", "BuildsMatch"),
        # Revisions of different builds have nothing to do with each other.
        ("10.0.26100.1", "10.0.20348.9999", "Supported", "StableAbi"),
        # Windows 11 before 24H2 is no server and newer than 2022.
        ("10.0.22631.5335", "10.0.20348.1607", "Supported", "StableAbi"),
        ("10.0.22631.5335", "10.0.17763.1607", "Unsupported", "BuildMismatch"),
        ("10.0.20348.1", "10.0.20347.1", "Unsupported", "BuildMismatch"),
        # A host that nothing is published about.
        ("10.0.26101.1", "10.0.26100.1", "Unknown", "HostTooNew"),
        ("10.0.28000.1", "10.0.20348.1", "Unknown", "HostTooNew"),
        ("10.0.28000.1", "10.0.28000.1", "Unknown", "HostTooNew"),
        ("10.0.28000.1", "10.0.28001.1", "Unsupported", "BuildMismatch"),
        # Other kinds of Windows, and what is none.
        ("10.0.20348.1", "6.3.20348.1", "Unknown", "ImageVersionUnknown"),
        ("20348.3932.250714", "10.0.20348.1", "Unknown", "HostVersionUnknown"),
        ("10.0.20348.1", "", "Unknown", "ImageVersionUnknown"),
        ("10.0.20348.1", "ltsc2022", "Unknown", "ImageVersionUnknown"),
        ("", "10.0.20348.1", "Unknown", "HostVersionUnknown"),
    ],
)
def test_process_isolation(host: str, image: str, verdict: str, code: str) -> None:
    assert said(host, image) == (verdict, code)


@pytest.mark.parametrize(
    ("host", "image", "verdict", "code"),
    [
        ("10.0.14393.7000", "10.0.14393.1", "Warned", "HyperV"),
        ("10.0.17763.2452", "10.0.17763.1", "Warned", "HyperV"),
        ("10.0.26100.1", "10.0.26100.9", "Warned", "HyperV"),
        ("10.0.28000.1", "10.0.20348.1", "Unknown", "HostTooNew"),
        ("10.0.20348.1", "10.0.20349.1", "Unsupported", "BuildMismatch"),
        ("10.0.20348.1", "", "Unknown", "ImageVersionUnknown"),
    ],
)
def test_hyper_v_isolation(host: str, image: str, verdict: str, code: str) -> None:
    assert said(host, image, HYPER_V) == (verdict, code)


def test_hyper_v_isolation_is_told_to_be_unsupported_by_kubernetes() -> None:
    (reason,) = on("10.0.26100.1", "10.0.20348.1", HYPER_V).reasons
    assert "the documentation of Kubernetes says that it does not support Hyper-V isolation" in reason.message


OLDER = ("10.0.26100.1", "10.0.20348.1")
OWN = ("10.0.26100.1", "10.0.26100.1")


@every(
    ("runtime", "verdict"),
    [
        ("containerd://1.5.18", "Unsupported"),
        ("containerd://1.6.22", "Unsupported"),
        ("containerd://1.6.23", "Supported"),
        ("containerd://1.7.5", "Unsupported"),
        ("containerd://1.7.6", "Supported"),
        ("containerd://2.0.0-rc.1", "Unsupported"),
        ("containerd://2.0.4+azure", "Supported"),
        ("docker://25.0.0", "Supported"),
        ("containerd://Unknown", "Supported"),
        ("", "Supported"),
    ],
)
def test_an_old_containerd_takes_only_images_of_the_hosts_build(runtime: str, verdict: str) -> None:
    assert said(*OLDER, runtime=runtime)[0] == verdict
    assert said(*OWN, runtime=runtime) == ("Supported", "BuildsMatch")


def test_hyper_v_needs_a_variant_of_the_pause_image_for_the_image() -> None:
    def codes(host: str, image: str, runtime: str) -> list[str]:
        return [reason.code for reason in on(host, image, HYPER_V, runtime=runtime).reasons]

    assert codes(*OWN, "containerd://2.2.0") == ["HyperV", "PauseImageMissing"]
    assert codes(*OWN, "containerd://2.3.0") == ["HyperV"]
    assert codes(*OLDER, "containerd://2.2.0") == ["HyperV"]
    assert codes(*OWN, "containerd://9.9.9") == ["HyperV"]


def test_hyper_v_misses_no_variant_in_a_pause_image_that_is_not_known_completely(
    edited: Callable[[str, str], Matrix],
) -> None:
    pause = '- {image: "registry.k8s.io/pause:3.10.1",'
    matrix = edited(pause, f"{pause} complete: false,")
    found = compatible(*OWN, HYPER_V, matrix=matrix, runtime="containerd://2.2.0")
    assert [reason.code for reason in found.reasons] == ["HyperV"]


@pytest.mark.parametrize(
    ("runtime", "verdict"),
    [
        ("", "Supported"),
        ("containerd://1.6.0", "Supported"),
        ("containerd://1.5.9", "Unsupported"),
        ("containerd://Unknown", "Supported"),
        ("docker://25.0.0", "Unsupported"),
        ("docker://Unknown", "Unsupported"),
    ],
)
def test_a_host_process_container_may_have_any_image(runtime: str, verdict: str) -> None:
    for image in ("10.0.14393.1", "10.0.99999.1", ""):
        found = compatible(
            "10.0.17763.1", image, PROCESS, matrix=built_in(), runtime=runtime, host_process=True
        )
        assert found.verdict == verdict


def test_a_chain_of_reasons_names_both_sides() -> None:
    found = on(*OLDER, runtime="containerd://1.6.22")
    assert [reason.code for reason in found.reasons] == ["RuntimeMatchesExactly", "StableAbi"]
    assert "26100" in found.reasons[0].message
    assert "20348" in found.reasons[0].message
    assert "1.6.23" in found.reasons[0].message


KNOWN = st.sampled_from([each.build for each in built_in().file.releases])
BUILDS = KNOWN | st.integers(min_value=0, max_value=40000)
REVISIONS = st.none() | st.integers(min_value=0, max_value=70000)
ISOLATIONS = st.sampled_from(list(Isolation))


def written(build: int, revision: int | None) -> str:
    return f"10.0.{build}" if revision is None else f"10.0.{build}.{revision}"


@given(BUILDS, REVISIONS, BUILDS, REVISIONS, ISOLATIONS)
def test_an_image_never_runs_on_an_older_host_and_hyper_v_allows_all_that_process_isolation_does(
    host: int, host_revision: int | None, image: int, image_revision: int | None, isolation: Isolation
) -> None:
    ours, theirs = written(host, host_revision), written(image, image_revision)
    found = on(ours, theirs, isolation)
    assert found.verdict is worst(found.reasons)
    if image > host:
        assert found.verdict is Verdict.UNSUPPORTED
    elif on(ours, theirs, PROCESS).verdict is Verdict.SUPPORTED:
        assert on(ours, theirs, HYPER_V).verdict is not Verdict.UNSUPPORTED


@given(BUILDS, BUILDS, ISOLATIONS)
def test_a_missing_revision_is_never_why_an_image_is_unsupported(
    host: int, image: int, isolation: Isolation
) -> None:
    bare = on(written(host, None), written(image, None), isolation).verdict
    equal = on(written(host, 2000), written(image, 2000), isolation).verdict
    assert (bare is Verdict.UNSUPPORTED) == (equal is Verdict.UNSUPPORTED)


@given(st.text(max_size=30), st.text(max_size=30), ISOLATIONS, st.text(max_size=30), st.booleans())
@example("10.0.20348", "10.0.20348", PROCESS, "containerd://", True)
def test_no_input_fails(
    host: str, image: str, isolation: Isolation, runtime: str, host_process: bool
) -> None:
    found = compatible(host, image, isolation, matrix=built_in(), runtime=runtime, host_process=host_process)
    assert found.reasons
    assert all(reason.message.endswith(".") for reason in found.reasons)
