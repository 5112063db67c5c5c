"""Run `tpuctl` or `python -m tpuctl`."""

import errno
import gc
import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave at once: tearing grpc down would cost 25 ms a command."""
    open_closed_streams()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it tells people about goaways otherwise
    try:
        gc.disable()  # nothing that is loaded is garbage: 2 ms
        from tpuctl.cli import app  # Ctrl-C may come while it loads

        gc.enable()
        app.install_signals()
        code = app.main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: nobody above can handle it
        if is_closed_terminal(error):
            os._exit(INTERRUPTED)
        code = report_bug(error)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 0
    except OSError as error:
        code = code or cannot_print(error)
    os._exit(code)


def open_closed_streams() -> None:
    """Whoever closed one (`>&-`) wants nothing of it; else a socket would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def is_closed_terminal(error: Exception) -> bool:
    """Whether a write failed because the window that the command ran in was closed."""
    if not isinstance(error, OSError) or error.errno != errno.EIO:
        return False
    import termios

    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as refusal:
            if refusal.args[0] == errno.EIO:
                return True
    return False


def cannot_print(error: OSError) -> int:
    """Results are lost: the disk that standard output leads to is full, for one; the exit code."""
    from tpuctl.errors import LocalIOError

    sys.stderr.write(f"error: cannot write to standard output: {str(error.strerror).lower()}\n")
    return LocalIOError.exit_code


def report_bug(error: Exception) -> int:
    """What nobody foresaw: one line for the person, the traceback into a file; the exit code."""
    import tempfile
    import traceback

    lines = traceback.format_exception(error)
    if "--debug" in sys.argv:
        sys.stderr.writelines(lines)
        return int(getattr(error, "exit_code", 1))
    with tempfile.NamedTemporaryFile(
        "w", prefix="tpuctl-bug-", suffix=".txt", delete=False
    ) as file:
        file.writelines(lines)
    sys.stderr.write(f"error: a bug in tpuctl: {' '.join(lines[-1].split())}\n")
    sys.stderr.write(f"hint: please report it with {file.name}\n")
    return 1


if __name__ == "__main__":
    main()
