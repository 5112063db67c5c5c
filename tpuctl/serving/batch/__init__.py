"""Predicts files of a bucket in units, each row exactly once, on all workers of a job.

Started by the section `predict` of a job file: `python3 -m tpuctl.serving.batch`.
"""
