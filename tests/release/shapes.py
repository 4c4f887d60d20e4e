"""What values of the chart may be, as JSON Schema of draft 7, which every Helm 3 reads."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

SET_BY_VALUES: Final = (
    *("leader-elect", "node-name", "port", "health-port", "log-format", "log-level"),
    *("metrics-auth", "tls-cert-file", "tls-key-file"),
    *("kubelet-ca-file", "kubelet-insecure-tls", "data-sources-file"),
)
"""Settings that other values set, or that the Deployment relies on."""


def text(pattern: str) -> Schema:
    """Return what a text that matches a pattern is."""
    return {"type": "string", "pattern": pattern}


def choice(*words: str) -> Schema:
    """Return what one of these words is."""
    return {"type": "string", "enum": [*words]}


def bounded(least: int, most: int) -> Schema:
    """Return what an integer with these bounds, both inclusive, is."""
    return {"type": "integer", "minimum": least, "maximum": most}


def items(each: Schema) -> Schema:
    """Return what a list of such items is."""
    return {"type": "array", "items": each}


def fields(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Return what an object with these fields and no others is."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": [*required]} if required else {}),
    }


def passed_on() -> Schema:
    """Return what an object of the Kubernetes API is that the chart passes on: the API server checks it."""
    return {"type": "object"}


SECRET_NAME: Final = text(r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")
"""The name of a Secret, or none."""
NAME: Final = text(r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
"""The name of an object."""
PORT: Final = bounded(1, 65535)
LABEL_VALUES: Final[Schema] = {
    "type": "object",
    "additionalProperties": text(r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"),
}
WORDS: Final = items({"type": "string"})
QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number"],
        "pattern": r"^[0-9]+(\.[0-9]+)?([mkMGTPE]|[KMGTPE]i)?$",
    },
}
RESOURCES: Final = fields(requests=QUANTITIES, limits=QUANTITIES)
TOLERATION: Final = fields(
    key={"type": "string"},
    operator=choice("Exists", "Equal"),
    value={"type": "string"},
    effect=choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
    tolerationSeconds={"type": "integer"},
)
NODE_EXPRESSION: Final = fields(
    ("key", "operator"),
    key={"type": "string", "minLength": 1},
    operator=choice("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    values=WORDS,
)
PREFERRED_NODES: Final = fields(
    ("weight", "preference"),
    weight=bounded(1, 100),
    preference=fields(matchExpressions=items(NODE_EXPRESSION), matchFields=items(NODE_EXPRESSION)),
)
PEER: Final[Schema] = {
    **fields(namespaceSelector=passed_on(), podSelector=passed_on(), ipBlock=passed_on()),
    # An empty peer matches no field, and the API server refuses it with a message about the policy only.
    "minProperties": 1,
}
ENDPOINT: Final[Schema] = {
    "type": "object",
    "properties": dict.fromkeys(("port", "path", "scheme"), False),
}
SETTING: Final[Schema] = {
    "type": "string",
    "pattern": "^--[a-z]",
    "not": {"pattern": f"^--(no-)?({'|'.join(SET_BY_VALUES)})(=|$)"},
}
"""A flag with its value in one text: ``--name=value``."""
ENV: Final = fields(
    ("name",),
    name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"pattern": "^WINPOOL_"}},
    value={"type": "string"},
    valueFrom=passed_on(),
)
