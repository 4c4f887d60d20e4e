"""The story: a pool is applied, judges, gates, drifts, is repaired, refuses nonsense, leaves without a trace.

Beside it, a pod leaks memory on a node of another pool, and is caught, and the operator upgrades a third one.
"""

from __future__ import annotations

import json
import re

from demo import operating, rollout, upgrades
from demo.machines import COUNT, add_batch_nodes
from demo.narrator import Narrator
from testbed.cluster import Testbed

SAMPLE = "deploy/samples/win-2022.yaml"
POOL = "win-2022"

NODES = "kubectl get nodes -L agentpool,winpool.dev/pool,team"
TAINTS = (
    "kubectl get nodes -l kubernetes.io/os=windows "
    "-o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].key,LABEL-TEAM:.metadata.labels.team'"
)

STATUS = f"kubectl winpool status {POOL}"

LEAK_SAMPLE = "deploy/samples/memory-evict.yaml"
LEAK_POOL = "memory-evict"
MARKS = (
    "'NAME:.metadata.name,TAINTS:.spec.taints[*].key,"
    'WINDOWS-MEMORY-PRESSURE:.status.conditions[?(@.type=="WindowsMemoryPressure")].message\''
)
GROWING = r"(?m)^(\S+) .* (?:Warning|Soft|Hard) .* \d[0-9a-z]* +(?:\w+ +)?\d+s$"
"""The line of a node that ``kubectl winpool memory`` shows with the time that is left; the group is its name.

A narrow terminal has no room for its trend and its source. The last column is the age of the sample.
"""

RELIEF_SECONDS = 180.0
"""A node has to be clear for the minute that the sample asks for; the rest is for a busy machine."""

EFFECTS = ("NoSchedule", "NoExecute")

BAD_MANIFEST = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: too-much}
spec:
  nodeSelector: {matchLabels: {agentpool: win22}}
  os: {version: "2022"}
  labels: {kubernetes.io/os: linux}
