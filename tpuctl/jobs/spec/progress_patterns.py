"""The regular expressions that find a program's step and metrics in the lines that it prints."""

import re

NUMBER = r"[-+]?[\w.+-]+"
EXPRESSIONS = {
    # maxtext 0.2.5, maxtext/common/metric_logger.py and checkpointing.py
    "maxtext": (
        r"completed step: (?P<step>\d+),"
        rf"(?:.*Tokens/s/device: (?P<tokens_per_s_per_device>{NUMBER}),)?"
        rf"(?:.*\bloss: (?P<loss>{NUMBER}))?"
        r"|restoring from this run's directory step (?P<resumed>\d+)"
    ),
    # marin-levanter 0.2.227: a line each minute, whose count is exact below 1000; checkpoint.py
    "levanter": (
        r"(?:Progress on:train |Saving checkpoint at step )(?P<step>\d+)(?=(?:\.0)?it/|\.$| to )"
        rf"(?:.*\bloss=(?P<loss>{NUMBER}))?"
        r"|Resuming training from step (?P<resumed>\d+)"
    ),
    # transformers 5: tqdm's bar of the training, which unlike that of an evaluation does not
    # move the cursor up, and the dictionaries of ProgressCallback.on_log
    "hf-trainer": (
        r"^ *\d+%\|.*\| (?P<step>\d+)/(?P<steps>\d+) \[[^\x1b]*$"
        rf"|'loss': '?(?P<loss>{NUMBER})|'eval_loss': '?(?P<eval_loss>{NUMBER})"
    ),
    # keras 3, utils/progbar.py: the step is the epoch
    "keras": (
        rf"^Epoch (?P<step>\d+)/(?P<steps>\d+)|- loss: (?P<loss>{NUMBER})"
        rf"(?:.*- val_loss: (?P<val_loss>{NUMBER}))?"
    ),
    # lightning 2.6, TQDMProgressBar and RichProgressBar: the step is the epoch
    "lightning": rf"^Epoch (?P<step>\d+)(?::|/\d+ )(?:.*\bloss(?:=|: )(?P<loss>{NUMBER}))?",
}
"""Trainer -> what finds its steps."""


def expression_of(progress: str | None) -> str | None:
    """The regular expression of a trainer's name, or that was given itself."""
    return progress if progress is None else EXPRESSIONS.get(progress, progress)


def what_is_wrong(progress: str) -> str:
    """Why a text is neither a trainer nor a regular expression with a step; empty if it is."""
    try:
        groups = re.compile(expression_of(progress) or "").groupindex
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}"
    return "" if "step" in groups else "does not name a trainer and has no group (?P<step>…)"
