"""tpuctl: Cloud TPU slices, data, jobs and checkpoints from a terminal."""

__version__ = "0.1.0"
