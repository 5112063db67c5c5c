"""`tpuctl job templates`, `init` and `lint`: job files, before there is a job."""
