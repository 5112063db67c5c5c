"""`tpuctl top`: jobs and nodes as they work, on a full screen or once."""
