"""The tensors of a step of another framework: names, shapes, dtypes and norms."""

from collections.abc import Callable, Iterator

from tpuctl.checkpoint.arrays.statistics import measure
from tpuctl.errors import PreconditionError
from tpuctl.operations.checkpoints.foreign import dcp, orbax_tensors, safetensors_folder
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.safetensors_folder import SafetensorsTensor
from tpuctl.operations.checkpoints.foreign.step_folder import StepFolder, read_blocks
from tpuctl.operations.checkpoints.step_view import CheckpointKind, TensorView


def tensors(
    step: ForeignStep, advance: Callable[[int], object] = lambda _: None
) -> Iterator[TensorView]:
    """Yield the tensors, with norms where they can be read; `advance` is told of bytes read.

    Raises IntegrityError; PreconditionError for DCP, of which nothing is known without its pickle.
    """
    if step.view.kind is CheckpointKind.DCP:
        raise PreconditionError(f"the tensors of {step.view.name} cannot be told: {dcp.NOT_OPENED}")
    if step.view.kind is CheckpointKind.ORBAX:
        return orbax_tensors.tensors(step.folder, advance)
    return _safetensors_tensors(step.folder, advance)


def _safetensors_tensors(
    folder: StepFolder, advance: Callable[[int], object]
) -> Iterator[TensorView]:
    for path in safetensors_folder.files(folder):
        for tensor in safetensors_folder.header(folder, path):
            yield _measure_tensor(folder, path, tensor)
            advance(tensor.end - tensor.start)


def _measure_tensor(folder: StepFolder, path: str, tensor: SafetensorsTensor) -> TensorView:
    dtype = safetensors_folder.DTYPE_NAMES.get(tensor.dtype)
    if dtype is None:
        return TensorView(tensor.name, tensor.dtype, tensor.shape)
    found = measure(dtype, read_blocks(folder, path, tensor.start, tensor.end))
    return TensorView(tensor.name, dtype, tensor.shape, found.norm, found.nan, found.inf)
