"""Folders of safetensors files, as Hugging Face's libraries write them.

    <step>/model-00001-of-00002.safetensors   8 bytes for the size of the header, header, tensors
    <step>/model.safetensors.index.json       which tensor is in which file: written last
    <step>/shard-00001-model-...safetensors   of one rank of PyTorch: without an index

One file alone has no index: it is finished when its size fits its header.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuctl.checkpoint.arrays.dtypes import DTYPES, size_bytes
from tpuctl.errors import IntegrityError
from tpuctl.operations.checkpoints.foreign.step_folder import FolderStatus, StepFolder
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Entry

SUFFIX = ".safetensors"
MAY_GROW = True
DTYPE_NAMES = {each.safetensors: name for name, each in DTYPES.items()} | {
    "U8": "uint8",
    "C64": "complex64",
    "F8_E8M0": "float8_e8m0fnu",
}
"""What safetensors calls a dtype -> what we do."""
_INDEX = re.compile(r"[^/]+\.safetensors\.index(\.[^/]+)?\.json")
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)\.safetensors")
_SIZE_BYTES = 8
_LARGEST_HEADER_BYTES = 100_000_000
"""As the safetensors library has it."""


@dataclass(frozen=True)
class SafetensorsTensor:
    """A tensor of a file, and the bytes of the file at which it begins and ends."""

    name: str
    dtype: str
    """As safetensors names it: F32, BF16."""
    shape: tuple[int, ...]
    start: int
    end: int


def recognises(_name: str, files: Mapping[str, Entry]) -> bool:
    """Whether a folder itself holds safetensors files."""
    return any(
        "/" not in path and path.endswith(SUFFIX) or _INDEX.fullmatch(path) for path in files
    )


def read_status(folder: StepFolder) -> FolderStatus:
    """The state of a folder by its names, and in a local directory by the headers too."""
    index = indices(folder)
    marker = index[-1] if index else None
    if (lacking := _missing_file(folder, index)) is not None:
        return FolderStatus(StepState.PARTIAL, marker, f"{folder.prefix}{lacking}: missing")
    if not index and any(_needs_index(path) for path in files(folder)):
        return FolderStatus(
            StepState.PARTIAL, reason="there is no index yet: its save has not ended"
        )
    if not folder.is_in_bucket:
        try:
            check_files(folder)
        except IntegrityError as error:
            # What is being written is not distinguished from what was cut off.
            return FolderStatus(StepState.PARTIAL, marker, str(error))
    written_s = max(folder.files[path].updated_s for path in [*files(folder), *index])
    return FolderStatus(StepState.UNSEALED, marker, committed_s=written_s)


def deletion_rank(path: str) -> int:
    """The order of a file in a deletion, the lowest first: indices, then what they name."""
    return 0 if _INDEX.fullmatch(path) else 1 if path.endswith(SUFFIX) else 2


def files(folder: StepFolder) -> list[str]:
    """The paths of its safetensors files, in order."""
    return sorted(path for path in folder.files if "/" not in path and path.endswith(SUFFIX))


def indices(folder: StepFolder) -> list[str]:
    """The paths of its indices, as a rule one or none."""
    return sorted(path for path in folder.files if _INDEX.fullmatch(path))


def check_files(folder: StepFolder) -> None:
    """Read every header and index; IntegrityError when one of them is wrong."""
    names_by_path = {path: {each.name for each in header(folder, path)} for path in files(folder)}
    for index in indices(folder):
        for name, path in weight_map(folder, index).items():
            if name not in names_by_path.get(path, ()):
                raise IntegrityError(f"{folder.prefix}{path}: it has no tensor {name}")


def header(folder: StepFolder, path: str) -> list[SafetensorsTensor]:
    """The tensors in the header of a file, in its order; IntegrityError when it is damaged."""
    try:
        return _header(folder, path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IntegrityError(f"{folder.prefix}{path}: not a safetensors file: {error}") from error


def weight_map(folder: StepFolder, index: str) -> dict[str, str]:
    """The file of each tensor by its name; IntegrityError when the index is not valid."""
    weights = folder.json(index).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(path, str) for path in weights.values()):
        raise IntegrityError(f"{folder.prefix}{index}: it has no weight_map")
    return weights


def _needs_index(path: str) -> bool:
    """One of several files; only what each rank of PyTorch writes for itself needs none."""
    match = _NUMBERED.fullmatch(path)
    return match is not None and int(match[3]) > 1 and not path.startswith("shard-")


def _missing_file(folder: StepFolder, index: list[str]) -> str | None:
    """A file that the index or the number in another one's name calls for."""
    named = {path for each in index for path in weight_map(folder, each).values()}
    for path in files(folder):
        if match := _NUMBERED.fullmatch(path):
            before, _, count, after = match.groups()
            # A damaged name must not become a long list.
            for number in range(1, min(int(count), len(folder.files) + 1) + 1):
                named.add(f"{before}-{number:05d}-of-{count}{after}{SUFFIX}")
    return min(named - folder.files.keys(), default=None)


def _header(folder: StepFolder, path: str) -> list[SafetensorsTensor]:
    whole = folder.files[path].size_bytes
    size = int.from_bytes(folder.read(path, 0, _SIZE_BYTES), "little")
    base = _SIZE_BYTES + size
    if not 2 <= size <= min(_LARGEST_HEADER_BYTES, whole - _SIZE_BYTES):
        raise ValueError("its header is cut off")
    described = json.loads(folder.read(path, _SIZE_BYTES, base))
    described.pop("__metadata__", None)
    tensors = [_tensor(name, tensor, base) for name, tensor in described.items()]
    end = base
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.end)):
        if tensor.start != end:
            raise ValueError(
                f"the bytes of {tensor.name} do not follow those of the tensor before it"
            )
        end = tensor.end
    if end != whole:
        raise ValueError(f"it has {whole} bytes, its header says {end}")
    return tensors


def _tensor(name: str, described: dict[str, Any], base: int) -> SafetensorsTensor:
    begins, ends = described["data_offsets"]
    shape = tuple(described["shape"])
    numbers = (begins, ends, *shape)
    if not all(type(each) is int and each >= 0 for each in numbers) or ends < begins:
        raise ValueError(f"{name} has an offset or a shape that is not possible")
    dtype = str(described["dtype"])
    if dtype in DTYPE_NAMES and ends - begins != size_bytes(DTYPE_NAMES[dtype], math.prod(shape)):
        raise ValueError(f"the size of {name} does not fit its shape")
    return SafetensorsTensor(name, dtype, shape, base + begins, base + ends)
