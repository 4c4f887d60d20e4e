"""Each reason of a judgement, from a node that gives cause for it, and the verdict that comes of several."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.every import every
from winpool.api.matrix import RowVerdict, Verdict
from winpool.support.judge import Judgement, judge_node
from winpool.support.matrix import Matrix, built_in
from winpool.support.rows import Layer, Row, layered
from winpool.support.servicing import Reason, worst

TODAY = date(2026, 11, 21)
GOOD: dict[str, Any] = {
    "control_plane": "1.36",
    "kubelet": "v1.36.1",
    "host": "10.0.20348.4052",
    "runtime": "containerd://2.3.0",
    "windows_build": "10.0.20348",
    "layers": layered(built_in()),
    "today": TODAY,
}


def judged(**changed: Any) -> Judgement:
    return judge_node(**(GOOD | changed))


def codes(**changed: Any) -> list[str]:
    return [reason.code for reason in judged(**changed).reasons]


def test_a_good_node_is_supported_and_the_judgement_says_what_it_is() -> None:
    found = judged()
    assert found.verdict is Verdict.SUPPORTED
    assert (found.os_version, found.build, found.revision) == ("2022", "10.0.20348", 4052)
    assert found.end_of_support == date(2031, 10, 14)
    assert [reason.code for reason in found.reasons] == ["Documented"]


@pytest.mark.parametrize(
    ("os_image", "host", "release"),
    [
        ("Windows 11 Pro", "10.0.26100.4652", "2025"),
        ("Windows 10 Enterprise", "10.0.26100.4652", "2025"),
        ("Microsoft Windows 11 IoT Enterprise", "10.0.26100.4652", "2025"),
        ("Windows 10 Enterprise LTSC 2019", "10.0.17763.7558", "2019"),
    ],
)
def test_a_client_edition_is_no_windows_server_though_it_has_its_build(
    os_image: str, host: str, release: str
) -> None:
    found = judged(host=host, windows_build="", os_image=os_image)
    assert (found.verdict, found.os_version, found.end_of_support) == (Verdict.UNKNOWN, "", None)
    [reason] = [each for each in found.reasons if each.code == "ClientEdition"]
    assert f"Windows Server {release}" in reason.message


@pytest.mark.parametrize("host", ["10.0.20348.4052", "10.0.22631.5335", "garbage"])
@pytest.mark.parametrize(
    "os_image", ["", "Windows Server 2022 Datacenter", "Windows Server 2025 Datacenter", "Windows", "?"]
)
def test_no_other_os_image_changes_a_verdict(os_image: str, host: str) -> None:
    assert judged(host=host, os_image=os_image) == judged(host=host)


def test_a_build_that_no_windows_server_has_is_judged_as_before_also_where_a_row_names_its_release() -> None:
    host, row = "10.0.22631.5335", Row(os_version="2028", build="10.0.22631")
    for layers in (layered(built_in()), layered(built_in(), (), (row,))):
        found = judged(host=host, layers=layers, os_image="Windows 10 Enterprise")
        assert found == judged(host=host, layers=layers)


# Every sample of a real node that we know, under the control plane of its day.
SAMPLES = [
    (
        "v1.9.0-alpha.0",
        "10.0.14393",
        "docker://Unknown",
        "2016",
        None,
        "Unknown RuntimeUnknown ReleaseUnknown",
    ),
    ("v1.12.7", "10.0.17763.437", "", "2019", 437, "Unknown RuntimeUnknown ReleaseUnknown"),
    ("v1.19.3", "10.0.17763.1397", "containerd://1.4.1", "2019", 1397, "Supported Documented"),
    (
        "v1.23.3-rc.0.3+531a28b82ee021",
        "10.0.17763.2452",
        "containerd://1.5.7",
        "2019",
        2452,
        "Supported Documented",
    ),
    ("v1.15.0", "10.0.18362.116", "docker://18.9.2", "1903", 116, "Unsupported NotListed"),
    ("v1.19.7", "10.0.19041.804", "docker://19.3.14", "2004", 804, "Supported Documented"),
    ("v1.23.12", "10.0.20348.1006", "containerd://1.6.2", "2022", 1006, "Supported Documented"),
    ("v1.24.7-eks-fb459a0", "10.0.20348.1607", "containerd://1.6.6", "2022", 1607, "Supported Documented"),
    ("v1.33.12", "10.0.26100.32995", "containerd://2.0.4+azure", "2025", 32995, "Warned VendorOnly"),
    ("v1.32.5", "10.0.22631.5335", "containerd://1.7.27", "", 5335, "Unknown BuildUnknown"),
]


@every(("kubelet", "host", "runtime", "release", "revision", "said"), SAMPLES)
def test_real_node(
    kubelet: str, host: str, runtime: str, release: str, revision: int | None, said: str
) -> None:
    minor = ".".join(kubelet.removeprefix("v").split(".")[:2])
    found = judged(
        control_plane=minor,
        kubelet=kubelet,
        host=host,
        runtime=runtime,
        windows_build="",
        today=date(2020, 1, 1),
    )
    assert (found.os_version, found.revision) == (release, revision)
    verdict, *expected = said.split()
    assert found.verdict == verdict
    assert {reason.code for reason in found.reasons} == set(expected)


@every(
    ("changed", "code", "verdict"),
    [
        ({"host": "garbage"}, "HostVersionUnknown", "Unknown"),
        ({"host": ""}, "HostVersionUnknown", "Unknown"),
        ({"host": "10.0.26200.1", "windows_build": ""}, "BuildUnknown", "Unknown"),
        ({"host": "6.3.20348.1", "windows_build": ""}, "HostVersionUnknown", "Unknown"),
        ({"kubelet": "v0.0.0-master+$Format:%H$"}, "KubeletVersionUnknown", "Unknown"),
        ({"control_plane": "v0.0.0-master+$Format:%H$"}, "ControlPlaneUnknown", "Unknown"),
        ({"runtime": "containerd://0.0.0+unknown"}, "RuntimeUnknown", "Unknown"),
        ({"kubelet": "latest"}, "KubeletVersionUnknown", "Unknown"),
        ({"control_plane": None}, "ControlPlaneUnknown", "Unknown"),
        ({"control_plane": "newest"}, "ControlPlaneUnknown", "Unknown"),
        ({"runtime": ""}, "RuntimeUnknown", "Unknown"),
        ({"runtime": "containerd://Unknown"}, "RuntimeUnknown", "Unknown"),
        ({"runtime": "podman://5.0.0"}, "RuntimeNotListed", "Unknown"),
        ({"windows_build": "10.0.17763"}, "LabelDisagrees", "Warned"),
        ({"windows_build": "10.0.20348.4052"}, "LabelDisagrees", "Warned"),
        ({"control_plane": "1.35"}, "KubeletNewer", "Unsupported"),
        ({"kubelet": "v1.32.9"}, "KubeletTooOld", "Unsupported"),
        ({"runtime": "containerd://1.5.18"}, "RuntimeTooOld", "Unsupported"),
        ({"runtime": "docker://24.0.9"}, "RuntimeNotRecommended", "Warned"),
        ({"runtime": "containerd://1.7.33"}, "RuntimeNotRecommended", "Warned"),
        ({"min_revision": 4053}, "RevisionTooLow", "Unsupported"),
        ({"host": "10.0.20348", "min_revision": 0}, "RevisionUnknown", "Unknown"),
    ],
)
def test_reason(changed: dict[str, Any], code: str, verdict: str) -> None:
    found = judged(**changed)
    reasons = {reason.code: reason for reason in found.reasons}
    assert reasons[code].verdict == verdict
    assert found.verdict == verdict


def test_without_a_label_there_is_nothing_to_disagree() -> None:
    assert codes(windows_build="") == ["Documented"]


# The version skew policy: n-3, and n-2 where the kubelet is below 1.25.
@every(
    ("control_plane", "kubelet", "code"),
    [
        ("1.36", "v1.36.0", ""),
        ("1.36", "v1.33.0", ""),
        ("1.36", "v1.32.0", "KubeletTooOld"),
        ("1.28", "v1.25.16", ""),
        ("1.27", "v1.24.17", "KubeletTooOld"),
        ("1.26", "v1.24.17", ""),
        ("1.20", "v1.18.20", ""),
        ("1.20", "v1.17.17", "KubeletTooOld"),
        ("1.35", "v1.36.0-rc.0", "KubeletNewer"),
        ("2.0", "v1.36.0", "KubeletTooOld"),
    ],
)
def test_version_skew(control_plane: str, kubelet: str, code: str) -> None:
    found = [
        each for each in codes(control_plane=control_plane, kubelet=kubelet) if each.startswith("Kubelet")
    ]
    assert found == ([code] if code else [])


@every(
    ("minor", "runtime", "code"),
    [
        ("1.17", "docker://18.9.2", ""),
        ("1.17", "docker://18.6.3", "RuntimeTooOld"),
        ("1.17", "containerd://1.4.0", "RuntimeUnsupported"),
        ("1.18", "containerd://1.3.0", "RuntimeAlpha"),
        ("1.19", "containerd://1.4.0-beta.2", ""),
        ("1.19", "containerd://1.4.0-beta.1", "RuntimeTooOld"),
        ("1.22", "docker://19.3.14", ""),
        # A number that is only recommended, or stands in a guide that is linked to, warns.
        ("1.18", "docker://18.6.3", "RuntimeNotRecommended"),
        ("1.22", "docker://18.9.2", "RuntimeNotRecommended"),
        ("1.23", "docker://19.3.14", "RuntimeNotRecommended"),
        ("1.23", "docker://20.10.9", ""),
        ("1.25", "containerd://1.4.0", ""),
        ("1.25", "containerd://1.3.9", "RuntimeTooOld"),
        ("1.26", "containerd://1.5.18", "RuntimeTooOld"),
        ("1.26", "containerd://1.6.14", "RuntimeNotRecommended"),
        ("1.26", "containerd://1.6.15", ""),
        # Mirantis Container Runtime is named throughout, by no number from 1.26 to 1.34.
        ("1.26", "docker://20.10.9", ""),
        ("1.30", "docker://20.10.9", ""),
        ("1.34", "docker://25.0.3", ""),
        ("1.30", "cri-o://1.30.0", "RuntimeNotListed"),
        # https://github.com/containerd/containerd/blob/v2.4.2/RELEASES.md, and its older tables
        ("1.29", "containerd://1.6.26", "RuntimeNotRecommended"),
        ("1.29", "containerd://1.6.27", ""),
        ("1.29", "containerd://1.7.10", "RuntimeNotRecommended"),
        ("1.29", "containerd://1.7.11", ""),
        ("1.30", "containerd://1.6.27", "RuntimeNotRecommended"),
        ("1.30", "containerd://1.6.28", ""),
        ("1.30", "containerd://1.7.12", "RuntimeNotRecommended"),
        ("1.30", "containerd://1.7.13", ""),
        ("1.30", "containerd://2.0.0-rc.1", "RuntimeNotRecommended"),
        ("1.30", "containerd://2.1.0", ""),
        ("1.31", "containerd://1.6.33", "RuntimeNotRecommended"),
        ("1.31", "containerd://1.6.34", ""),
        ("1.31", "containerd://1.7.19", "RuntimeNotRecommended"),
        ("1.31", "containerd://1.7.20", ""),
        ("1.31", "containerd://2.0.0", ""),
        ("1.32", "containerd://1.7.23", "RuntimeNotRecommended"),
        ("1.32", "containerd://1.7.24", ""),
        ("1.35", "containerd://1.7.28", ""),
        ("1.35", "containerd://2.0.9", "RuntimeNotRecommended"),
        ("1.35", "containerd://2.3.0", ""),
        ("1.36", "containerd://2.1.9", "RuntimeNotRecommended"),
        ("1.36", "containerd://2.2.0", ""),
        ("1.36", "containerd://2.3.0-rc.1", "RuntimeNotRecommended"),
        ("1.36", "docker://25.0.3", ""),
        ("1.37", "containerd://2.2.9", "RuntimeNotRecommended"),
        ("1.37", "containerd://2.3.0", ""),
        ("1.37", "docker://25.0.3", ""),
    ],
)
def test_runtime_under_a_kubelet(minor: str, runtime: str, code: str) -> None:
    found = codes(control_plane=minor, kubelet=f"v{minor}.0", runtime=runtime, host="10.0.20348.1")
    assert [each for each in found if each.startswith("Runtime")] == ([code] if code else [])


DOCKERS = ("18.6.3", "18.9.2", "19.3.14", "20.10.9", "24.0.9", "25.0.3")
OLDEST_DOCKERS = {
    **dict.fromkeys(("1.14", "1.15", "1.16", "1.17"), ("RuntimeTooOld", "18.9.2")),
    "1.18": ("RuntimeNotRecommended", "18.9.2"),
    **dict.fromkeys(("1.19", "1.20", "1.21", "1.22"), ("RuntimeNotRecommended", "19.3.14")),
    **dict.fromkeys(("1.23", "1.24", "1.25"), ("RuntimeNotRecommended", "20.10.9")),
    **dict.fromkeys([f"1.{minor}" for minor in range(26, 35)], ("", "18.6.3")),
    **dict.fromkeys(("1.35", "1.36", "1.37"), ("RuntimeNotRecommended", "25.0.3")),
}
"""What is said of a docker that is too old for a minor, and the oldest of ``DOCKERS`` of which it is not."""


@every("docker", DOCKERS)
@every("minor", OLDEST_DOCKERS)
def test_docker_under_the_kubelet_of_each_minor(minor: str, docker: str) -> None:
    code, oldest = OLDEST_DOCKERS[minor]
    found = codes(control_plane=minor, kubelet=f"v{minor}.0", runtime=f"docker://{docker}")
    is_old = DOCKERS.index(docker) < DOCKERS.index(oldest)
    assert [each for each in found if each.startswith("Runtime")] == ([code] if is_old else [])


@every(
    ("host", "runtime", "missing"),
    [
        ("10.0.17763.1", "containerd://2.3.0", False),
        ("10.0.18362.1", "containerd://1.6.39", False),
        ("10.0.18362.1", "containerd://1.7.28", True),
        ("10.0.19042.1", "containerd://1.7.28", False),
        ("10.0.19042.1", "containerd://2.0.0", True),
        ("10.0.14393.1", "containerd://1.7.28", True),
        ("10.0.20348.1", "containerd://1.6.0", False),
        ("10.0.25398.1", "containerd://1.7.28", False),
        ("10.0.26100.1", "containerd://2.3.0", False),
        # The variant of 2022 serves, where containerd lets it through.
        ("10.0.26100.1", "containerd://2.0.4+azure", False),
        ("10.0.26100.1", "containerd://1.7.6", False),
        ("10.0.26100.1", "containerd://1.7.5", True),
        ("10.0.26100.1", "containerd://1.6.22", True),
        ("10.0.26100.1", "containerd://1.6.23", False),
        # 1.4 takes pause 1.4.0 and 1.5 takes 3.5, and neither has 2022.
        ("10.0.17763.1", "containerd://1.4.1", False),
        ("10.0.19041.1", "containerd://1.4.13", False),
        ("10.0.19042.1", "containerd://1.4.13", True),
        ("10.0.20348.1", "containerd://1.4.13", True),
        ("10.0.18362.1", "containerd://1.5.7", False),
        ("10.0.19042.1", "containerd://1.5.18", False),
        ("10.0.20348.1", "containerd://1.5.18", True),
        # Nothing is known of the default of these.
        ("10.0.18362.1", "containerd://1.3.10", False),
        ("10.0.18362.1", "containerd://2.9.0", False),
        ("10.0.18362.1", "docker://25.0.0", False),
        ("10.0.22631.1", "containerd://2.0.0", False),
    ],
)
def test_pause_image(host: str, runtime: str, missing: bool) -> None:
    found = judged(host=host, runtime=runtime, windows_build="")
    reasons = [reason for reason in found.reasons if reason.code == "PauseImageMissing"]
    assert [reason.verdict for reason in reasons] == ([Verdict.WARNED] if missing else [])


def test_nothing_is_missing_in_a_pause_image_that_is_not_known_completely(
    edited: Callable[[str, str], Matrix],
) -> None:
    pause = '- {image: "registry.k8s.io/pause:3.8",'
    layers = layered(edited(pause, f"{pause} complete: false,"))
    node = {"host": "10.0.18362.1", "windows_build": "", "runtime": "containerd://1.7.28"}
    assert "PauseImageMissing" in codes(**node)
    assert "PauseImageMissing" not in codes(**node, layers=layers)


@pytest.mark.parametrize(
    ("today", "ended"), [(date(2031, 10, 13), False), (date(2031, 10, 14), False), (date(2031, 10, 15), True)]
)
def test_support_lasts_through_its_last_day(today: date, ended: bool) -> None:
    assert ("SupportEnded" in codes(today=today)) is ended
    assert (judged(today=today).verdict is Verdict.UNSUPPORTED) is ended


def test_support_ends_with_mainstream_support_where_there_is_no_other() -> None:
    found = judged(host="10.0.25398.1", windows_build="", today=date(2026, 5, 13))
    assert found.end_of_support == date(2026, 5, 12)
    assert "SupportEnded" in [reason.code for reason in found.reasons]


def test_a_node_of_a_release_that_only_a_row_knows_is_judged_by_what_rows_say() -> None:
    node = {"host": "10.0.30000.1", "windows_build": "10.0.30000", "runtime": "containerd://2.9.0"}
    assert (judged(**node).verdict, judged(**node).os_version) == (Verdict.UNKNOWN, "")
    named = judged(**node, layers=layered(built_in(), [], [Row("2028", build="10.0.30000")]))
    assert (named.verdict, named.os_version, named.revision) == (Verdict.UNKNOWN, "2028", 1)
    assert named.end_of_support is None
    row = Row(
        "2028", build="10.0.30000", verdict=RowVerdict.ALLOW, end_of_support="2038-01-12", min_revision=2
    )
    found = judged(**node, layers=layered(built_in(), [], [row]))
    assert found.end_of_support == date(2038, 1, 12)
    assert [reason.code for reason in found.reasons] == ["RevisionTooLow", "AllowedByRow"]


def test_the_kubelet_decides_and_the_control_plane_warns() -> None:
    """2004 was dropped by 1.23: nodes that are still at 1.22 cannot follow."""
    node = {
        "host": "10.0.19041.804",
        "windows_build": "",
        "runtime": "docker://19.3.14",
        "today": date(2021, 12, 14),
    }
    assert codes(**node, kubelet="v1.21.0", control_plane="1.22") == ["Documented"]
    found = judged(**node, kubelet="v1.22.0", control_plane="1.23")
    assert [reason.code for reason in found.reasons] == ["ControlPlaneUnsupported", "Documented"]
    assert found.verdict is Verdict.WARNED


def test_where_vendors_support_it_the_kubelet_can_follow() -> None:
    """2019 is not in the documentation from 1.35 on, and OpenShift and EKS list it."""
    found = judged(host="10.0.17763.2452", windows_build="", kubelet="v1.34.0", control_plane="1.35")
    assert [reason.code for reason in found.reasons] == ["DocumentedWithCaution"]
    found = judged(host="10.0.17763.2452", windows_build="", kubelet="v1.36.0", control_plane="1.37")
    assert [reason.code for reason in found.reasons] == ["ControlPlaneNotListed", "VendorOnly"]


@pytest.mark.parametrize(
    ("host", "broken"),
    [
        # https://github.com/microsoft/Windows-Containers/issues/516
        ("10.0.20348.2581", ""),
        ("10.0.20348.2582", "container networking"),
        ("10.0.20348.2761", "container networking"),
        ("10.0.20348.2762", ""),
        # KB4482887
        ("10.0.17763.347", "overlay networks"),
        ("10.0.17763.348", ""),
        # https://github.com/rancher/rancher/issues/50915
        ("10.0.26100.6898", "overlay networks"),
        ("10.0.26100.6899", ""),
        ("10.0.26100", ""),
    ],
)
def test_a_revision_that_is_known_to_be_bad_is_a_warning_and_no_floor(host: str, broken: str) -> None:
    found = judged(host=host, windows_build="")
    reasons = [reason for reason in found.reasons if reason.code == "KnownBadRevision"]
    assert [reason.verdict for reason in reasons] == ([Verdict.WARNED] if broken else [])
    assert all(f"break {broken}" in reason.message for reason in reasons)
    assert all("https://" in reason.message for reason in reasons)
    assert found.verdict is not Verdict.UNSUPPORTED


@pytest.mark.parametrize(
    ("runtime", "key"),
    [
        ("containerd://1.7.5", "Check sandbox_image in"),
        ("containerd://2.0.0", "Check pinned_images.sandbox in"),
    ],
)
def test_a_pause_image_that_may_miss_is_told_with_how_to_see_which_one_the_node_takes(
    runtime: str, key: str
) -> None:
    found = judged(host="10.0.18362.900", runtime=runtime, windows_build="")
    (reason,) = (reason for reason in found.reasons if reason.code == "PauseImageMissing")
    assert "is not known to have a variant for build 18362" in reason.message
    assert "The nodes do not report which pause image they use." in reason.message
    assert key in reason.fix
    assert "`containerd config dump`" in reason.fix


def test_before_1_14_windows_nodes_were_not_stable() -> None:
    found = judged(kubelet="v1.13.0", control_plane="1.13")
    assert found.reasons[0].code == "ReleaseUnknown"
    assert found.reasons[0].message == (
        "Windows nodes are stable since Kubernetes 1.14. The support matrix has nothing about Windows Server "
        "2022 with Kubernetes 1.13."
    )


def test_a_release_that_only_the_control_plane_lists_is_not_supported() -> None:
    found = judged(
        host="10.0.26100.1",
        windows_build="",
        kubelet="v1.31.0",
        control_plane="1.34",
        runtime="containerd://2.0.0",
    )
    assert found.verdict is Verdict.UNSUPPORTED
    assert found.reasons[0].code == "NotListed"


# ─── floors ──────────────────────────────────────────────────────────────


def test_floors_are_compared_as_numbers_also_above_32767() -> None:
    assert codes(host="10.0.20348.32995", min_revision=4053) == ["Documented"]
    assert codes(host="10.0.20348.999", min_revision=1000) == ["RevisionTooLow", "Documented"]
    assert codes(host="10.0.20348.32767", min_revision=32768) == ["RevisionTooLow", "Documented"]
    assert codes(host="10.0.20348.32768", min_revision=32768) == ["Documented"]


def test_a_floor_of_the_pool_holds_for_its_release_only() -> None:
    assert codes(min_revision=9999, os_version="2025") == ["Documented"]
    assert codes(min_revision=9999, os_version="2022") == ["RevisionTooLow", "Documented"]
    # The nodes of a pool that asks for 1809 cannot be told from those of 2019.
    assert "RevisionTooLow" in codes(host="10.0.17763.1", min_revision=9, os_version="1809")


@pytest.mark.parametrize(
    ("cluster", "pool", "own", "layer"),
    [
        (5000, None, None, Layer.CLUSTER),
        (None, 5000, None, Layer.POOL),
        (5000, 4100, None, Layer.CLUSTER),
        (4100, 5000, None, Layer.POOL),
        (5000, None, 4100, Layer.CLUSTER),
        (4100, None, 5000, Layer.POOL),
        # Of equal ones that of the wider layer.
        (5000, 5000, 5000, Layer.CLUSTER),
    ],
)
def test_of_floors_the_highest_holds(
    cluster: int | None, pool: int | None, own: int | None, layer: Layer
) -> None:
    layers = layered(built_in(), [Row("2022", min_revision=cluster)], [Row("2022", min_revision=pool)])
    found = judged(layers=layers, min_revision=own)
    assert found.reasons[0].code == "RevisionTooLow"
    assert "5000" in found.reasons[0].message
    assert found.reasons[0].layer is layer


# ─── rows ────────────────────────────────────────────────────────────────


def test_allow_lifts_the_verdict_on_the_release_and_nothing_else() -> None:
    node: dict[str, Any] = {"host": "10.0.17763.9000", "windows_build": "10.0.17763"}
    assert judged(**node).verdict is Verdict.WARNED
    row = Row("2019", verdict=RowVerdict.ALLOW, reason="backport")
    found = judged(**node, layers=layered(built_in(), pool_rows=[row]))
    assert (found.verdict, found.reasons[0].code) == (Verdict.SUPPORTED, "AllowedByRow")
    assert found.reasons[0].layer is Layer.POOL
    assert "backport" in found.reasons[0].message
    layers = layered(built_in(), pool_rows=[row])
    for changed, code in (
        ({"today": date(2029, 1, 10)}, "SupportEnded"),
        ({"control_plane": "1.35"}, "KubeletNewer"),
        ({"runtime": "containerd://1.5.0"}, "RuntimeTooOld"),
        ({"min_revision": 9001}, "RevisionTooLow"),
    ):
        found = judged(**(node | {"layers": layers} | changed))
        assert (found.verdict, found.reasons[0].code) == (Verdict.UNSUPPORTED, code)


def test_an_end_of_support_of_a_row_replaces_that_of_microsoft_both_ways() -> None:
    later = layered(built_in(), [Row("23H2", end_of_support="2027-01-01", verdict=RowVerdict.ALLOW)])
    found = judged(host="10.0.25398.1", windows_build="", layers=later)
    assert (found.verdict, found.end_of_support) == (Verdict.SUPPORTED, date(2027, 1, 1))
    earlier = layered(built_in(), [], [Row("2022", end_of_support="2026-11-20")])
    found = judged(layers=earlier)
    assert (found.reasons[0].code, found.reasons[0].layer) == ("SupportEnded", Layer.POOL)


# ─── as a whole ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], Verdict.SUPPORTED),
        ([Verdict.SUPPORTED, Verdict.WARNED], Verdict.WARNED),
        ([Verdict.UNKNOWN, Verdict.WARNED], Verdict.UNKNOWN),
        ([Verdict.UNKNOWN, Verdict.UNSUPPORTED], Verdict.UNSUPPORTED),
    ],
)
def test_the_worst_reason_is_the_verdict(verdicts: list[Verdict], expected: Verdict) -> None:
    assert worst(Reason("X", each, "x") for each in verdicts) is expected


TEXTS = st.text(max_size=20)
HOSTS = TEXTS | st.sampled_from(["10.0.20348.1", "10.0.17763", "10.0.26100.32995", "10.0.99999.1"])
KUBELETS = TEXTS | st.sampled_from(["v1.36.0", "v1.20.1", "v1.99.0", "v0.0.0", "v2.1.0"])
RUNTIMES = TEXTS | st.sampled_from(
    ["containerd://1.6.0", "docker://Unknown", "containerd://9.9.9", "x://1.1.1"]
)


@given(st.none() | KUBELETS, KUBELETS, HOSTS, RUNTIMES, TEXTS | HOSTS, st.none() | st.integers(), st.dates())
@example(None, "", "", "", "", None, date.min)
def test_no_input_fails_and_every_answer_hangs_together(
    control_plane: str | None,
    kubelet: str,
    host: str,
    runtime: str,
    label: str,
    floor: int | None,
    today: date,
) -> None:
    inputs: dict[str, Any] = {
        "control_plane": control_plane,
        "kubelet": kubelet,
        "host": host,
        "runtime": runtime,
        "windows_build": label,
        "min_revision": floor,
        "today": today,
    }
    found = judged(**inputs)
    assert found == judged(**inputs)
    assert hash(found) == hash(judged(**inputs))
    assert found.verdict is worst(found.reasons)
    assert found.reasons
    assert all(reason.message.endswith(".") and len(reason.message) < 400 for reason in found.reasons)
    assert len({reason.code for reason in found.reasons}) == len(found.reasons)
    assert bool(found.os_version) == (found.end_of_support is not None)


@given(KUBELETS, HOSTS, RUNTIMES, st.dates())
def test_missing_information_alone_never_makes_a_node_unsupported(
    kubelet: str, host: str, runtime: str, today: date
) -> None:
    """P4: what is left out of a node that is not unsupported makes it Unknown at worst."""
    whole = judged(kubelet=kubelet, host=host, runtime=runtime, windows_build="", today=today)
    if whole.verdict is Verdict.UNSUPPORTED:
        return
    for missing in ({"control_plane": None}, {"kubelet": ""}, {"host": ""}, {"runtime": ""}):
        less = {
            "kubelet": kubelet,
            "host": host,
            "runtime": runtime,
            "windows_build": "",
            "today": today,
        } | missing
        assert judged(**less).verdict is not Verdict.UNSUPPORTED


def test_a_control_plane_of_a_minor_that_nobody_knows_is_unknown_and_a_row_helps() -> None:
    inputs = {"kubelet": "v1.36.3", "control_plane": "v1.38.0"}
    found = judged(**inputs)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons[0].code == "ControlPlaneNotListed"
    row = Row("2022", verdict=RowVerdict.ALLOW)
    assert judged(**inputs, layers=layered(built_in(), [row])).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(("rows", "owner"), [(("cluster",), "file"), (("pool",), "pool")])
def test_a_message_names_the_layer_that_decided(rows: tuple[str, ...], owner: str) -> None:
    denied = [Row("2022", verdict=RowVerdict.DENY)]
    layers = layered(built_in(), denied if "cluster" in rows else (), denied if "pool" in rows else ())
    assert owner in judged(layers=layers).reasons[0].message


def test_layers_are_a_key_for_answers_that_are_kept() -> None:
    rows = [Row("2022", min_revision=5)]
    assert layered(built_in(), rows) == layered(built_in(), list(rows))
    assert hash(layered(built_in(), rows)) == hash(layered(built_in(), list(rows)))
    assert layered(built_in(), rows) != layered(built_in())
