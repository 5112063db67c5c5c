"""A model behind HTTP or over files: two functions of the user's, `load` and `predict`.

Imported by programs on workers: it needs `tpuctl.checkpoint`, `tpuctl.store` and the errors alone.
"""
