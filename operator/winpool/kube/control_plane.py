"""Knows what the control plane runs: its version, and whether the guard of our keys is in force.

The guard is the policy that protects our keys, and its binding; both are watched. In force means that the API
server has both, that their specs are those of ``api.admission``, and that it has had the time to enforce
them. The operator knows no more than what the API server reports: one that was started without the admission
plugin reports the same.

The version is asked for at the start, and whenever the watch of nodes broke or ended early, as it does when
the API server restarts with another version. In a quiet cluster it never is (P2), but where a pool has
upgrades: then every few minutes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final

from winpool.api.admission import (
    API_GROUP,
    API_VERSION,
    BINDING_KIND,
    BINDINGS,
    DENY,
    GUARD_NAME,
    POLICIES,
    POLICY_KIND,
    binding_spec,
    policy_spec,
)
from winpool.kube.errors import ApiError
from winpool.kube.request import ApiServer, Request
from winpool.kube.watch import NamedObject, NamedWatch, Target
from winpool.kube.wire import BROKEN, server_version
from winpool.loops import Wake, utc_now

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 5.0
"""A guard younger than this is not in force yet: each API server learns of policies by a watch of its own and
compiles them once a second (k8s.io/apiserver, pkg/admission/plugin/policy/generic/policy_source.go)."""

START_SECONDS: Final = 10.0
"""At the start the first passes wait at most this long until the state of the guard is known."""

STALE_SECONDS: Final = 90.0
"""A guard that could not be read for so long, while nodes could, is not in force: longer than a silent watch
(70 s) and a list after it take."""

ACTIONS: Final = "validationActions"
NOT_YET: Final = "the operator has not read it yet"
SETTLING: Final = f"it is younger than {SETTLE_SECONDS:.0f} s, and some API servers may not enforce it yet"
STALE: Final = "the operator can no longer read it, although it can read nodes"

POLICY: Final = Target(
    group=API_GROUP, version=API_VERSION, resource=POLICIES, kind=POLICY_KIND, name=GUARD_NAME
)
BINDING: Final = Target(
    group=API_GROUP, version=API_VERSION, resource=BINDINGS, kind=BINDING_KIND, name=GUARD_NAME
)


def problem_of(policy: NamedObject | None, binding: NamedObject | None) -> str:
    """Return why these two do not guard our keys, as a text for people; empty where they do."""
    if policy is None:
        return f"there is no {POLICY_KIND} {GUARD_NAME}"
    if binding is None:
        return f"there is no {BINDING_KIND} {GUARD_NAME}"
    if policy.spec != policy_spec():
        return f"{POLICY_KIND} {GUARD_NAME} is not the one of this version of winpool"
    actions = binding.spec.get(ACTIONS)
    if not isinstance(actions, list) or DENY not in actions:
        return f"{BINDING_KIND} {GUARD_NAME} does not deny: {ACTIONS} has no {DENY}"
    if {**binding.spec, ACTIONS: [DENY]} != binding_spec():
        return f"{BINDING_KIND} {GUARD_NAME} is not the one of this version of winpool"
    return ""


def identity_of(policy: NamedObject, binding: NamedObject) -> str:
    """Return what distinguishes this guard from every other, and from itself before a change and its undo.

    The API server gives each object a UID of its own, and each change of its spec a new generation.
    """
    parts = (policy.uid, policy.generation, binding.uid, binding.generation)
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:12]


@dataclass(eq=False)
class Guard:
    """What is known of the guard while ``run`` runs.

    ``identity`` names the guard in force; it is empty where none is, and ``problem`` then says why.
    ``known`` is False at the start, until the guard was read or it is clear that it cannot be. ``is_unknown``
    says that a guard may be in force that cannot be read now, or that is too young to count.
    ``on_change`` is called, synchronously, when any of these has changed. It must not block and must not
    raise. ``others_silent_seconds`` returns how long ago the API server last sent anything else.
    """

    transport: ApiServer
    _: KW_ONLY
    on_change: Callable[[], None]
    others_silent_seconds: Callable[[], float]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    identity: str = field(default="", init=False)
    problem: str = field(default=NOT_YET, init=False)
    known: bool = field(default=False, init=False)
    is_unknown: bool = field(default=True, init=False)
    _started: float = field(default=float("-inf"), init=False)
    _candidate: str | None = field(default=None, init=False)
    _settled_at: float = field(default=float("-inf"), init=False)
    """The guard that exists, whether it is enforced already or not, and from when on it counts."""

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self._news = Wake()
        self._policy, self._binding = self._watches = tuple(
            NamedWatch(self.transport, target=target, on_change=self._news.set, monotonic=self.monotonic)
            for target in (POLICY, BINDING)
        )

    async def run(self) -> None:
        """Watch both until cancelled. Survives everything that the API server may answer."""
        self._started = self.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for watch in self._watches:
                tasks.create_task(watch.run())
            tasks.create_task(self._judge_on())

    async def _judge_on(self) -> None:
        """Judge again after each change, and when time alone may change the judgement."""
        while True:
            self._judge()
            now = self.monotonic()
            due = [self._settled_at, *([] if self.known else [self._started + START_SECONDS])]
            ahead = [moment - now for moment in due if moment > now]
            await self._news.wait(seconds=min(ahead, default=None))

    def _judge(self) -> None:
        trouble = self._trouble()
        problem = trouble or self._look()
        is_starting = problem in (NOT_YET, SETTLING) and self.monotonic() < self._started + START_SECONDS
        known = self.known or not is_starting
        identity = "" if problem else self._candidate or ""
        is_news = known and (not self.known or identity != self.identity)
        judged = (identity, problem, known, bool(trouble) or problem == SETTLING)
        if judged == (self.identity, self.problem, self.known, self.is_unknown):
            return
        self.identity, self.problem, self.known, self.is_unknown = judged
        if is_news and identity:
            log.info("guard: in force (%s): kubelets cannot write the keys of winpool", identity)
        elif is_news:
            log.warning('guard: not in force: %s; see "The guard" in the docs', problem)
        self.on_change()

    def _trouble(self) -> str:
        """Say why nothing is known of the guard; empty where it was read and is watched."""
        now = self.monotonic()
        for watch in self._watches:
            if watch.refusal is not None:
                return watch.refusal.message
            failing_seconds = 0.0 if watch.failing is None else now - watch.failing
            # Where nothing of nodes has come since either, the whole API server is away.
            if failing_seconds > max(STALE_SECONDS, self.others_silent_seconds()):
                return STALE
        return "" if all(watch.synced for watch in self._watches) else NOT_YET

    def _look(self) -> str:
        """Say why the guard, as last read, is not in force; empty where it is."""
        policy, binding = self._policy.found, self._binding.found
        problem = problem_of(policy, binding)
        is_first_look, self._candidate = self._candidate is None, self._candidate or ""
        if problem or policy is None or binding is None:
            return problem
        identity = identity_of(policy, binding)
        if identity != self._candidate:
            age = self._age(policy, binding) if is_first_look else 0.0
            self._candidate, self._settled_at = identity, self.monotonic() + SETTLE_SECONDS - age
        return SETTLING if self.monotonic() < self._settled_at else ""

    def _age(self, *parts: NamedObject) -> float:
        """Return the age of the guard by its own times, between 0 and SETTLE_SECONDS.

        This is used only for a guard that is older than this process. The age of one that changes while we
        watch is known without comparing the clocks of two machines.
        """
        times = [each.changed for each in parts]
        ages = [(self.now() - moment).total_seconds() for moment in times if moment is not None]
        if len(ages) < len(times):
            return 0.0
        return max(0.0, min(SETTLE_SECONDS, *ages))


VERSION_PATH: Final = "/version"
"""Every authenticated user may read it, by the ClusterRole system:public-info-viewer.
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#api-discovery-roles"""

