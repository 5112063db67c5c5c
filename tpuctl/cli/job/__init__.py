"""`tpuctl job`, `run` and `top`."""
