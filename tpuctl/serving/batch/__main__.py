"""Runs one worker's part of a batch job."""

import sys

from tpuctl.serving.batch.worker_program import main

sys.exit(main())
