"""What Cloud TPU offers: accelerator types, zones, runtime versions and dated list prices.

One data file per generation, read when one of its names is first asked for. Standard library only.
"""

from tpuctl.catalog.load import generation, generations
from tpuctl.catalog.lookup import (
    TENSORFLOW_PREFIX,
    accelerator_type,
    accelerator_type_of_topology,
    accelerator_types,
    default_runtime_version,
    default_type,
    price,
    runtime_versions,
    tensorflow_runtime_version,
    zones,
    zones_of,
)
from tpuctl.catalog.public_models import PublicModel, public_model, public_models
from tpuctl.catalog.records import (
    AcceleratorType,
    Chip,
    Price,
)
from tpuctl.catalog.unknown_error import UnknownError, nearest

__all__ = [
    "TENSORFLOW_PREFIX",
    "AcceleratorType",
    "Chip",
    "Price",
    "PublicModel",
    "UnknownError",
    "accelerator_type",
    "accelerator_type_of_topology",
    "accelerator_types",
    "default_runtime_version",
    "default_type",
    "generation",
    "generations",
    "nearest",
    "price",
    "public_model",
    "public_models",
    "runtime_versions",
    "tensorflow_runtime_version",
    "zones",
    "zones_of",
]
