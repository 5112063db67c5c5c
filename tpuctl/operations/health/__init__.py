"""What `tpuctl doctor` asks of this machine, the context and its cloud, and how it is mended."""
