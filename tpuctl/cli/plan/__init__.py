"""`tpuctl plan`: which slice, how long, how much, and whether it fits."""
