"""DistributedDataParallel over gloo; PyTorch DCP saves to the bucket while it goes on."""

import os
import time
import urllib.request

import fsspec
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVE_EVERY = 80, 15
HOSTS = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/worker-network-endpoints"


def first_host() -> str:
    """Where the processes meet: as the variables of GKE have it, or as the metadata server says."""
    if addresses := os.environ.get("TPU_PROCESS_ADDRESSES"):
        return addresses.split(",")[0]
    question = urllib.request.Request(HOSTS, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(question) as answer:
        endpoints = answer.read().decode()
    return endpoints.split(",")[0].rpartition(":")[2] + ":29500"


def newest(folder: str) -> int:
    """The newest step whose `.metadata` is there; 0: none."""
    files, path = fsspec.url_to_fs(folder)
    return max((int(name.split("/")[-2]) for name in files.glob(f"{path}/*/.metadata")), default=0)


def state() -> dict:
    """What is saved of the model and its optimizer."""
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


rank, workers = (int(os.environ[f"TPUCTL_WORKER_{what}"]) for what in ("ID", "COUNT"))
dist.init_process_group("cpu:gloo", f"tcp://{first_host()}", rank=rank, world_size=workers)
torch.manual_seed(0)
layers = torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
folder = os.environ["TPUCTL_CHECKPOINT_DIR"]
saving = None
group = dist.new_group()  # what saves must not share the group that training talks in meanwhile
if first := newest(folder):
    found = state()
    dcp.load(found, checkpoint_id=f"{folder}/{first}")
    set_state_dict(
        model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
    )
    print(f"resumed step={first}", flush=True)
for step in range(first + 1, STEPS + 1):
    numbers = torch.Generator().manual_seed(step * workers + rank)
    inputs = torch.randn(16, 16, generator=numbers)
    loss = (model(inputs) - inputs.sum(1, keepdim=True).sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step={step} loss={loss.item()!r}", flush=True)
    time.sleep(0.1)
    if step % SAVE_EVERY == 0:
        if saving is not None:
            saving.result()
        saving = dcp.async_save(state(), checkpoint_id=f"{folder}/{step}", process_group=group)
if saving is not None:
    saving.result()
dist.destroy_process_group()
