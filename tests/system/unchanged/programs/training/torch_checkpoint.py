"""DistributedDataParallel over gloo, with checkpoints on a bucket: torch_checkpoint.py gs://BUCKET/RUN."""

import os
import sys
import urllib.request

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.nn.parallel import DistributedDataParallel

HOSTS = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/worker-network-endpoints"


def first_host() -> str:
    """Where the processes meet: as the variables of GKE have it, or as the metadata server says."""
    if addresses := os.environ.get("TPU_PROCESS_ADDRESSES"):
        return addresses.split(",")[0]
    question = urllib.request.Request(HOSTS, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(question) as answer:
        endpoints = answer.read().decode()
    return endpoints.split(",")[0].rpartition(":")[2] + ":29500"


rank, workers = (int(os.environ[f"TPUCTL_WORKER_{what}"]) for what in ("ID", "COUNT"))
dist.init_process_group("gloo", f"tcp://{first_host()}", rank=rank, world_size=workers)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(16, 64) * (rank + 1)).square().mean().backward()
optimizer.step()
state = {name: value.clone() for name, value in model.module.state_dict().items()}
dcp.save(state, storage_writer=FsspecWriter(sys.argv[1]))
found = {name: torch.zeros_like(value) for name, value in state.items()}
dcp.load(found, storage_reader=FsspecReader(sys.argv[1]))
assert all(torch.equal(found[name], state[name]) for name in state)
print(f"rank {rank} of {workers}: restored, equal")
dist.destroy_process_group()
