"""Slivers of the Google APIs beside TPU and Storage that tpuctl and gcloud call."""
