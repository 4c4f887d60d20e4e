"""What a tag says of the Windows that an image is made for; mostly nothing."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from harness.every import every
from winpool.support.compat import guess_version
from winpool.support.matrix import built_in
from winpool.support.versions import WindowsVersion

MCR = "mcr.microsoft.com"


@every(
    ("reference", "version"),
    [
        (f"{MCR}/windows/servercore:ltsc2016", "10.0.14393"),
        (f"{MCR}/windows/nanoserver:sac2016", "10.0.14393"),
        (f"{MCR}/windows/servercore:ltsc2019", "10.0.17763"),
        (f"{MCR}/windows/nanoserver:1809", "10.0.17763"),
        (f"{MCR}/windows:1809", "10.0.17763"),
        (f"{MCR}/windows/servercore:ltsc2022", "10.0.20348"),
        (f"{MCR}/windows/server:ltsc2025", "10.0.26100"),
        (f"{MCR}/windows/nanoserver:1709", "10.0.16299"),
        (f"{MCR}/windows/nanoserver:1803", "10.0.17134"),
        (f"{MCR}/windows/nanoserver:1903", "10.0.18362"),
        (f"{MCR}/windows/nanoserver:1909", "10.0.18363"),
        (f"{MCR}/windows/nanoserver:2004", "10.0.19041"),
        (f"{MCR}/windows/nanoserver:20H2", "10.0.19042"),
        (f"{MCR}/windows/nanoserver:20H2-KB4592438", "10.0.19042"),
        (f"{MCR}/windows/nanoserver:1809-KB4592440", "10.0.17763"),
        (f"{MCR}/windows/servercore:10.0.20348.2159", "10.0.20348.2159"),
        (f"{MCR}/windows/servercore:10.0.26100.32995-amd64", "10.0.26100.32995"),
        (f"{MCR}/dotnet/framework/sdk:4.8-windowsservercore-ltsc2022", "10.0.20348"),
        (f"{MCR}/dotnet/aspnet:8.0-nanoserver-1809", "10.0.17763"),
        ("python:3.12-windowsservercore-ltsc2025", "10.0.26100"),
        ("localhost:5000/team/app:1.2_LTSC2022", "10.0.20348"),
        ("app:ltsc2022-10.0.20348.2159", "10.0.20348.2159"),
        ("app:ltsc2022@sha256:" + "a" * 64, "10.0.20348"),
    ],
)
def test_a_tag_that_names_a_release(reference: str, version: str) -> None:
    assert str(guess_version(reference, matrix=built_in())) == version


@every(
    "reference",
    [
        "",
        "app",
        "app:",
        "app:latest",
        "app:1.2.3",
        # Numbers that are releases, but not where they stand here.
        "app:1809",
        "ubuntu:2004",
        "app:build-2004-1",
        "windows/nanoserver:9.9-2004",
        # Not tags at all.
        "localhost:5000/ltsc2022",
        "registry:2022/ltsc2022/app",
        "ltsc2022",
        "app@sha256:" + "a" * 64,
        # Two releases at once.
        "app:ltsc2019-ltsc2022",
        "app:ltsc2019-10.0.20348.1",
        f"{MCR}/dotnet/framework/sdk:4.8",
        "app:ltsc2030",
        "app:" + "a" * 200 + "-ltsc2022",
        "app:ltsc2022 ",
    ],
)
def test_a_tag_that_says_nothing(reference: str) -> None:
    assert guess_version(reference, matrix=built_in()) is None


WORDS = st.lists(
    st.sampled_from(["app", ":", "/", "@", "-", "_", "ltsc2022", "1809", "10.0.20348.1", "nanoserver", "é"]),
    max_size=9,
).map("".join)


@given(WORDS | st.text(max_size=80))
@example("@:@:")
@example(":" * 9)
def test_no_reference_fails(reference: str) -> None:
    assert isinstance(guess_version(reference, matrix=built_in()), WindowsVersion | None)
