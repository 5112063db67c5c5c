"""Learn handwritten digits with PyTorch on the workers' own CPUs, data-parallel over gloo.

Every worker takes its part of each batch; DistributedDataParallel averages the gradients. Resumes
from the newest good checkpoint.
"""

import os
import time

import digits
import numpy as np
import peers
import torch
from torch import distributed, nn

from tpuctl.checkpoint import Checkpointer

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = int(os.environ.get("BATCH", "1024"))
HIDDEN = int(os.environ.get("HIDDEN", "1024"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
SEED = int(os.environ.get("SEED", "0"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))


def main():
    """Train from the newest checkpoint to STEPS."""
    rank, world_size, meeting_place = peers.find()
    # On a TPU's chips it is "xla" with init_method="xla://" (torch_xla), and the network and its
    # batches move with .to(torch_xla.device()); the rest stays.
    distributed.init_process_group("gloo", meeting_place, rank=rank, world_size=world_size)
    torch.manual_seed(SEED)
    network = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    optimizer = torch.optim.SGD(network.parameters(), LEARNING_RATE, momentum=0.9)
    pixels, labels = digits.load(os.environ["DATA"])
    learned, held_back = digits.split(len(labels))
    with checkpoints(rank, world_size) as checkpointer:
        first = resume(checkpointer, network, optimizer)
        replica = nn.parallel.DistributedDataParallel(network)
        for step in range(first, STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            own = rows[rank::world_size]
            loss = train_step(replica, optimizer, pixels[own], labels[own])
            print(
                f"step={step + 1} loss={loss:.4f} examples={len(own)}"
                f" examples_per_s={len(own) / (time.perf_counter() - started):.1f}",
                flush=True,
            )
            checkpointer.save(step + 1, state(network, optimizer), force=step + 1 == STEPS)
    with torch.no_grad():
        guesses = network(torch.from_numpy(pixels[held_back])).argmax(dim=1).numpy()
    accuracy = np.mean(guesses == labels[held_back])
    print(f"done steps={STEPS} accuracy={accuracy:.4f} workers={world_size}", flush=True)
    distributed.destroy_process_group()


def train_step(replica, optimizer, pixels, labels):
    """One update; the mean loss of the whole batch."""
    optimizer.zero_grad()
    odds = replica(torch.from_numpy(pixels))
    loss = nn.functional.cross_entropy(odds, torch.from_numpy(labels))
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    distributed.all_reduce(mean)
    return mean.item() / distributed.get_world_size()


def state(network, optimizer):
    """What a checkpoint holds: weights and momentum, in the order of the parameters."""
    momentum = [optimizer.state[each]["momentum_buffer"] for each in network.parameters()]
    return {"weights": network.state_dict(), "momentum": momentum}


def resume(checkpointer, network, optimizer):
    """Take over the newest good checkpoint; its step, or 0 when there is none."""
    for parameter in network.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    restored = checkpointer.restore(like=state(network, optimizer))
    if restored is None:
        return 0
    print(f"resumed step={restored.step}", flush=True)
    network.load_state_dict(restored.tree["weights"])
    for parameter, momentum in zip(network.parameters(), restored.tree["momentum"], strict=True):
        optimizer.state[parameter]["momentum_buffer"] = momentum
    return restored.step


def checkpoints(worker_id, worker_count):
    """A checkpointer that saves every SAVE_EVERY steps, and when the worker gets SIGTERM."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, worker_id, worker_count, every=SAVE_EVERY)


if __name__ == "__main__":
    main()