VERSION_STALE_SECONDS: Final = 900.0
"""A version that was last read so long ago is not known to be unchanged: three regular reads have failed."""


@dataclass(eq=False)
class ControlPlane:
    """The version of the API server as last read. ``on_change`` is called when it has changed."""

    transport: ApiServer
    _: KW_ONLY
    on_change: Callable[[], None]
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    version: str = field(default="", init=False)
    """``gitVersion``, such as v1.36.3; empty before it was first read."""
    is_first: bool = field(default=True, init=False)
    """Whether no other version was ever read, and there was no gap in regular reads."""
    _since: datetime | None = field(default=None, init=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _regular_from: float = field(default=float("inf"), init=False)

    @property
    def unchanged_since(self) -> datetime | None:
        """Since when that version was read, and no other one; None where it was not read lately.

        After a gap in regular reads it begins again.
        """
        return self._since if self.age_seconds < VERSION_STALE_SECONDS else None

    @property
    def age_seconds(self) -> float:
        """Seconds since the version was last read; infinite before the first time."""
        return self.monotonic() - self._read_at

    def read_regularly(self, *, is_on: bool) -> None:
        """Note whether it is read regularly from now on: then it is a gap where it is not."""
        self._regular_from = self.monotonic() if is_on else float("inf")

    async def ask(self) -> bool:
        """Ask for the version, and return whether it was read.

        Never raises an ApiError: the known version stays, and nodes matter more.
        """
        try:
            answer = await self.transport.request(Request(verb="get", resource="version", path=VERSION_PATH))
            found = server_version.decode(answer).git_version
        except (ApiError, *BROKEN) as error:
            known = self.version or "none"
            log.warning("cannot read the version of the API server: %s; the last known is %s", error, known)
            return False
        if not found:
            return False
        is_after_gap = self.monotonic() - max(self._read_at, self._regular_from) >= VERSION_STALE_SECONDS
        self._read_at = self.monotonic()
        if found != self.version:
            log.info("the API server runs Kubernetes %s", found)
            self.is_first = not (self.version or is_after_gap)
            self.version, self._since = found, self.now()
            self.on_change()
        elif is_after_gap:
            self.is_first, self._since = False, self.now()
        return True
