"""Prints the versions of the plugin, the operator and the CRD: ``kubectl winpool version``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from winpool import __version__
from winpool.api.keys import APPLY_CRD, CRD_NAME, LEASE, MANIFESTS, NAMESPACE
from winpool.cli.console import Look, Paper, write
from winpool.cli.counts import listed
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, decoded, known, read_lease
from winpool.cli.lenient import Fields
from winpool.cli.parsing import Exit, add_output, note, note_offline

DESCRIPTION: Final = f"""\
Print the versions of the plugin, the operator and the CRD, and say where they
do not fit together.

The version of the operator is the tag of the image of its Pod that leads. It
needs the rights to get the CRD {CRD_NAME}, to get
the Lease {NAMESPACE}/{LEASE}, and to list the Pods there."""

EXITS: Final = {
    Exit.YES: "the versions are shown, whether they fit or not",
    Exit.UNKNOWN: "not all of them are known; those that are, are shown",
}

EXAMPLES: Final = (
    ("kubectl winpool version", "all versions"),
    ("kubectl winpool version --client", "that of the plugin, without a cluster"),
    ("kubectl winpool version -o json", "for programs"),
)

_CRD_PATH: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"
_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SELECTOR: Final = "app.kubernetes.io/name=winpool,app.kubernetes.io/component=operator"
_CONTAINER: Final = "operator"

_VERSION: Final = re.compile(r"v?(\d+\.\d+\.\d+(?:[-+.]\S+)?)")

_TITLE_WIDTH: Final = 11
"""Of the column that begins the lines: after the longest, ``Operator:``."""

_object: Final = msgspec.json.Decoder(dict[str, Any])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "--client", action="store_true", help="Print the version of the plugin alone, without a cluster."
    )
    add_output(parser)


def run(given: argparse.Namespace) -> int:
    """Print them; return the exit code."""
    if given.client:
        note_offline(given, why="with --client no cluster is contacted")
        client = {"client": {"version": __version__}}
        write(given.output, lambda: client, lambda look: _text_of_client(look).text)
        return Exit.YES
    with Kubectl(given.flags) as kubectl:
        found = read_versions(kubectl)
    write(given.output, lambda: as_content(found), lambda look: as_text(found, look=look))
    for line in (*found.problems, *misfits(found)):
        note(line)
    return Exit.UNKNOWN if found.operator is None or found.crd is None else Exit.YES


class OperatorPod(msgspec.Struct, frozen=True):
    """A Pod of the operator. ``version`` is None where the tag of its image is none."""

    name: str
    image: str
    version: str | None
    leads: bool


class Crd(msgspec.Struct, frozen=True, rename="camel"):
    """The CRD in the cluster. ``lacking_fields`` are those of the plugin's version that it does not have."""

    versions: list[str]
    generation: int
    lacking_fields: list[str]


@dataclass(frozen=True, slots=True)
class Versions:
    """What is known. ``problems`` say why the rest is not."""

    pods: tuple[OperatorPod, ...] = ()
    crd: Crd | None = None
    problems: tuple[str, ...] = ()

    @property
    def operator(self) -> str | None:
        """The version of the Pod that leads; of none that leads, that of all of them; None if not known."""
        versions = {each.version for each in self.pods if each.leads} or {each.version for each in self.pods}
        return versions.pop() if len(versions) == 1 else None


