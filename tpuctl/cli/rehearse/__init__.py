"""`tpuctl rehearse`: prove that a job comes back from a preemption."""
