"""`tpuctl bench`: measure chips and servers."""
