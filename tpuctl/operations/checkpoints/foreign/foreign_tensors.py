"""The tensors of a step of another framework: names, shapes, dtypes, and how large they are."""

from collections.abc import Callable, Iterator

from tpuctl.checkpoint.arrays.statistics import measured
from tpuctl.errors import PreconditionError
from tpuctl.operations.checkpoints.foreign import dcp, orbax_tensors, safetensors_folder
from tpuctl.operations.checkpoints.foreign.content import blocks
from tpuctl.operations.checkpoints.foreign.folder import Folder
from tpuctl.operations.checkpoints.foreign.recognise import ForeignStep
from tpuctl.operations.checkpoints.foreign.safetensors_folder import Tensor
from tpuctl.operations.checkpoints.model import Kind, TensorView


def tensors(
    step: ForeignStep, advance: Callable[[int], object] = lambda _: None
) -> Iterator[TensorView]:
    """Every tensor, with its norm where it can be read here; `advance` is told of bytes read.

    Raises IntegrityError; PreconditionError for DCP, of which nothing is known without its pickle.
    """
    if step.view.kind is Kind.DCP:
        raise PreconditionError(f"the tensors of {step.view.name} cannot be told: {dcp.NOT_OPENED}")
    if step.view.kind is Kind.ORBAX:
        return orbax_tensors.tensors(step.folder, advance)
    return _of_safetensors(step.folder, advance)


def _of_safetensors(folder: Folder, advance: Callable[[int], object]) -> Iterator[TensorView]:
    for path in safetensors_folder.files(folder):
        for tensor in safetensors_folder.header(folder, path):
            yield _measured(folder, path, tensor)
            advance(tensor.end - tensor.start)


def _measured(folder: Folder, path: str, tensor: Tensor) -> TensorView:
    dtype = safetensors_folder.DTYPE_NAMES.get(tensor.dtype)
    if dtype is None:
        return TensorView(tensor.name, tensor.dtype, tensor.shape)
    found = measured(dtype, blocks(folder, path, tensor.start, tensor.end))
    return TensorView(tensor.name, dtype, tensor.shape, found.norm, found.nan, found.inf)
