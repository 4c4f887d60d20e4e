"""Field types that several API models share: label and taint keys and values, versions, dates.

Which label and taint keys a pool may use, and the forms of versions and dates: the one place that knows.

The CRD says the same in CEL at ``kubectl apply``; this module is asked again wherever a key
comes from elsewhere, above all from the ownership record on a node, which anybody who may
annotate nodes can write.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set,
https://kubernetes.io/docs/reference/labels-annotations-taints/.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError

from winpool.api.keys import PREFIX
from winpool.api.model import MAX_INT32, VALIDATIONS, KeyRule, Rule, Timestamp
from winpool.api.text import read_moment

MAX_NODES: Final = 5000
"""The largest cluster that Kubernetes is tested with.
https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

MAX_PREFIX_LENGTH: Final = 253
MAX_VALUE_LENGTH: Final = 63

NAME_PATTERN: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
DNS_SUBDOMAIN_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
KEY_PATTERN: Final = f"^({DNS_SUBDOMAIN_PATTERN}/)?{NAME_PATTERN}$"
VALUE_PATTERN: Final = f"^({NAME_PATTERN})?$"
POOL_NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A DNS label: the name of a pool becomes the value of a node label."""
PROMETHEUS_LABEL_PATTERN: Final = "^[a-zA-Z_][a-zA-Z0-9_]{0,127}$"
"""A name of a label in Prometheus. https://prometheus.io/docs/concepts/data_model/"""
OS_VERSION_PATTERN: Final = "^([0-9]{4}|[0-9]{2}H[12])$"
"""A release of Windows Server: a year (2022), or a half-year as the annual channel writes it (23H2)."""
WINDOWS_BUILD_PATTERN: Final = "^10[.]0[.][1-9][0-9]{3,5}$"
"""A build of Windows without its revision, as the label node.kubernetes.io/windows-build has it."""
KUBERNETES_MINOR_PATTERN: Final = "^1[.][1-9][0-9]{1,2}$"
"""A minor version of Kubernetes from 1.10 on: Windows nodes came with 1.14; 1.3 is 1.30 without quotes."""
DATE_PATTERN: Final = "^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$"
"""The form of a date. The year 0 is left out: Go has it and Python has not."""
MOMENT_PATTERN: Final = (
    "^2[0-9]{3}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?"
    "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""The form of a time of RFC 3339 that a spec may name. Beyond these years it is a slip, and at the ends of
what Go and Python can write the two differ."""

RESERVED_TAINT_KEYS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cluster.x-k8s.io/uninitialized",
    "node.cluster.x-k8s.io/outdated-revision",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Taints that Kubernetes, cloud providers, Cluster API or the cluster autoscaler set by themselves.

An exact list, since vendors do use keys such as ``node.kubernetes.io/os``. It does not have all such taints:
``node-role.kubernetes.io/control-plane``, for one, is not reserved."""

RESERVED_TAINT_DOMAINS: Final = ("winpool.dev", "karpenter.sh")
"""Taint keys under these domains and their subdomains belong to the programs of that name."""

RESERVED_LABEL_DOMAINS: Final = ("kubernetes.io", "k8s.io", "winpool.dev", "karpenter.sh")
"""Label keys under these domains and their subdomains have a meaning that is not a pool's to give."""

NODE_ROLE_DOMAIN: Final = "node-role.kubernetes.io"
"""Exception to the reserved domains: roles, which admins do set."""
NODE_RESTRICTION_DOMAIN: Final = "node-restriction.kubernetes.io"
"""Exception to the reserved domains, with its subdomains: labels that no kubelet may set."""

ALLOWED_LABEL_KEYS: Final = ("node.kubernetes.io/exclude-from-external-load-balancers",)
"""Exceptions to the reserved domains, key by key."""

KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")
"""Of the labels under these domains and their subdomains a kubelet may write those below and no other."""

KUBELET_LABEL_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Labels under these domains and their subdomains a kubelet may write on its own Node."""

KUBELET_LABEL_KEYS: Final = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""And these. k8s.io/kubelet, pkg/apis/well_known_labels.go, the same from Kubernetes 1.32 to 1.37."""


def has_form(text: str, pattern: str) -> bool:
    """Whether ``text`` as a whole has the form of ``pattern``, as CEL reads it."""
    return re.fullmatch(pattern, text, re.ASCII) is not None


def of_form(pattern: str, message: str) -> Rule:
    """Return the rule that a text has the form of ``pattern``, which has an anchor at both ends."""
    return Rule(f"self.matches('{pattern}')", message, lambda text: has_form(text, pattern))


# Compiled: every record on every node is read by these two.
_KEY: Final = re.compile(KEY_PATTERN, re.ASCII)
_VALUE: Final = re.compile(VALUE_PATTERN, re.ASCII)


def is_key(text: str) -> bool:
    """Whether ``text`` is a label or taint key by Kubernetes' syntax: a name, or ``dns.prefix/name``."""
    return text.find("/") <= MAX_PREFIX_LENGTH and _KEY.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether ``text`` can be the value of a label or taint: empty, or at most 63 name characters."""
    return _VALUE.fullmatch(text) is not None


def is_pool_name(text: str) -> bool:
    """Whether ``text`` can be the name of a pool."""
    return has_form(text, POOL_NAME_PATTERN)


def is_object_name(text: str) -> bool:
    """Whether ``text`` can be the name of an object in Kubernetes: a DNS subdomain."""
    return len(text) <= MAX_PREFIX_LENGTH and has_form(text, DNS_SUBDOMAIN_PATTERN)


def is_os_version(text: str) -> bool:
    """Whether ``text`` has the shape of a Windows Server release. Whether it exists is not asked here."""
    return has_form(text, OS_VERSION_PATTERN)


def is_windows_build(text: str) -> bool:
    """Whether ``text`` has the shape of a build of Windows without its revision, such as 10.0.26100."""
    return has_form(text, WINDOWS_BUILD_PATTERN)


def minor_number(text: str) -> int:
    """Return 34 for ``1.34``: minor versions are compared as numbers. ``text`` is a minor version."""
    return int(text.removeprefix("1."))


def read_date(text: str) -> date | None:
    """Read ``2027-04-01``; None for anything else, also for a day that no calendar has."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text else None


def is_date(text: str) -> bool:
    """Whether ``text`` is a day of the calendar as year-month-day: 2027-02-30 is not."""
    return has_form(text, DATE_PATTERN) and read_date(text) is not None


def is_moment(text: str) -> bool:
    """Whether ``text`` is a time of RFC 3339 on a day of the calendar, from 2000 to 2999."""
    return has_form(text, MOMENT_PATTERN) and is_date(text[:10])


def is_label_key_allowed(key: str) -> bool:
    """Whether a pool may set the node label ``key``."""
    if not is_key(key):
        return False
    if key in ALLOWED_LABEL_KEYS:
        return True
    domain = _domain(key)
    if domain == NODE_ROLE_DOMAIN or _is_under(domain, (NODE_RESTRICTION_DOMAIN,)):
        return True
    return not _is_under(domain, RESERVED_LABEL_DOMAINS)


def is_taint_key_allowed(key: str) -> bool:
    """Whether a pool may set a node taint with ``key``."""
    return (
        is_key(key) and key not in RESERVED_TAINT_KEYS and not _is_under(_domain(key), RESERVED_TAINT_DOMAINS)
    )


def is_restricted_label(key: str) -> bool:
    """Whether a kubelet may not write the node label ``key``, as long as NodeRestriction is switched on.

    https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
    """
    domain = _domain(key)
    if _is_under(domain, (NODE_RESTRICTION_DOMAIN,)):
        return True
    if not _is_under(domain, KUBERNETES_DOMAINS):
        return False
    return key not in KUBELET_LABEL_KEYS and not _is_under(domain, KUBELET_LABEL_DOMAINS)


def is_own(key: str) -> bool:
    """Whether ``key`` is under ``winpool.dev/``."""
    return key.startswith(PREFIX)


def _domain(key: str) -> str:
    return key.rpartition("/")[0]


def _is_under(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _is_key(subject: str) -> str:
    """Return the CEL that says of ``subject`` what ``is_key`` says in Python."""
    return f"{subject}.matches('{KEY_PATTERN}') && {subject}.indexOf('/') <= {MAX_PREFIX_LENGTH}"


_KEY_SENTENCE: Final = (
    "must be a key of letters, digits, '-', '_' and '.', at most 63, beginning and ending with a letter "
    "or digit, with an optional DNS prefix and '/', such as 'os' or 'example.com/os'"
)
KEY_SYNTAX: Final = Rule(_is_key("self"), _KEY_SENTENCE, is_key)
EACH_KEY_SYNTAX: Final = KeyRule(_is_key("k"), _KEY_SENTENCE, is_key)
VALUE_SYNTAX: Final = of_form(
    VALUE_PATTERN,
    "must be empty or at most 63 letters, digits, '-', '_' and '.', "
    "beginning and ending with a letter or digit",
)
LabelKey = Annotated[str, Field(max_length=512), KEY_SYNTAX]
LabelValue = Annotated[str, Field(max_length=253), VALUE_SYNTAX]

WindowsRelease = Annotated[
    str,
    Field(max_length=64),
    of_form(
        OS_VERSION_PATTERN,
        "must be a Windows Server release, in quotes, such as '2019', '2022', '2025' or '23H2'",
    ),
]

Revision = Annotated[int, Field(strict=True, ge=0, le=MAX_INT32)]
"""The last number of a Windows version: 32 bits in its registry (UBR), and above 32767 in the field."""


Timeout = Annotated[int, Field(strict=True, ge=60, le=86400)]
"""How long something may take: from a minute to a day, in seconds."""


def is_spec_time(subject: str) -> str:
    """Return the CEL that says of ``subject`` what ``is_moment`` says in Python."""
    return (
        f"{subject}.matches('{MOMENT_PATTERN}') && "
        f"!format.date().validate({subject}.substring(0, 10)).hasValue()"
    )


_SPEC_TIME: Final = Rule(
    is_spec_time("self"),
    "must be a time of RFC 3339 that exists, in the years 2000 to 2999, such as '2026-12-01T00:00:00Z'",
    is_moment,
)


def _read_time(value: Any) -> Any:
    if isinstance(value, str):
        _SPEC_TIME.check(value)
        return read_moment(value)
    if isinstance(value, bool | int | float) or value is None:
        raise PydanticKnownError("string_type")
    return value


SpecTime = Annotated[
    Timestamp,
    BeforeValidator(_read_time),
    WithJsonSchema({"type": "string", "maxLength": 64, VALIDATIONS: [_SPEC_TIME.as_cel()]}),
]
"""A time that users write. A string in the schema: of the format date-time the API server checks less, and
says only that it is none."""


def under(domains: tuple[str, ...]) -> str:
    """Return an RE2 pattern for keys under one of ``domains`` or under a subdomain."""
    return f"^([a-z0-9.-]+[.])?({'|'.join(domain.replace('.', '[.]') for domain in domains)})/"
