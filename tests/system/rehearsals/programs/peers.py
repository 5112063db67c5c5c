"""The workers of a job, which exchange values in step: worker 0 collects and answers."""

import json
import os
import socket
import time
import urllib.request

PORT = 29500
ENDPOINTS = "/computeMetadata/v1/instance/attributes/worker-network-endpoints"


class Peers:
    """This worker and the others."""

    def __init__(self):
        self.id = int(os.environ.get("TPUCTL_WORKER_ID", "0"))
        self.count = int(os.environ.get("TPUCTL_WORKER_COUNT", "1"))
        self.files = []

    def connect(self):
        """Meet the other workers at worker 0's address."""
        if self.count == 1:
            return
        host, port = meeting_place()
        if self.id == 0:
            door = socket.create_server(("", port), family=socket.AF_INET)
            doors = [door.accept()[0] for _ in range(self.count - 1)]
        else:
            doors = [patient_connection(host, port)]
        for connection in doors:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.files.append(connection.makefile("rw"))

    def gather(self, value):
        """The values of all workers, on every worker: by the number of the worker."""
        if self.count == 1:
            return [value]
        if self.id > 0:
            self.tell(self.files[0], [self.id, value])
            return self.hear(self.files[0])
        told = dict(self.hear(file) for file in self.files)
        values = [value, *(told[number] for number in sorted(told))]
        for file in self.files:
            self.tell(file, values)
        return values

    def barrier(self):
        """Wait until every worker is here."""
        self.gather(None)

    def from_first(self, value):
        """The value of worker 0, on every worker."""
        return self.gather(value)[0]

    def tell(self, file, value):
        """Send one value."""
        file.write(json.dumps(value) + "\n")
        file.flush()

    def hear(self, file):
        """Receive one value; a peer that is gone ends the program."""
        line = file.readline()
        if not line:
            raise ConnectionError("another worker has ended")
        return json.loads(line)


def meeting_place():
    """Address and port at which worker 0 waits."""
    told = os.environ.get("TPU_PROCESS_ADDRESSES")
    if told:
        host, _, port = told.split(",")[0].partition(":")
        return host, int(port)
    url = f"http://metadata.google.internal{ENDPOINTS}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode().split(",")[0].rpartition(":")[2], PORT


def patient_connection(host, port):
    """A connection to worker 0, which may start a little later."""
    for _ in range(600):
        try:
            return socket.create_connection((host, port), timeout=None)
        except OSError:
            time.sleep(0.05)
    raise ConnectionError(f"worker 0 does not listen at {host}:{port}")