def read_versions(kubectl: Kubectl) -> Versions:
    """Ask for the CRD, the Pods of the operator and its Lease: three calls."""
    problems: list[str] = []
    try:
        crd = _read_crd(kubectl)
    except NotAskedError as error:
        if not isinstance(error, KubectlError) or not error.reason:
            return Versions(problems=(f"the operator and the CRD are not known: {error}",))
        crd, why = None, f"the CRD {CRD_NAME} is not installed: kubectl apply -f {MANIFESTS}, or helm install"
        problems.append(why if error.reason == "NotFound" else f"the CRD is not known: {error}")
    pods_of = kubectl.begin(lambda: decoded(_object.decode, kubectl.get(_PODS_PATH, labelSelector=_SELECTOR)))
    lease, problem = known(lambda: read_lease(kubectl))
    if problem:
        problems.append(f"which Pod leads is not known: {problem}")
    found, problem = known(pods_of.result)
    if found is None:
        return Versions(crd=crd, problems=(*problems, f"the operator is not known: {problem}"))
    holder = lease.shown if lease is not None else ""
    pods = tuple(_pods_in(found, holder))
    return Versions(pods, crd, (*problems, *_oddities(pods, holder)))


def _read_crd(kubectl: Kubectl) -> Crd:
    from winpool.api.crd import lacking_fields, name_of  # the models take a while to load

    crd = Fields(decoded(_object.decode, kubectl.get(_CRD_PATH)))
    spec = crd.one("spec")
    return Crd(
        versions=[each.text("name") for each in spec.all("versions")],
        generation=crd.one("metadata").count("generation"),
        lacking_fields=list(map(name_of, lacking_fields(spec.content))),
    )


def _pods_in(body: Mapping[str, Any], holder: str) -> Iterator[OperatorPod]:
    for pod in Fields(body).all("items"):
        name = pod.one("metadata").text("name")
        containers = {each.text("name"): each.text("image") for each in pod.one("spec").all("containers")}
        image = containers.get(_CONTAINER, "")
        yield OperatorPod(name, image, version_of(image), leads=holder.rpartition("_")[0] == name)


def version_of(image: str) -> str | None:
    """Return the version that the tag of an image says; None where it says none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    found = _VERSION.fullmatch(tag)
    return found[1] if found else None


def _oddities(pods: tuple[OperatorPod, ...], holder: str) -> Iterator[str]:
    """Yield why the version of the operator is not known, or not certain."""
    if holder and not any(each.leads for each in pods):
        yield (
            f"{holder} holds the Lease {NAMESPACE}/{LEASE} and is no Pod of the operator there, so what "
            "version it has is not known"
        )
    elif not pods:
        yield f"no Pod of an operator is in the namespace {NAMESPACE}"
    for each in pods:
        if not each.version:
            yield f"the tag of the image {each.image} of the Pod {each.name} is no version"


def misfits(found: Versions) -> Iterator[str]:
    """Yield where the versions do not fit together, and what to do."""
    others = sorted({each.version for each in found.pods if each.version} - {__version__})
    if others:
        yield (
            f"the operator is of version {listed(others)} and the plugin of {__version__}: install the "
            "plugin of the operator's version, since the plugin judges nodes by its own rules"
        )
    if found.crd is not None and found.crd.lacking_fields:
        yield f"the CRD lacks {listed(found.crd.lacking_fields)} of version {__version__}. {APPLY_CRD}"


def as_content(found: Versions) -> Mapping[str, Any]:
    """Return all of it for programs. What is not known is null."""
    return {
        "client": {"version": __version__},
        "operator": {"version": found.operator, "pods": list(map(msgspec.to_builtins, found.pods))},
        "crd": msgspec.to_builtins(found.crd),
        "misfits": list(misfits(found)),
        "problems": list(found.problems),
    }


def as_text(found: Versions, *, look: Look) -> str:
    """Return all of it for a terminal of that look."""
    paper = _text_of_client(look)
    for each in found.pods:
        leads = ", leads" if each.leads else ""
        paper.titled("Operator", f"{each.version or 'not known'} ({each.name}, {each.image}{leads})")
    if not found.pods:
        paper.titled("Operator", "not known")
    crd = found.crd
    said = "not known" if crd is None else f"{', '.join(crd.versions)}, generation {crd.generation}"
    paper.titled("CRD", said)
    return paper.text


def _text_of_client(look: Look) -> Paper:
    paper = Paper(look, title_width=_TITLE_WIDTH)
    paper.titled("Client", __version__)
    return paper
