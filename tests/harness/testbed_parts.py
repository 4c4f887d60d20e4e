"""Where the parts of a testbed are that no test starts."""

from pathlib import Path
from typing import Final

from testbed.components import Ports
from testbed.paths import Layout

LAYOUT: Final = Layout(Path("/somewhere/tb"))
PORTS: Final = Ports(
    etcd=20000,
    etcd_peer=20001,
    apiserver=20002,
    kcm=20003,
    scheduler=20004,
    kubelets=20005,
    exporters=20006,
    prometheus=20007,
)
