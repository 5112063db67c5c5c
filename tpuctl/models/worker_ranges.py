"""Workers named in short: `0-2,5`."""

from collections.abc import Iterable


def format_ranges(worker_ids: Iterable[int]) -> str:
    """The numbers, in order, as `--worker` takes them."""
    runs: list[list[int]] = []
    for number in sorted(set(worker_ids)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
