"""The texts that real nodes report are read; no text of any kind makes a parser fail."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from winpool.support.versions import (
    Minor,
    Release,
    RuntimeVersion,
    WindowsVersion,
    parse_minor,
    parse_release,
    parse_runtime,
    parse_windows,
)

DOTTED = st.lists(
    st.sampled_from(
        ["v", "1", "10", "0", ".", "-", "+", "20348", "32995", "://", "containerd", "rc", "\n", "²"]
    ),
    max_size=10,
).map("".join)
TEXTS = st.text(max_size=60) | DOTTED


@pytest.mark.parametrize(
    ("text", "build", "revision"),
    [
        ("10.0.14393", "10.0.14393", None),
        ("10.0.17763.437", "10.0.17763", 437),
        ("10.0.17763.1397", "10.0.17763", 1397),
        ("10.0.17763.2452", "10.0.17763", 2452),
        ("10.0.18362.116", "10.0.18362", 116),
        ("10.0.19041.804", "10.0.19041", 804),
        ("10.0.20348.1006", "10.0.20348", 1006),
        ("10.0.20348.1607", "10.0.20348", 1607),
        ("10.0.26100.32995", "10.0.26100", 32995),
        ("10.0.22631.5335", "10.0.22631", 5335),
    ],
)
def test_a_kernel_version_of_a_real_node(text: str, build: str, revision: int | None) -> None:
    found = parse_windows(text)
    assert found is not None
    assert (found.build_text, found.revision) == (build, revision)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0",
        "10.0.",
        "10.0.20348.",
        "10.0.20348.1.2",
        " 10.0.20348",
        "10.0.20348\n",
        "10.0.-1",
        "10.0.²0348",
        "10.0." + "9" * 5000,
        "6.1.0-rc1",
        "6.3.9600",
        "20348.3932.250714",
        "5.15.0-1051-azure",
    ],
)
def test_what_is_no_version_of_windows_is_unknown(text: str) -> None:
    assert parse_windows(text) is None


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("v1.9.0-alpha.0", (1, 9)),
        ("v1.12.7", (1, 12)),
        ("v1.15.0", (1, 15)),
        ("v1.19.3", (1, 19)),
        ("v1.19.7", (1, 19)),
        ("v1.23.3-rc.0.3+531a28b82ee021", (1, 23)),
        ("v1.23.12", (1, 23)),
        ("v1.24.7-eks-fb459a0", (1, 24)),
        ("v1.32.5", (1, 32)),
        ("v1.33.12", (1, 33)),
        ("1.36", (1, 36)),
        ("1.35+", (1, 35)),
    ],
)
def test_a_version_of_kubernetes(text: str, minor: tuple[int, int]) -> None:
    assert parse_minor(text) == Minor(*minor)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        "v1.",
        "1.x",
        "one.two",
        "v1.36.0.1",
        "v1.36 ",
        "v1.36.0-\n",
        "v-1.3",
        "v0.0.0",
        "v0.0.0-master+$Format:%H$",
    ],
)
def test_what_is_no_version_of_kubernetes_is_unknown(text: str) -> None:
    assert parse_minor(text) is None


@pytest.mark.parametrize(
    ("text", "name", "release"),
    [
        ("containerd://1.4.1", "containerd", Release(1, 4, 1)),
        ("containerd://1.5.7", "containerd", Release(1, 5, 7)),
        ("containerd://1.6.2", "containerd", Release(1, 6, 2)),
        ("containerd://1.6.6", "containerd", Release(1, 6, 6)),
        ("containerd://1.7.27", "containerd", Release(1, 7, 27)),
        ("containerd://2.0.4+azure", "containerd", Release(2, 0, 4)),
        ("containerd://v1.7.1", "containerd", Release(1, 7, 1)),
        ("containerd://1.7.20-gke.1", "containerd", Release(1, 7, 20)),
        ("containerd://1.4.0-beta.2", "containerd", Release(1, 4, 0, "beta", 2)),
        ("docker://18.9.2", "docker", Release(18, 9, 2)),
        ("docker://19.3.14", "docker", Release(19, 3, 14)),
        ("docker://Unknown", "docker", None),
        ("containerd://", "containerd", None),
        ("containerd://1.6.x", "containerd", None),
    ],
)
def test_a_container_runtime(text: str, name: str, release: Release | None) -> None:
    assert parse_runtime(text) == RuntimeVersion(name, release)


@pytest.mark.parametrize(
    "text", ["", "containerd", "://1.7.1", "1.7.1", "Containerd://1", "containerd:/1", "a b://1"]
)
def test_what_names_no_runtime_is_unknown(text: str) -> None:
    assert parse_runtime(text) is None


def test_what_comes_before_a_release_is_older() -> None:
    in_order = [
        "1.4.0-alpha.9",
        "1.4.0-beta.1",
        "1.4.0-beta.2",
        "1.4.0-rc.0",
        "1.4.0",
        "1.4.1",
        "1.10.0",
        "2.0.0",
    ]
    found = [parse_release(text) for text in in_order]
    assert None not in found
    assert found == sorted(each for each in found if each is not None)
    assert [str(each) for each in found] == in_order


@given(TEXTS)
@example("containerd://" + "9" * 400)
@example("10.0.20348.99999999999")
def test_any_text_is_a_version_or_unknown(text: str) -> None:
    assert isinstance(parse_windows(text), WindowsVersion | None)
    assert isinstance(parse_minor(text), Minor | None)
    assert isinstance(parse_release(text), Release | None)
    assert isinstance(parse_runtime(text), RuntimeVersion | None)


NUMBERS = st.integers(min_value=0, max_value=2**31 - 1)


@given(NUMBERS, st.none() | NUMBERS)
def test_every_build_and_revision_of_31_bits_is_read_as_written(build: int, revision: int | None) -> None:
    version = WindowsVersion(build, revision)
    assert parse_windows(str(version)) == version


SMALL = st.integers(min_value=0, max_value=99999)


@given(
    st.integers(min_value=1, max_value=99999),
    SMALL,
    SMALL,
    st.from_regex(r"(-[a-z0-9.]{1,20})?(\+[a-z0-9.]{1,20})?", fullmatch=True),
)
def test_no_suffix_changes_the_minor(major: int, minor: int, patch: int, suffix: str) -> None:
    assert parse_minor(f"v{major}.{minor}.{patch}{suffix}") == Minor(major, minor)
