"""A machine on which the image cannot be tested is told so: the tests fail, and are not left out."""

from __future__ import annotations

import pytest

from image.needs import BASE_TOOL, RELEASE_TOOLS, TOOLS, missing


def here(*tools: str) -> dict[str, str]:
    return {tool: f"/usr/bin/{tool}" for tool in tools}


def test_root_with_all_tools_has_all_that_is_needed() -> None:
    assert missing(user=0, which=here(*TOOLS, BASE_TOOL).get, base="") == []


def test_a_published_base_needs_no_tool_that_makes_one() -> None:
    assert missing(user=0, which=here(*TOOLS).get, base="python:3.13-slim-trixie") == []
    [sentence] = missing(user=0, which=here(*TOOLS).get, base="")
    assert "mmdebstrap is missing" in sentence
    assert "BASE=" in sentence


@pytest.mark.parametrize("tool", TOOLS)
def test_a_missing_tool_is_named(tool: str) -> None:
    [sentence] = missing(user=0, which=here(*(set(TOOLS) - {tool}), BASE_TOOL).get, base="")
    assert sentence.startswith(f"{tool} is missing")


@pytest.mark.parametrize("tool", sorted(RELEASE_TOOLS.keys() - TOOLS))
def test_a_release_needs_more_than_an_image(tool: str) -> None:
    there = here(*(set(RELEASE_TOOLS) - {tool}), BASE_TOOL).get
    assert missing(user=0, which=there, base="") == []
    [sentence] = missing(user=0, which=there, base="", target="test-release")
    assert sentence.startswith(f"{tool} is missing")


def test_who_is_not_root_is_told() -> None:
    [sentence] = missing(user=1000, which=here(*TOOLS, BASE_TOOL).get, base="")
    assert "as root" in sentence
