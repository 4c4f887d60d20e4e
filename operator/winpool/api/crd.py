"""The CustomResourceDefinition, generated from the models, and which of its fields a cluster lacks.

Kubernetes wants a structural schema of a CRD: it refuses references, unions and whatever else its storage
cannot prune or default by
(KEP-2335, https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
What pydantic's JSON schema says and a CRD cannot say is refused here, when the CRD is generated, rather than
by an API server. Every generated manifest of this repository is printed here, so that all of them look alike.

An operator that is newer than the CRD writes a status that the API server refuses: a server-side apply with
one field that the schema does not have is answered with 500, which names that field only. So the schema in
the cluster is compared with the models: which fields there are, not limits, defaults, rules or descriptions.

``crds/`` holds what this prints; a test compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin

import yaml
from pydantic import BaseModel

from winpool.api.conditions import ConditionType
from winpool.api.keys import (
    API_VERSION,
    CATEGORY,
    CRD_NAME,
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAME,
    SINGULAR,
    VERSION,
)
from winpool.api.model import MAX_INT32, VALIDATIONS
from winpool.api.quantity import INT_OR_STRING
from winpool.api.spec import WindowsNodePool

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


_WIDTH: Final = 110
"""Characters of a line, as in the code; longer texts are folded."""
_LABELS: Final = {"app.kubernetes.io/name": "winpool"}
"""On every object that winpool installs."""


def manifest(kind: str, *, api_version: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    """Return an object of ours with ``parts``, such as its spec, as its other fields."""
    metadata: dict[str, Any] = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {**_LABELS},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


class _Dumper(yaml.SafeDumper):
    """Writes every part out: what is shared in memory is not shared in the file."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True


def text_of(part: Any, *, flow: bool = False) -> str:
    """Return an object, or a part of one, as YAML; with ``flow``, lists of words are on one line."""
    style = None if flow else False  # None: flow style where there are only scalars in it
    return yaml.dump(
        part, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True, default_flow_style=style
    )


def file_of(header: str, texts: Iterable[str]) -> str:
    """Return the file: the header, and the text of each object as a document of its own."""
    return header + "---\n".join(texts)


FILE: Final = f"crds/{CRD_NAME}.yaml"
"""Where the result stands, from the root of the repository."""

COMMAND: Final = f"python -m winpool.api.crd > {FILE}"

HEADER: Final = f"# Generated from the models in operator/winpool/api. Do not edit; run: {COMMAND}\n"

SELECTABLE_FIELDS: Final = (".spec.os.version", ".spec.mode")
"""What ``kubectl get wnp --field-selector`` takes besides the name (KEP-4358)."""

_STATE: Final = f'.status.conditions[?(@.type=="{ConditionType.READY}")].reason'
_SUPPORTED: Final = f'.status.conditions[?(@.type=="{ConditionType.OS_SUPPORTED}")].status'


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


# kubectl's own rules: the name comes first, the age last, no spaces in titles, 80 columns or fewer.
COLUMNS: Final = (
    _column("OS", "string", ".spec.os.version", "Windows Server release that the nodes must run."),
    _column("Nodes", "integer", ".status.nodes", "Nodes that belong to the pool."),
    _column("Ready", "integer", ".status.readyNodes", "Nodes whose kubelet reports Ready."),
    _column(
        "Up-To-Date",
        "integer",
        ".status.upToDateNodes",
        "Nodes that are as the spec asks, the release and revision of Windows included.",
    ),
    _column("State", "string", _STATE, "Reason of the condition Ready: the worst that is true."),
    _column("Mode", "string", ".spec.mode", "What the operator does with the pool.", wide=True),
    _column(
        "Available", "integer", ".status.availableNodes", "Nodes that are Ready and not cordoned.", wide=True
    ),
    _column("Supported", "string", _SUPPORTED, "Status of the condition OSSupported.", wide=True),
    _column("Issues", "integer", ".status.issueCount", "Issues that need attention.", wide=True),
    _column(
        "Blocked", "integer", ".status.blockedNodes", "Nodes that could not be drained in time.", wide=True
    ),
    _column(
        "Pressured", "integer", ".status.pressuredNodes", "Nodes that are under memory pressure.", wide=True
    ),
    _column("Held", "integer", ".status.heldNodes", "Nodes that someone holds.", wide=True),
    _column("Age", "date", ".metadata.creationTimestamp", "Time since the pool was created."),
)


