"""GitHub accepts the forms for issues, and what they ask people to type exists.

The rules are those of GitHub's pages "Syntax for issue forms", "Syntax for GitHub's form schema" and "Common
validation errors when creating issue forms". Only GitHub itself can say that a form is valid.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Literal

import msgspec
import pytest
import yaml
from msgspec import Meta

from harness.documents import ROOT
from winpool.cli.__main__ import parser

FOLDER = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in FOLDER.glob("*.yml") if path.name != "config.yml")
TEMPLATE = ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"

Text = Annotated[str, Meta(pattern=r"\S")]
"""GitHub refuses texts of spaces alone."""


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """GitHub refuses keys that it does not know."""


class Said(Strict):
    value: Text


class Asked(Strict):
    label: Text
    description: Text
    placeholder: Text = ""
    render: Text = ""


class Validations(Strict):
    required: bool


class Markdown(Strict, tag_field="type", tag="markdown"):
    attributes: Said


class Field(Strict):
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$")]
    attributes: Asked
    validations: Validations = msgspec.field(default_factory=lambda: Validations(required=False))


class Textarea(Field, tag_field="type", tag="textarea"):
    """Several lines."""


class Input(Field, tag_field="type", tag="input"):
    """One line."""


class Form(Strict):
    name: Text
    description: Text
    labels: list[Literal["bug", "enhancement", "question"]]
    """Of those that each repository on GitHub has: one that is not there is left out without a word."""
    body: list[Markdown | Textarea | Input]


class Config(Strict):
    blank_issues_enabled: bool


def form(name: str) -> Form:
    return msgspec.convert(yaml.safe_load((FOLDER / f"{name}.yml").read_text()), Form)


def fields(name: str) -> list[Field]:
    return [each for each in form(name).body if isinstance(each, Field)]


@pytest.mark.parametrize("name", [path.stem for path in FORMS])
def test_github_accepts_a_form(name: str) -> None:
    asked = fields(name)
    assert asked, "GitHub wants one field beside texts"
    assert len({each.id for each in asked}) == len(asked)
    assert len({each.attributes.label for each in asked}) == len(asked)
    assert [each.id for each in asked if each.attributes.render and isinstance(each, Input)] == []


def test_no_two_forms_have_one_name_and_there_is_no_issue_without_a_form() -> None:
    assert sorted(path.stem for path in FORMS) == ["bug", "feature", "question"]
    assert len({form(path.stem).name for path in FORMS}) == len(FORMS)
    config = msgspec.convert(yaml.safe_load((FOLDER / "config.yml").read_text()), Config)
    assert not config.blank_issues_enabled


def test_a_bug_says_the_version_the_vendor_and_the_status() -> None:
    required = {each.id for each in fields("bug") if each.validations.required}
    assert required == {"happened", "version", "kubernetes", "status"}


def commands(begin: str) -> list[list[str]]:
    """Return what follows ``begin`` in each command that a form or the template names."""
    texts = [re.sub(r"\s+", " ", path.read_text()) for path in (*FORMS, TEMPLATE)]
    return [shlex.split(each) for text in texts for each in re.findall(rf"`{begin} ([^`]+)`", text)]


def test_the_verbs_that_people_are_to_type_exist_with_these_flags() -> None:
    typed = commands("kubectl winpool")
    assert ["status", "-o", "json"] in typed
    assert ["version"] in typed
    for arguments in typed:
        assert parser(arguments[0]).parse_args(arguments)


def test_the_targets_that_people_are_to_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [target for [target] in commands("make")]
    assert "test" in targets
    assert [each for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)] == []
