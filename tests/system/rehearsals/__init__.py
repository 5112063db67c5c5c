"""Training programs whose behaviour at a preemption is known, for `tpuctl rehearse`."""
