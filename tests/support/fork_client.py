"""Pass arguments and streams to the server of :mod:`tests.support.forked`, and end as the fork does.

Run as ``python -IS fork_client.py SOCKET LACKS PROGRAM [ARGUMENT ...]``; it imports little, so it starts in 30 ms.
Signals go to the fork. If this process is killed, the server kills the fork.
"""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Send the request, wait for the status, and end with it, or by the signal that ended the fork."""
    address, lacks, program, *args = sys.argv[1:]
    request = {"program": program, "args": args, "cwd": os.getcwd(), "env": dict(os.environ), "lacks": lacks}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        pid = int(server.recv(64))
        for number in PASSED_ON:
            signal.signal(number, lambda sent, frame: os.kill(pid, sent))
        status = int(server.recv(64) or 1)
    if status < 0:
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


main()