def schema() -> Schema:
    """Return the structural schema of the whole object, with the parts that Kubernetes itself defines."""
    pool = structural_schema(WindowsNodePool)
    properties = pool["properties"]
    # Of the metadata a CRD may speak of the name alone.
    metadata = {"type": "object", "properties": {"name": properties["metadata"]["properties"]["name"]}}
    head = {
        "apiVersion": {"type": "string", "description": f"Version of the API. A string, here {API_VERSION}."},
        "kind": {"type": "string", "description": f"Kind of the object. A string, here {KIND}."},
    }
    required = [name for name in pool["required"] if name != "metadata"]
    return {**pool, "required": required, "properties": {**head, **properties, "metadata": metadata}}


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    return manifest(
        "CustomResourceDefinition",
        api_version="apiextensions.k8s.io/v1",
        name=CRD_NAME,
        spec={
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(COLUMNS),
                    "selectableFields": [{"jsonPath": path} for path in SELECTABLE_FIELDS],
                    "schema": {"openAPIV3Schema": schema()},
                }
            ],
        },
    )


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return file_of(HEADER, (text_of(definition()),))


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()


FieldPath = tuple[str, ...]
"""The names from the object down to a field, with ITEMS for the entries of a list and VALUES for those of
a map."""

ITEMS: Final = "[]"
VALUES: Final = "*"

SET_KEYS: Final = ("status", "setKeys")
"""What the status has to hold before a node is written: which keys this pool has ever set."""

SLOTS: Final = ("status", "slots")
"""What the status has to hold before a node may be upgraded: how many may be at the same time."""

PARTS: Final = ("spec", "status")
"""What of a pool is compared: the rest is defined by Kubernetes."""

_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"


def lacking_fields(crd_spec: Mapping[str, Any]) -> tuple[FieldPath, ...]:
    """Return the fields of a pool that a CRD with ``crd_spec`` lacks, in alphabetical order.

    Of a field that is lacking as a whole, what is in it is not named as well. Nothing is lacking where the
    CRD does not have our version of the API at all: then there are no pools to write to. The models are
    asked, not ``schema``: that reads its descriptions from the source, for longer than a start may wait.
    """
    for version in _entries(crd_spec.get("versions")):
        if version.get("name") == VERSION:
            served = _inner(_inner(version, "schema"), "openAPIV3Schema")
            return tuple(path for path in _lacking(served, WindowsNodePool) if path[0] in PARTS)
    return ()


def name_of(path: FieldPath) -> str:
    """Return a path in the words of the API server, such as ``status.issues[].fix``."""
    return ".".join(path).replace(f".{ITEMS}", ITEMS)


def without_fields(value: Any, paths: Collection[FieldPath]) -> Any:
    """Return ``value`` without what is at ``paths``."""
    if not paths:
        return value
    match value:
        case dict():
            gone = {path[0] for path in paths if len(path) == 1}
            return {
                name: without_fields(inner, _below(paths, {name, VALUES}))
                for name, inner in value.items()
                if not {name, VALUES} & gone
            }
        case list():
            return [without_fields(inner, _below(paths, {ITEMS})) for inner in value]
    return value


def _lacking(served: Mapping[str, Any], ours: Any, at: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield what ``served`` lacks of a value of the type ``ours`` that is ``at`` this place."""
    origin, arguments = get_origin(ours), get_args(ours)
    if served.get(_PRESERVES):
        return
    if isinstance(ours, type) and issubclass(ours, BaseModel):
        there = _inner(served, "properties")
        types = {str(field.alias): field.annotation for field in ours.model_fields.values()}
        for name, inner in sorted(types.items(), key=itemgetter(0)):
            if name in there:
                yield from _lacking(_inner(there, name), inner, (*at, name))
            else:
                yield (*at, name)
    elif origin in {Annotated, UnionType}:
        for each in arguments:
            yield from _lacking(served, each, at)
    elif origin is tuple:
        yield from _lacking(_inner(served, "items"), arguments[0], (*at, ITEMS))
    elif origin is Mapping and served.get("additionalProperties") is not True:
        if served.get("additionalProperties"):
            yield from _lacking(_inner(served, "additionalProperties"), arguments[1], (*at, VALUES))
        else:
            yield (*at, VALUES)


def _inner(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the part of a schema, an empty one where there is none: others may have written it."""
    inner = schema.get(key)
    return inner if isinstance(inner, dict) else {}


def _entries(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _below(paths: Iterable[FieldPath], steps: set[str]) -> tuple[FieldPath, ...]:
    return tuple(path[1:] for path in paths if len(path) > 1 and path[0] in steps)
