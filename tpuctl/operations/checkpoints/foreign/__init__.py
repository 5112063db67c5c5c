"""Checkpoints that other frameworks wrote, and the seals that protect them."""
