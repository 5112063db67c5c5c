"""The agent of jobs: shipped to a worker, run there; standard library only, Python 3.8."""