"""


def tell(testbed: Testbed) -> None:
    """Tell it on ``testbed``, which has the CRD, the rights and the nodes already."""
    narrator = Narrator(testbed)
    _before(narrator)
    _start_operator(narrator, testbed)
    _apply(narrator)
    upgrades.close_and_open_a_gate(narrator, POOL)
    leaking = _leak(narrator, testbed)
    _support(narrator, testbed)
    _drift(narrator)
    _brake(narrator)
    _reserved_memory(narrator)
    upgrades.patch_a_permitted_node(narrator, testbed)
    rollout.upgrade_two_nodes(narrator, testbed)
    _refuse(narrator)
    _dry_run(narrator)
    _relief(narrator, leaking)
    _delete(narrator)


def _before(narrator: Narrator) -> None:
    narrator.chapter(
        "A cluster with Windows nodes: two revisions of Windows Server 2022, and two Linux nodes"
    )
    narrator.run("kubectl label nodes -l kubernetes.io/os=windows agentpool=win22")
    narrator.run("kubectl get nodes -L kubernetes.io/os,agentpool")


def _start_operator(narrator: Narrator, testbed: Testbed) -> None:
    narrator.chapter("The operator starts, with its own ServiceAccount")
    # Pods are looked at every ten minutes by default. Nobody waits for that long before a demo.
    quick = ("--port", "0", "--pod-pass-seconds", "5", *operating.QUICK_POLLS)
    command = operating.command(testbed, *quick)
    narrator.say(f"running in the background: {operating.shell_words(command)}")
    operating.announce(testbed, operating.served(testbed.run(operating.NAME, command)))


def _apply(narrator: Narrator) -> None:
    narrator.chapter("One WindowsNodePool says what the nodes must be")
    narrator.run(f"cat {SAMPLE}")
    narrator.run(f"kubectl apply -f {SAMPLE}")
    narrator.run(f"kubectl wait --for=condition=NodesUpToDate --timeout=60s wnp/{POOL}")
    narrator.run("kubectl get wnp")
    narrator.run(NODES)
    narrator.run(f"kubectl describe wnp {POOL}")


def _leak(narrator: Narrator, testbed: Testbed) -> str:
    """Have a pod leak until it is evicted; return the node that it was on."""
    narrator.chapter(
        "A pod leaks memory: the operator sees it early, keeps new pods off the node, and evicts the pod"
    )
    narrator.say(f"{COUNT} nodes of another node pool join, with 16 GiB of RAM and a page file of 8096 MiB")
    add_batch_nodes(testbed)
    narrator.run(f"cat {LEAK_SAMPLE}")
    narrator.say(
        "its times are short for the demo, and the operator asks kubelets every 2 s, not every minute"
    )
    narrator.run(f"kubectl apply -f {LEAK_SAMPLE} -f demo/batch.yaml")
    narrator.run("kubectl rollout status deployment/worker --timeout=60s")
    memory = "kubectl winpool memory"
    # The database and the worker have committed three quarters of what their node can commit.
    narrator.wait(
        memory,
        until=lambda output: output.count("Normal") == COUNT and re.search(r" 7\d% ", output) is not None,
    )
    narrator.say("version 1.1 of the worker is rolled out")
    narrator.run("cat demo/leak.yaml")
    narrator.run("kubectl patch deployment worker --patch-file demo/leak.yaml")
    shown = narrator.wait(memory, until=lambda output: re.search(GROWING, output) is not None)
    node = str(re.findall(GROWING, shown)[0])
    narrator.wait(memory, until=lambda output: re.search(" (Soft|Hard) ", output) is not None)
    narrator.say("the node keeps this level until it has been clear of it for a minute")
    narrator.wait(
        f"kubectl get node {node} -o custom-columns={MARKS}",
        until=lambda output: "winpool.dev/memory-pressure" in output and "<none>" not in output,
    )
    narrator.wait("kubectl get wnp", until=lambda output: "NodesUnderPressure" in output)
    narrator.run(f"kubectl winpool status {LEAK_POOL}")
    narrator.wait(f"kubectl events --for node/{node}", until=lambda output: "PodEvicted" in output)
    narrator.say("its ReplicaSet makes another pod, which the taint keeps away from that node:")
    narrator.wait(
        "kubectl get pods -o custom-columns='NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName'",
        until=lambda output: output.count(node) == 1 and output.count("Running") == 2,
    )
    narrator.say("version 1.0 of the worker comes back")
    narrator.run("kubectl apply -f demo/batch.yaml")
    narrator.say("the node has to be clear for a minute; meanwhile, other chapters")
    return node


def _support(narrator: Narrator, testbed: Testbed) -> None:
    narrator.chapter(
        "A node with Windows Server 2025 joins: the status says whether it is supported, until when, and why"
    )
    extra = ("--prefix=win25", "--label=agentpool=win22", "--windows-sample=2025@v1.34.1")
    testbed.run("winsim-2025", testbed.winsim_command(windows=1, extra=extra))
    narrator.say("its kubelet has version 1.34")
    narrator.wait(STATUS, until=lambda output: "10.0.26100" in output)
    narrator.run("kubectl winpool matrix --os 2025")


def _drift(narrator: Narrator) -> None:
    narrator.chapter("A person removes a label and a taint by hand: the operator restores them")
    node = json.loads(narrator.quiet("kubectl get nodes -l agentpool=win22 -o json"))["items"][0]
    name = node["metadata"]["name"]
    narrator.run(f"kubectl label node {name} team-")
    narrator.run(f"kubectl taint node {name} os=windows:NoSchedule-")
    narrator.wait(
        f"kubectl get node {name} -o custom-columns="
        "'NAME:.metadata.name,TEAM:.metadata.labels.team,TAINTS:.spec.taints[*].key'",
        until=lambda output: "payments" in output and " os" in output,
    )
    narrator.wait(f"kubectl events --for node/{name}", until=lambda output: "DriftRepaired" in output)


def _brake(narrator: Narrator) -> None:
    narrator.chapter(
        "A NoExecute taint would delete a pod: the operator holds the taint, and an issue says why"
    )
    node = json.loads(narrator.quiet("kubectl get nodes -l agentpool=win22 -o json"))["items"][0]
    name = node["metadata"]["name"]
    overrides = json.dumps({"spec": {"nodeName": name}})
    narrator.run(f"kubectl run web --image=registry.example.com/team/web:1.0 --overrides='{overrides}'")
    narrator.run("kubectl wait --for=condition=Ready --timeout=60s pod/web")
    patch = json.dumps(
        {"spec": {"taints": [{"key": "os", "value": "windows", "effect": effect} for effect in EFFECTS]}}
    )
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.run(f"kubectl wait --for=condition=Stalled --timeout=60s wnp/{POOL}")
    narrator.run("kubectl get wnp")
    narrator.run(STATUS)
    narrator.run("kubectl get pod web")
    narrator.run("kubectl delete pod web --now")
    narrator.wait(
        f"kubectl get node {name} -o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].effect'",
        until=lambda output: "NoExecute" in output,
    )


def _reserved_memory(narrator: Narrator) -> None:
    narrator.chapter(
        "Reserved memory: the operator compares what the pool declares with what the kubelets reserve"
    )
    patch = json.dumps({"spec": {"reservedMemory": {"systemReserved": "2Gi", "kubeReserved": "512Mi"}}})
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.wait(STATUS, until=lambda output: "ReservedMemoryMismatch" in output)
    narrator.run(f"kubectl winpool join-config {POOL} -o flags")
    narrator.run(f"kubectl get wnp {POOL} -o jsonpath='{{.status.nodeTemplate}}'")


def _refuse(narrator: Narrator) -> None:
    narrator.chapter("The API server refuses a pool with a forbidden label, and says why")
    narrator.run(f"kubectl apply -f - <<'EOF'\n{BAD_MANIFEST}EOF", refused=True)


def _dry_run(narrator: Narrator) -> None:
    narrator.chapter("DryRun shows what a change would do, and writes to no node")
    patch = json.dumps({"spec": {"mode": "DryRun", "labels": {"team": "billing"}}})
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.wait("kubectl get wnp -o wide", until=lambda output: output.count("DryRun") > 1)
    narrator.run(STATUS)


def _relief(narrator: Narrator, node: str) -> None:
    narrator.chapter("The pressure clears: the taint is removed once the node has been clear for a minute")
    narrator.say("waiting for the rest of that minute")
    narrator.wait(
        f"kubectl events --for node/{node}",
        until=lambda output: "MemoryPressureCleared" in output,
        patience_seconds=RELIEF_SECONDS,
    )
    narrator.wait(
        "kubectl get wnp",
        until=lambda output: re.search(f"{LEAK_POOL} .* UpToDate", output) is not None,
    )
    narrator.run("kubectl winpool memory")
    narrator.run(f"kubectl get nodes -l agentpool=batch -o custom-columns={MARKS}")


def _delete(narrator: Narrator) -> None:
    narrator.chapter("The pools are deleted: every node is as it was before")
    narrator.run("kubectl delete wnp --all")
    narrator.run(TAINTS)
