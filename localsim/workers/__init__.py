"""Slices and workers: their processes, disks and isolation; does not know the cloud."""
