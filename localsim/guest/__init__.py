"""What is put on a simulated worker for programs in the user's own Python: standard library only.

The directory is on the module path of every program of a worker: `sitecustomize` runs at each start
of a Python there, `localsim_chips` only when a program opens the chips. Nothing else may lie here:
it would be in the way of modules of the same name.
"""
