"""What a process frees it faults in no second time."""

import ctypes
import subprocess
import sys

import pytest

# Four arrays of 4 MiB come and go, ten times; then the faults of once more.
STEPS = """
import resource
import numpy as np
from localsim.core import heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if {kept}:
    heap.keep_freed_memory()
for _ in range(10):
    before = faults()
    arrays = [np.ones((1024, 1024), np.float32) for _ in range(4)]
    del arrays
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="it is not glibc")
def test_freed_memory_is_used_again_without_faults():
    given_back, kept = (
        int(subprocess.check_output([sys.executable, "-c", STEPS.format(kept=kept)]))
        for kept in (False, True)
    )
    assert given_back > 1000
    assert kept < 100
