"""gcloud with its modules loaded once: each connection is a process that runs one command.

gcloud's own script starts this in the place of its Python program, which is the first argument:
`gcloud_server.py SDK/lib/gcloud.py DESCRIPTOR`. The descriptor is a listening socket. A request is
a line of JSON with "argv" and "environment", the reply is JSON with "code", "out" and "err".
"""

import gc
import importlib
import json
import os
import socket
import socketserver
import sys
import tempfile
from pathlib import Path


class Command(socketserver.StreamRequestHandler):
    """One command, in a process of its own."""

    def handle(self):
        request = json.loads(self.rfile.readline())
        os.environ.update(request["environment"])
        sys.argv[1:] = request["argv"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            reply = {"code": exit_code(), "out": content(out), "err": content(err)}
        self.wfile.write(json.dumps(reply).encode())


class Server(socketserver.ForkingTCPServer):
    """Serves on the socket that somebody else has opened."""

    def __init__(self, descriptor):
        super().__init__(("127.0.0.1", 0), Command, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=descriptor)


def content(stream):
    """Everything in a file."""
    stream.seek(0)
    return stream.read().decode()


def exit_code():
    """Run gcloud as it is; the code that it ends with."""
    import gcloud

    try:
        gcloud.main()
    except SystemExit as end:
        code = end.code
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


def main(program, descriptor):
    sys.path.insert(0, str(Path(program).parent))
    sys.argv[:] = [program]
    importlib.import_module("gcloud")  # it says where its libraries are
    importlib.import_module("googlecloudsdk.gcloud_main")  # two thirds of what a command costs
    gc.freeze()  # what every process shares need not be copied for each
    with Server(int(descriptor)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
