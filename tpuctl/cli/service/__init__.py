"""`tpuctl service ...`: one module for its verbs, one for what is shown of a service."""
