"""`tpuctl node`: one module for each verb or group of verbs."""
