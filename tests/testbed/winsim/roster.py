"""The list of machines: which there are, and what has been done to each by its owner.

Kept in a file where one is given, so that machines outlive the process that simulates them: the next one
goes on with those that joined, without those that left, and with kubelets that were stopped still stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from testbed.errors import TestbedError
from testbed.paths import write_atomically
from testbed.winsim.entries import FAMILIES, NOTHING_INSTALLED, Entry, Family
from testbed.winsim.machines import USUAL_SETUP
from testbed.winsim.memory import USUAL_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from testbed.winsim.endpoint.faults import EndpointName, Fault
    from testbed.winsim.entries import Trouble, Updates
    from testbed.winsim.machines import Setup
    from testbed.winsim.memory import Memory
    from testbed.winsim.objects import Taint

_LETTERS: Final[dict[Family, str]] = {"windows": "w", "linux": "l"}


class _File(msgspec.Struct):
    prefix: str
    counted: dict[Family, int]
    entries: tuple[Entry, ...]


class Roster:
    """All machines of one process, by name. Every change is in the file before the call returns."""

    def __init__(self, prefix: str, *, path: Path | None = None) -> None:
        self.prefix = prefix
        self.loaded = False
        """Whether the list is that of an earlier process, empty or not."""
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._counted: dict[Family, int] = dict.fromkeys(FAMILIES, 0)

    def load(self) -> None:
        """Read the file of an earlier process, if there is one.

        Raises:
            TestbedError: the file is damaged, or another prefix's.

        """
        if self._path is None or not self._path.exists():
            return
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except msgspec.DecodeError as error:
            raise TestbedError(f"{self._path} is not a list of simulated machines: {error}") from error
        if file.prefix != self.prefix:
            raise TestbedError(f"{self._path} lists machines called {file.prefix}-…, not {self.prefix}-…")
        self._entries = {entry.name: entry for entry in file.entries}
        self._counted = file.counted
        self.loaded = True

    @property
    def entries(self) -> Mapping[str, Entry]:
        """All machines by name, in the order in which they came."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def new_names(self, os: Family, count: int) -> tuple[str, ...]:
        """Return names for machines to come; a name that has left is not given out again."""
        first = self._counted[os] + 1
        digits = max(2, len(str(self._counted[os] + count)))
        stem = f"{self.prefix}-{_LETTERS[os]}"
        return tuple(_unused(stem, self._entries, range(first, first + count), digits))

    def add(
        self,
        names: Iterable[str],
        *,
        os: Family,
        addresses: Mapping[str, str],
        labels: Mapping[str, str],
        taints: tuple[Taint, ...],
        samples: Sequence[str] = (),
        kernel: str = "",
        memory: Sequence[Memory] = (),
        ready_after: float = 0.0,
        unready_pods: Iterable[str] = (),
    ) -> tuple[Entry, ...]:
        """Put machines on the list and return them.

        Zones, and revisions or ``samples``, go on in turn, unless ``kernel`` says what is installed; so does
        ``memory``, where there is any.
        """
        unready = frozenset(unready_pods)
        added = []
        for name in names:
            index = self._counted[os]
            entry = Entry(
                name=name,
                os=os,
                index=index,
                address=addresses[name],
                labels=dict(labels),
                taints=taints,
                sample=samples[index % len(samples)] if samples and os == "windows" else "",
                kernel=kernel,
                memory=memory[index % len(memory)] if memory else USUAL_MEMORY,
                ready_after=ready_after,
                unready_pods=unready,
            )
            self._counted[os] += 1
            self._entries[name] = entry
            added.append(entry)
        self._save()
        return tuple(added)

    def remove(self, names: Iterable[str]) -> None:
        """Strike machines off."""
        for name in names:
            self._entries.pop(name, None)
        self._save()

    def set_running(self, names: Iterable[str], *, running: bool) -> None:
        """Note whether the kubelets of these machines run."""
        for name in names:
            self._entries[name] = replace(self._entries[name], running=running)
        self._save()

    def set_trouble(self, names: Iterable[str], trouble: Trouble | None) -> None:
        """Note what these kubelets report about their readiness."""
        for name in names:
            self._entries[name] = replace(self._entries[name], trouble=trouble)
        self._save()

    def set_unready_pods(self, names: Iterable[str], pods: Iterable[str], *, ready: bool) -> None:
        """Note that the containers of these DaemonSets and pods are Ready on these machines, or are not."""
        named = frozenset(pods)
        for name in names:
            old = self._entries[name]
            kept = old.unready_pods - named if ready else old.unready_pods | named
            self._entries[name] = replace(old, unready_pods=kept)
        self._save()

    def set_memory(self, names: Iterable[str], memory: Memory) -> None:
        """Note other memory, or another part of it held back, where given."""
        for name in names:
            old = self._entries[name]
            self._entries[name] = replace(old, memory=old.memory.but(memory))
        self._save()

    def set_setup(self, names: Iterable[str], setup: Setup) -> None:
        """Note another configuration of kubelets and runtimes, where given."""
        for name in names:
            old = self._entries[name]
            self._entries[name] = replace(old, setup=old.setup.but(setup))
        self._save()

    def set_fault(self, names: Iterable[str], endpoint: EndpointName, fault: Fault | None) -> None:
        """Note what is wrong with an endpoint of these machines; None: nothing any more."""
        for name in names:
            old = self._entries[name]
            others = {which: each for which, each in old.faults.items() if which != endpoint}
            faults = others if fault is None else {**others, endpoint: fault}
            self._entries[name] = replace(old, faults=faults)
        self._save()

    def reboot(
        self,
        names: Iterable[str],
        *,
        booted: float,
        settling: float,
        kernels: Mapping[str, str],
        anew: bool,
        networked: float = 0.0,
    ) -> None:
        """Note that machines start again at a time, with other ``kernels`` from then on where given.

        With ``anew``, the system is installed anew and counts its starts from the first. What is installed
        may fail (``Entry.updates``): then the system is the old one, or the machine stays off.
        """
        for name in names:
            old = self._entries[name]
            kernel, running = old.after_installing(kernels)
            self._entries[name] = replace(
                old,
                running=running,
                boots=0 if anew and old.updates == "succeed" else old.boots + 1,
                booted=booted,
                settling=settling,
                networked=networked,
                kernel=kernel,
            )
        self._save()

    def set_kernels(self, kernels: Mapping[str, str]) -> None:
        """Note what has been installed on running machines; on those whose updates do not succeed nothing."""
        for name in kernels:
            old = self._entries[name]
            kernel, _ = old.after_installing(kernels)
            self._entries[name] = replace(old, kernel=kernel)
        self._save()

    def set_updates(self, names: Iterable[str], updates: Updates) -> None:
        """Note what comes of updates on these machines from now on."""
        for name in names:
            self._entries[name] = replace(self._entries[name], updates=updates)
        self._save()

    def renew(
        self,
        names: Iterable[str],
        *,
        booted: float = 0.0,
        ready_after: float = 0.0,
        networked: float = 0.0,
        kernels: Mapping[str, str] = NOTHING_INSTALLED,
    ) -> None:
        """Put new machines in the place of these, healthy and switched on; ``unready_pods`` stay.

        They are up at ``booted``, and run ``kernels`` where these are given and installing succeeds.
        """
        for name in names:
            old = self._entries[name]
            self._entries[name] = _new(
                replace(old, generation=old.generation + 1, booted=booted, networked=networked),
                kernels=kernels,
                ready_after=ready_after,
            )
        self._save()

    def add_successors(
        self,
        successors: Mapping[str, str],
        *,
        addresses: Mapping[str, str],
        ready_after: float,
        kernels: Mapping[str, str],
    ) -> None:
        """Put new machines beside old ones that are to leave, of the same zone, labels, taints and memory.

        Args:
            successors: names of the new machines, by the old ones that they replace.
            addresses: of the new ones.
            ready_after: when these are Ready; see ``Entry``.
            kernels: what they run, by the old ones, where that is something else.

        """
        for old, name in successors.items():
            new = _new(self._entries[old], kernels=kernels, ready_after=ready_after)
            address = addresses[name]
            # The name is part of its identity, so that it may be the first of that name.
            self._entries[name] = replace(
                new, name=name, address=address, generation=0, booted=0.0, networked=0.0, replaces=old
            )
            self._counted[new.os] += 1
        self._save()

    def set_replaced(self, name: str) -> None:
        """Note that a machine has nobody to replace any more."""
        self._entries[name] = replace(self._entries[name], replaces="")
        self._save()

    def _save(self) -> None:
        if self._path is not None:
            file = _File(self.prefix, self._counted, tuple(self._entries.values()))
            write_atomically(self._path, msgspec.json.encode(file))


def _new(old: Entry, *, kernels: Mapping[str, str], ready_after: float) -> Entry:
    kernel, running = old.after_installing(kernels)
    return replace(
        old,
        kernel=kernel,
        running=running,
        boots=0,
        settling=0.0,
        trouble=None,
        faults={},
        setup=USUAL_SETUP,
        ready_after=ready_after,
    )


def _unused(stem: str, entries: Mapping[str, Entry], numbers: range, digits: int) -> Iterator[str]:
    """Count on; names that somebody has given by hand are passed over."""
    number = numbers.start
    for _ in numbers:
        while (name := f"{stem}{number:0{digits}d}") in entries:
            number += 1
        yield name
        number += 1
