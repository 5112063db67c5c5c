"""Sound: weights and momentum as safetensors, the rest as JSON, and an index written last."""

import json
import struct

from training import train


def encode_safetensors(arrays):
    """Lists of floats in the safetensors format: the header's length, the header, the data."""
    header, data = {}, b""
    for name, values in arrays.items():
        packed = struct.pack(f"<{len(values)}d", *values)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": offsets}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def decode_safetensors(file):
    """The lists of floats in a safetensors file."""
    size = struct.unpack("<Q", file[:8])[0]
    header, data = json.loads(file[8 : 8 + size]), file[8 + size :]
    return {
        name: list(struct.unpack(f"<{row['shape'][0]}d", data[slice(*row["data_offsets"])]))
        for name, row in header.items()
    }


def save(run):
    """Worker 0 writes what all share, each worker its own part, and worker 0 the index."""
    below = f"checkpoint-{run.step}"
    if run.worker == 0:
        arrays = {"weights": run.weights, "momentum": run.momentum}
        run.objects.put(f"{below}/model.safetensors", encode_safetensors(arrays))
    run.objects.put(f"{below}/trainer_state_{run.worker}.json", run.encoded())
    run.peers.barrier()
    if run.worker == 0:
        files = {"weights": "model.safetensors", "momentum": "model.safetensors"}
        index = json.dumps({"weight_map": files}).encode()
        run.objects.put(f"{below}/model.safetensors.index.json", index)
    run.peers.barrier()


def resume(run):
    """Go on from the newest step that has an index."""
    ending = "/model.safetensors.index.json"
    indexed = [name for name in run.objects.names() if name.endswith(ending)]
    steps = [int(name.partition("/")[0].partition("-")[2]) for name in indexed]
    newest = run.peers.from_first(max(steps, default=0))
    if newest:
        below = f"checkpoint-{newest}"
        state = json.loads(run.objects.get(f"{below}/trainer_state_{run.worker}.json"))
        run.load({**state, **decode_safetensors(run.objects.get(f"{below}/model.safetensors"))})


train(save, resume)
