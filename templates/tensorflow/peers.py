"""The cluster as TensorFlow takes it, from the agent's environment or the slice."""

import json
import os
import urllib.request

PORT = 2222
ATTRIBUTE = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"


def join():
    """Set TF_CONFIG where there are several workers; this one's number, and how many there are."""
    index, count = (int(os.environ[f"TPUCTL_WORKER_{what}"]) for what in ("ID", "COUNT"))
    if count > 1:
        task = {"type": "worker", "index": index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses()}, "task": task})
    return index, count


def addresses():
    """`host:port` of every worker: from the environment, else from the metadata server."""
    given = os.environ.get("TPU_PROCESS_ADDRESSES")
    if given:
        return given.split(",")
    endpoints = ask("worker-network-endpoints").split(",")
    return [f"{each.rpartition(':')[2]}:{PORT}" for each in endpoints]


def ask(attribute):
    """The value of one attribute of this worker, from the metadata server."""
    question = urllib.request.Request(ATTRIBUTE + attribute, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(question, timeout=10) as answer:
        return answer.read().decode()
