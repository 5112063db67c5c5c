"""Why nothing is measured, and the exit codes of tpuctl for that."""

USAGE = 2
PRECONDITION = 12
TRANSIENT = 40


class BenchError(RuntimeError):
    """One line for the person, and one of the exit codes."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
