"""`tpuctl data`."""
