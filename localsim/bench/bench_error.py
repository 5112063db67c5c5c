"""The error of a benchmark that cannot run, with an exit code of tpuctl."""

USAGE = 2
PRECONDITION = 12
TRANSIENT = 40


class BenchError(RuntimeError):
    """A benchmark cannot run: one line for the person, and the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
