"""The generator refuses at once what an API server would refuse later."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from winpool.api.crd import NotStructuralError, structural_schema
from winpool.api.model import ATOMIC, ApiModel, KeyRule, Rule, Validation, cel_list, list_map
from winpool.api.quantity import Memory


class Inner(ApiModel):
    """Inner words."""

    size: int = Field(default=3, ge=0, le=9, description="d")
    other: int = Field(default_factory=int, ge=0, le=2**40, description="d")

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule("self.size < 9", "must be small", lambda self: self.size < 9),
    )


class Outer(ApiModel):
    """Outer words."""

    inner: Annotated[Inner, Rule("true", "must be", lambda _: True, at=".size")] = Field(
        default=Inner(), description="More special words."
    )
    absent: Inner | None = Field(default=None, description="d")
    many: Annotated[tuple[Inner, ...], list_map("size")] = Field(default_factory=tuple, max_length=2)
    names: Annotated[tuple[str, ...], ATOMIC] = Field(default_factory=tuple, max_length=2)
    memory: Memory | None = Field(default=None, description="d")


PROPERTIES: dict[str, Any] = structural_schema(Outer)["properties"]


def test_what_stands_at_the_field_wins_over_the_model() -> None:
    assert PROPERTIES["inner"]["description"] == "More special words."
    assert PROPERTIES["many"]["items"]["description"] == "Inner words."


def test_rules_of_the_model_and_of_the_field_are_both_kept() -> None:
    assert PROPERTIES["inner"]["x-kubernetes-validations"] == [
        {"rule": "self.size < 9", "message": "must be small"},
        {"rule": "true", "message": "must be", "fieldPath": ".size"},
    ]


def test_a_default_is_for_storage_and_a_factory_is_not() -> None:
    assert PROPERTIES["inner"]["default"] == {"size": 3}
    assert "default" not in PROPERTIES["inner"]["properties"]["other"]


def test_an_optional_field_is_a_plain_one_that_may_be_absent() -> None:
    assert PROPERTIES["absent"]["type"] == "object"
    assert "default" not in PROPERTIES["absent"]


def test_integers_have_the_format_that_holds_them() -> None:
    fields = PROPERTIES["inner"]["properties"]
    assert (fields["size"]["format"], fields["other"]["format"]) == ("int32", "int64")


def test_a_number_or_a_text_is_the_one_union_that_there_is() -> None:
    node = dict(PROPERTIES["memory"])
    (rule,) = node.pop("x-kubernetes-validations")
    assert rule["message"].startswith("must be from 0 to 16Ti")
    assert node == {"x-kubernetes-int-or-string": True, "description": "d"}


def test_list_types_are_written() -> None:
    assert PROPERTIES["many"]["x-kubernetes-list-map-keys"] == ["size"]
    assert PROPERTIES["names"]["x-kubernetes-list-type"] == "atomic"


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        (Annotated[int, Field(gt=0)], "exclusiveMinimum"),
        (int | str, "anyOf"),
        (set[str], "uniqueItems"),
        (tuple[int, str], "prefixItems"),
    ],
)
def test_what_a_crd_cannot_say_is_refused(annotation: Any, word: str) -> None:
    model = type("Model", (BaseModel,), {"__annotations__": {"field": annotation}, "__module__": __name__})
    with pytest.raises(NotStructuralError, match=rf"Model[.]field: .*{word}"):
        structural_schema(model)


def test_a_key_rule_names_the_first_key_that_breaks_it() -> None:
    rule = KeyRule("k != 'a'", "must not be a", lambda key: key != "a")
    assert rule.as_cel() == {
        "rule": "self.all(k, k != 'a')",
        "messageExpression": "\"key '\" + self.filter(k, !(k != 'a'))[0] + \"' must not be a\"",
        "message": "a key must not be a",
    }


def test_cel_list() -> None:
    assert cel_list(("a", "b")) == "['a', 'b']"
