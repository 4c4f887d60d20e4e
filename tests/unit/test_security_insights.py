"""What programs read about the project's security has the form that OpenSSF specifies, and is true."""

from __future__ import annotations

import datetime
import re
import tomllib
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from harness.documents import ROOT
from release.addresses import BRANCH, Addresses

FILE = (ROOT / "security-insights.yml").read_text()

BASE = Addresses.read().repository

Url = Annotated[str, Meta(pattern=r"^https?://\S+$")]
Some = Annotated[str, Meta(pattern=r"\S")]


class Part(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """What spec/schema.cue of ossf/security-insights requires in 2.2.0, and what we give beside it."""


class Header(Part):
    schema_version: Literal["2.2.0"]
    last_updated: datetime.date
    last_reviewed: datetime.date
    url: Url


class Contact(Part):
    name: Some
    primary: bool


class Reference(Part):
    name: Some
    url: Url
    comment: Some


class Reporting(Part):
    reports_accepted: bool
    bug_bounty_available: bool
    policy: Url
    comment: Some


class ProjectPages(Part):
    quickstart_guide: Url
    detailed_guide: Url
    code_of_conduct: Url
    release_process: Url
    support_policy: Url


class Project(Part):
    name: Some
    homepage: Url
    administrators: Annotated[list[Contact], Meta(min_length=1)]
    documentation: ProjectPages
    repositories: Annotated[list[Reference], Meta(min_length=1)]
    vulnerability_reporting: Reporting


class RepositoryPages(Part):
    contributing_guide: Url
    dependency_management_policy: Url
    security_policy: Url


class License(Part):
    url: Url
    expression: Some


class Assessment(Part):
    comment: Some
    evidence: Url


class Assessments(Part):
    self: Assessment


class Integration(Part):
    adhoc: bool
    ci: bool
    release: bool


class Results(Part):
    """None is published."""


class Tool(Part):
    name: Some
    type: Literal["fuzzing", "container", "secret", "SCA", "SAST", "other"]
    rulesets: Annotated[list[Some], Meta(min_length=1)]
    comment: Some
    integration: Integration
    results: Results


class Posture(Part):
    assessments: Assessments
    tools: list[Tool]


class Repository(Part):
    url: Url
    status: Literal["active", "abandoned", "concept", "inactive", "moved", "suspended", "unsupported", "WIP"]
    accepts_change_request: bool
    accepts_automated_change_request: bool
    bug_fixes_only: bool
    no_third_party_packages: bool
    core_team: Annotated[list[Contact], Meta(min_length=1)]
    documentation: RepositoryPages
    license: License
    security: Posture


class Insights(Part):
    header: Header
    project: Project
    repository: Repository


def insights() -> Insights:
    return msgspec.convert(yaml.safe_load(FILE), Insights)


def test_it_has_the_form_of_the_specification_and_one_first_contact() -> None:
    found = insights()
    for contacts in (found.project.administrators, found.repository.core_team):
        assert [each.primary for each in contacts].count(True) == 1


def test_each_address_is_a_file_of_this_repository_or_the_project_itself() -> None:
    addresses = re.findall(r"https?://\S+", FILE)
    assert [each for each in addresses if not each.startswith(BASE)] == []
    paths = [each.removeprefix(BASE).removeprefix(BRANCH).removeprefix("/") for each in addresses]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_licence_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert insights().repository.license.expression == project["license"]


def test_there_is_a_release_if_it_is_in_the_changelog() -> None:
    is_released = re.search(r"^## (?!Unreleased$)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (insights().repository.status == "WIP") == (is_released is None)


def test_each_tool_is_run_by_what_its_comment_names_and_in_ci_only_where_it_says_so() -> None:
    makefile = (ROOT / "Makefile").read_text()
    pins = "".join(path.read_text() for path in (ROOT / "requirements").glob("*.txt"))
    in_ci = (ROOT / ".github" / "workflows" / "test.yaml").read_text()
    for tool in insights().repository.security.tools:
        [target] = re.findall(r"^make ([a-z-]+)", tool.comment)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), tool
        assert re.search(rf"(?i)bin\)?/{tool.name} ", makefile), tool
        assert f"{tool.name}==" in pins, tool
        assert tool.integration.ci == (f"- run: make {target}\n" in in_ci), tool
