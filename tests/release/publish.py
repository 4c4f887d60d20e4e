"""``make publish``: signs what ``make release`` has written, and pushes image, chart and wheel.

The files themselves are no business of it: what hosts the repository publishes them (docs/release.md).
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from release.addresses import ROOT, Addresses
from release.install import FILE, ReleaseError
from release.layout import FOLDER, digest_of
from release.packing import SUMS, require_checksums
from release.ready import Checkout, faults
from testbed.cosign import ensure_cosign
from testbed.errors import TestbedError
from testbed.helm import ensure_helm
from winpool import __version__

STEP_SECONDS: Final = 1800.0
"""Guard for one command: an image of 80 MB for two architectures, over a slow line."""

NO_SERVICES: Final = {
    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "rekorTlogConfig": {},
    "tsaConfig": {},
}
"""For cosign with a key: no transparency log and no time stamp, which need the services of Sigstore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is published, and where."""

    directory: Path
    addresses: Addresses
    index: str
    """Address that wheels are uploaded to."""
    key: str
    """File with the private key, as cosign writes it; empty: keyless, by the identity of the workflow."""

    @property
    def plain(self) -> bool:
        """Whether the registry is asked by HTTP: only one of this machine is."""
        return is_loopback(f"//{self.addresses.image}")


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine, by number."""
    try:
        return ip_address(urlsplit(address).hostname or "").is_loopback
    except ValueError:
        return False


def publish(release: Release, *, local: bool) -> None:
    """Sign, then push; nothing is pushed before the checksums are verified and signed.

    Raises:
        ReleaseError: the folder has no release or another one, the version has another image in the registry,
            or a command failed; the text says which.
        TestbedError: cosign or helm cannot be built.

    """
    digest = digest_of(release.directory / FOLDER, __version__)
    if local:
        require_loopback(release)
    else:
        require_ready(release, digest=digest)
    require_checksums(release.directory)
    if not digest:
        raise ReleaseError(f"{release.directory} has no image: run make image-layout, and make release again")
    if digest not in (release.directory / FILE).read_text():
        raise ReleaseError(f"{FILE} does not have the image in {FOLDER}, {digest}: run make release again")
    require_not_replaced(release, digest=digest)
    sums = release.directory / SUMS
    cosign(release, "sign-blob", f"--bundle={sums}.sigstore.json", str(sums))
    push_image(release, digest=digest)
    push_chart(release)
    wheel = release.directory / f"winpool-{__version__}-py3-none-any.whl"
    uv = Path(sys.executable).with_name("uv")
    run([str(uv), "publish", "--publish-url", release.index, str(wheel)])


def require_loopback(release: Release) -> None:
    """Raise ReleaseError if anything would leave this machine."""
    if not (release.plain and is_loopback(release.index)):
        raise ReleaseError(
            "with LOCAL=1, IMAGE and INDEX must be of this machine, such as IMAGE=127.0.0.1:5000/winpool "
            "INDEX=http://127.0.0.1:8090/"
        )
    if not release.key:
        raise ReleaseError(
            "with LOCAL=1, KEY must name a key of cosign: without one it writes who you are into a public log"
        )


def require_ready(release: Release, *, digest: str) -> None:
    """Raise ReleaseError if the commit may not become a release."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    found = faults(Checkout.read(ROOT), addresses=release.addresses, changelog=changelog, digest=digest)
    if found:
        raise ReleaseError("\n  ".join(("nothing was published.", *found)))


def require_not_replaced(release: Release, *, digest: str) -> None:
    """Raise ReleaseError if the registry has another image of this version.

    Two builds of one commit differ, and what is published already names the first by its digest.
    """
    plain = ["--tls-verify=false"] if release.plain else []
    image = f"{release.addresses.image}:{__version__}"
    try:
        there = run(["skopeo", "inspect", "--raw", *plain, f"docker://{image}"])
    except ReleaseError:
        return  # it has none; or the push says why it cannot be asked
    if (found := f"sha256:{hashlib.sha256(there.encode()).hexdigest()}") != digest:
        raise ReleaseError(f"{image} is published already, as {found}: make another version")


def push_image(release: Release, *, digest: str) -> None:
    """Copy the image with all its architectures, so that its digest stays, and sign that digest."""
    image = release.addresses.image
    run(
        [
            *("skopeo", "copy", "--all", "--preserve-digests"),
            *(["--dest-tls-verify=false"] if release.plain else []),
            f"oci:{release.directory / FOLDER}:{__version__}",
            f"docker://{image}:{__version__}",
        ]
    )
    cosign(release, "sign", f"{image}@{digest}")


def push_chart(release: Release) -> None:
    """Push the chart beside the image, and sign the digest that the registry gives it."""
    charts = release.addresses.charts
    plain = ["--plain-http"] if release.plain else []
    chart = str(release.directory / f"winpool-{__version__}.tgz")
    said = run([str(ensure_helm()), "push", *plain, chart, charts])
    found = re.search(r"^Digest: (sha256:[0-9a-f]{64})$", said, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"helm push names no digest:\n{said}")
    cosign(release, "sign", f"{charts.removeprefix('oci://')}/winpool@{found[1]}")


def cosign(release: Release, verb: str, *arguments: str) -> None:
    """Sign, with the key or without one; raises as ``publish`` does."""
    with tempfile.TemporaryDirectory() as folder:
        services = Path(folder) / "none.json"
        services.write_text(json.dumps(NO_SERVICES))
        keyed = [f"--key={release.key}", f"--signing-config={services}"] if release.key else []
        run([str(ensure_cosign()), verb, "--yes", *keyed, *arguments])


def run(command: Sequence[str]) -> str:
    """Run a command and return what it prints.

    Raises:
        ReleaseError: it failed; the text has what it said, and no argument: an address may have a password.

    """
    step = f"{Path(command[0]).name} {command[1]}"
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is missing: install the package") from error
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{step} has not ended after {STEP_SECONDS:.0f} s") from None
    if done.returncode != 0:
        raise ReleaseError(f"{step} failed:\n{done.stdout.strip()}")
    sys.stdout.write(f"{step}: done\n")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; return the exit code."""
    parser = argparse.ArgumentParser(prog="make publish", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--image", required=True, help="registry and name of the image")
    parser.add_argument("--index", required=True, help="address that wheels are uploaded to")
    parser.add_argument("--key", default="", help="private key of cosign; default: keyless")
    parser.add_argument("--local", action="store_true", help="to this machine alone")
    given = parser.parse_args(arguments)
    release = Release(
        directory=given.directory,
        addresses=dataclasses.replace(Addresses.read(), image=given.image),
        index=given.index,
        key=given.key,
    )
    try:
        publish(release, local=given.local)
    except (ReleaseError, TestbedError) as error:
        sys.stderr.write(f"make publish: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
