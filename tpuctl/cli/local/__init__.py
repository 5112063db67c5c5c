"""`tpuctl local` and `tpuctl quickstart`."""
