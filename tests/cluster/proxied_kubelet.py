"""In the place of ``kubectl proxy``: runs the real one, and asks a kubelet where the API server refuses to.

The API server permits the person first, and then proxies to no loopback address.
Run it with the script that asks the kubelet, the real kubectl, and the arguments of kubectl.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from typing import Final

from winpool.cli.kubelet import _Connection

SOCKET: Final = "--unix-socket="


def handler(behind: str, kubelet: str) -> type[BaseHTTPRequestHandler]:
    """Return what answers by the real proxy at the socket ``behind``, or by the script ``kubelet``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = _Connection(behind)
            connection.request("GET", self.path)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
            connection.close()
            if b"address not allowed" in body:
                status, body = 200, subprocess.run(["sh", kubelet], check=True, capture_output=True).stdout
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def main(kubelet: str, kubectl: str, *arguments: str) -> None:
    """Serve until it is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    (address,) = (each.removeprefix(SOCKET) for each in arguments if each.startswith(SOCKET))
    behind = f"{address}r"
    changed = [f"{SOCKET}{behind}" if each.startswith(SOCKET) else each for each in arguments]
    real = subprocess.Popen([kubectl, *changed], stdout=subprocess.PIPE, text=True)
    try:
        assert real.stdout is not None
        ready = real.stdout.readline()
        with UnixStreamServer(address, handler(behind, kubelet)) as server:
            print(ready, end="", flush=True)
            server.serve_forever()
    finally:
        real.terminate()
        real.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
