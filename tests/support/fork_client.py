"""Pass arguments and streams to a fork server, and exit with the status of the fork.

Run as ``python -IS fork_client.py SOCKET PROGRAM [ARGUMENT ...]``; it imports little, so it starts in 30 ms. SIGINT and
SIGTERM go to the fork. If this process is killed, the server kills the fork.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    """Send the request and wait for the status."""
    address, program, *args = sys.argv[1:]
    request = {"program": program, "args": args, "cwd": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        pid = int(server.recv(64))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda sent, frame: os.kill(pid, sent))
        status = int(server.recv(64) or 1)
    # A shell reports signals as 128 plus their number.
    sys.exit(status if status >= 0 else 128 - status)


main()
