"""Rules of the Dockerfile that can be read from it; ``make test-image`` builds it and runs the result."""

from __future__ import annotations

import json
import re
import tomllib

from harness.documents import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"\\\n", "", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()


def of(kind: str) -> list[str]:
    return [line.partition(" ")[2].strip() for line in INSTRUCTIONS if line.startswith(f"{kind} ")]


def test_both_stages_are_built_on_the_argument_base_whose_default_is_a_published_tag() -> None:
    first = INSTRUCTIONS[0]
    assert re.fullmatch(r"ARG BASE=docker\.io/library/python:3\.\d+-slim-[a-z]+", first)
    assert [stage.split()[0] for stage in of("FROM")] == ["${BASE}", "${BASE}"]


def test_everything_that_is_installed_is_pinned_with_a_hash_or_is_ours() -> None:
    installs = [part.strip() for line in of("RUN") for part in line.split("&&") if " install " in part]
    ours = [each for each in installs if "--require-hashes" not in each]
    assert len(installs) - len(ours) == 2
    assert ["--no-index" in each and "wheels/" in each for each in ours] == [True]
    assert any("-r requirements/run.txt" in each for each in installs)


def test_it_runs_as_a_number_without_a_shell_from_the_start() -> None:
    assert of("USER") == ["65532:65532"]
    for form in (*of("ENTRYPOINT"), *of("CMD")):
        assert isinstance(json.loads(form), list)
    [entrypoint] = of("ENTRYPOINT")
    assert json.loads(entrypoint)[0].startswith("/")


def test_nothing_names_an_architecture() -> None:
    assert re.findall(r"amd64|x86|arm64|aarch64|--platform", "\n".join(INSTRUCTIONS)) == []


def test_the_build_sees_only_what_the_dockerfile_copies() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    copied = {source for line in of("COPY") if not line.startswith("--from") for source in line.split()[:-1]}
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_the_image_is_built_with_the_build_system_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (ROOT / "requirements" / "build.in").read_text().split() == project["build-system"]["requires"]


def test_each_file_that_names_what_is_wanted_has_its_pins() -> None:
    for wanted in sorted((ROOT / "requirements").glob("*.in")):
        pins = wanted.with_suffix(".txt").read_text()
        lines = [line for line in wanted.read_text().splitlines() if line and not line.startswith("#")]
        assert lines
        assert [pin for pin in lines if f"{pin} \\" not in pins] == []
