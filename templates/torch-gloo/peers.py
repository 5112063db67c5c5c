"""Rank, world size and the address of worker 0, from the agent's environment or the slice."""

import os
import urllib.request

PORT = 29500
ATTRIBUTE = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"


def find():
    """Rank, world size and rendezvous URL, as torch.distributed.init_process_group takes them."""
    rank, world_size = (int(os.environ[f"TPUCTL_WORKER_{what}"]) for what in ("ID", "COUNT"))
    return rank, world_size, f"tcp://{meeting_place()}"


def meeting_place():
    """`host:port` of worker 0: from the environment, else from the metadata server."""
    addresses = os.environ.get("TPU_PROCESS_ADDRESSES")
    if addresses:
        return addresses.split(",")[0]
    endpoints = ask("worker-network-endpoints")
    return f"{endpoints.split(',')[0].rpartition(':')[2]}:{PORT}"


def ask(attribute):
    """The value of one attribute of this worker, from the metadata server."""
    question = urllib.request.Request(ATTRIBUTE + attribute, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(question, timeout=10) as answer:
        return answer.read().decode()
