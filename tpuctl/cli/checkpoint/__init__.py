"""`tpuctl checkpoint`: one module for each verb."""
