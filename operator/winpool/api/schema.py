"""From pydantic's JSON schema to the structural schema that a CRD must have.

Kubernetes refuses references, unions and whatever else its storage cannot prune or default by
(KEP-2335, https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
What cannot be said is refused here, when the CRD is generated, rather than by an API server.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from winpool.api.model import MAX_INT32
from winpool.api.quantity import INT_OR_STRING
from winpool.api.rules import VALIDATIONS

Schema = dict[str, Any]

_KEYS: Final = (
    "description",
    "type",
    INT_OR_STRING,
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    VALIDATIONS,
)
"""What a schema may say, in the order in which people read it."""

_RULE_KEYS: Final = ("rule", "messageExpression", "message", "fieldPath")


class NotStructuralError(ValueError):
    """A model says something that a CRD cannot."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of ``model``, complete in itself. Raises NotStructuralError."""
    schema = model.model_json_schema()
    return _convert(schema, schema.pop("$defs", {}), at=model.__name__)


def _convert(node: Schema, definitions: Mapping[str, Schema], *, at: str) -> Schema:
    node = _inlined(_without_union_with_null(node), definitions)
    node.pop("title", None)
    if unknown := node.keys() - set(_KEYS):
        raise NotStructuralError(f"{at}: a CRD cannot say {', '.join(sorted(unknown))}")
    if "properties" in node:
        node["properties"] = {
            name: _convert(child, definitions, at=f"{at}.{name}")
            for name, child in node["properties"].items()
        }
        if "default" in node:
            node["default"] = _defaults_of(node["properties"])
    if isinstance(node.get("default"), list):
        node["default"] = [_without_nulls(each) for each in node["default"]]
    for inner in ("items", "additionalProperties"):
        if isinstance(node.get(inner), dict):
            node[inner] = _convert(node[inner], definitions, at=f"{at}[]")
    if node.get("type") == "integer":
        node["format"] = "int32" if node.get("maximum", MAX_INT32 + 1) <= MAX_INT32 else "int64"
    if VALIDATIONS in node:
        node[VALIDATIONS] = [_ordered(rule, _RULE_KEYS) for rule in node[VALIDATIONS]]
    return _ordered(node, _KEYS)


def _without_nulls(item: Any) -> Any:
    """Return an item of a default without fields that are absent: in a CRD, null is a value."""
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if value is not None}


def _ordered(node: Schema, keys: tuple[str, ...]) -> Schema:
    return {key: node[key] for key in keys if key in node}


def _inlined(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Put what ``$ref`` names in its place; what stands beside the reference is more special and wins."""
    beside = dict(node)
    reference = beside.pop("$ref", None)
    if reference is None:
        return beside
    target = definitions[reference.removeprefix("#/$defs/")]
    merged = {**target, **beside}
    if rules := [*target.get(VALIDATIONS, []), *beside.get(VALIDATIONS, [])]:
        merged[VALIDATIONS] = rules
    return _inlined(merged, definitions) if "$ref" in target else merged


def _without_union_with_null(node: Schema) -> Schema:
    """Make of an optional field a plain one: where a CRD means "absent", it leaves the field out."""
    branches = [branch for branch in node.get("anyOf", []) if branch != {"type": "null"}]
    if len(branches) != 1:
        return node
    beside = {
        key: value for key, value in node.items() if key != "anyOf" and (key, value) != ("default", None)
    }
    return {**branches[0], **beside}


def _defaults_of(properties: Mapping[str, Schema]) -> Schema:
    """Return the default of an object, written out from its fields.

    The API server compares the default with the rules before it fills in inner defaults, so an
    empty one would fail where a rule reads them.
    """
    return {name: child["default"] for name, child in properties.items() if "default" in child}
