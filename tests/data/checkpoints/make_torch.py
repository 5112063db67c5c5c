"""How the steps of PyTorch in this folder were made: torch 2.13.0, safetensors 0.8.0.

python make_torch.py /var/tmp/checkpoints
"""

import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageWriter

ROOT = Path(sys.argv[1])
torch.manual_seed(0)
TENSORS = {"w": torch.randn(16, 16), "b": torch.tensor([1.5, float("nan")], dtype=torch.bfloat16)}

dcp.save({"model": TENSORS, "step": 7}, checkpoint_id=ROOT / "dcp" / "step-100")
dcp.save(
    TENSORS,
    storage_writer=HuggingFaceStorageWriter(
        str(ROOT / "safetensors" / "checkpoint-100"), fqn_to_index_mapping={"w": 1, "b": 2}
    ),
)
