"""Steps of programs that say them in words of their own, and of bars that are drawn again."""

import pytest

from tpuctl.agent.job.logs import progress_pattern
from tpuctl.agent.job.logs.job_log import JobLog
from tpuctl.agent.job.logs.log_files import LogFiles
from tpuctl.agent.job.logs.progress_pattern import ProgressPattern
from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.jobs.spec.progress_patterns import EXPRESSIONS

MAXTEXT = "completed step: 7, seconds: 0.1, TFLOP/s/device: 0.0, Tokens/s/device: 9.5, loss: 10.1"
LEVANTER = "INFO - Progress on:train 12.0it/1.00kit rate:2.0it/s remaining:00:4 postfix:loss=2.3"
TRAINER = """\
\r 48%|####8     | 19/40 [00:06<00:05,  3.86it/s]\r         \r{'loss': '0.69', 'epoch': '0.1'}
\r 50%|#####     | 20/40 [00:06<00:05,  3.86it/s]
\r  0%|          | 0/13 [00:00<?, ?it/s]\x1b[A
\r 62%|######2   | 8/13 [00:00<00:00, 66.69it/s]\x1b[A\r  \r\x1b[A{'eval_loss': 0.7}
\rWriting model shards:   0%|          | 0/1 [00:00<?, ?it/s]\x1b[A
"""
KERAS = """\
Epoch 2/3
\r\x1b[1m 2/64\x1b[0m --- \x1b[1m24s\x1b[0m 400ms/step - loss: 0.5 - mae: 0.57\b\b\b\b\b
\r\x1b[1m64/64\x1b[0m --- \x1b[1m2s\x1b[0m 12ms/step - loss: 0.1 - mae: 0.2 - val_loss: 0.06
"""
LIGHTNING = "\rEpoch 2: 100%|####| 50/50 [00:00<00:00, 221.39it/s, v_num=0, loss=0.0032]\n"


@pytest.fixture
def log(tmp_path):
    return JobLog(LogFiles(str(tmp_path / "log")), Redaction())


def texts(tmp_path) -> list[str]:
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "log").iterdir()))
    return [line.split(" ", 1)[1] for line in data.decode().split("\n")[:-1]]


@pytest.mark.parametrize(
    ("trainer", "printed", "found"),
    [
        ("maxtext", MAXTEXT,
         {"step": 7, "metrics": {"loss": 10.1, "tokens_per_s_per_device": 9.5}}),
        ("maxtext", "restoring from this run's directory step 20",
         {"resume_step": 20, "metrics": {}}),
        ("levanter", LEVANTER, {"step": 12, "metrics": {"loss": 2.3}}),
        ("levanter", LEVANTER.replace("12.0it", "1.23kit"), {}),
        ("levanter", "Saving checkpoint at step 1200 to gs://b/x", {"step": 1200, "metrics": {}}),
        ("levanter", "Resuming training from step 21", {"resume_step": 21, "metrics": {}}),
        ("hf-trainer", TRAINER,
         {"step": 20, "metrics": {"steps": 40.0, "loss": 0.69, "eval_loss": 0.7}}),
        ("keras", KERAS, {"step": 2, "metrics": {"steps": 3.0, "loss": 0.1, "val_loss": 0.06}}),
        ("lightning", LIGHTNING, {"step": 2, "metrics": {"loss": 0.0032}}),
    ],
)  # fmt: skip
def test_the_step_of_a_trainer_is_found(log, trainer, printed, found):
    pattern = ProgressPattern(EXPRESSIONS[trainer], print)
    assert pattern.parse(log.feed(printed.encode() + b"\n")) == found


@pytest.mark.parametrize(
    ("text", "printed", "why"),
    [
        (r"(?P<step>(a+)+)$", "a" * 60 + "b", "it takes more than 0.02 s for one line"),
        (r"(?P<step>\d+", "1", "this Python does not know it: missing ), unterminated subpattern"),
    ],
)
def test_an_expression_that_does_not_do_is_given_up(monkeypatch, text, printed, why):
    monkeypatch.setattr(progress_pattern, "LIMIT_S", 0.02)
    said = []
    pattern = ProgressPattern(text, said.append)
    for _again in range(2):
        assert pattern.parse(printed.encode()) == {}
    assert len(said) == 1
    assert said[0].startswith(f"the expression of `progress` is not used any more: {why}")


def test_a_bar_is_written_as_it_looks_in_the_end(log, tmp_path):
    for percent in range(0, 101, 25):
        log.feed(f"\r{percent:3}%|##".encode())
    assert log.active_s is not None
    assert texts(tmp_path) == ["  0%|##"]  # of a bar that moves, a line every 10 s
    log.feed(b"\ndone\r\n\rnext 1\rnext 2\r        \r\nx")
    log.feed(b"yz\r")
    assert log.end_line() == b"xyz\n"
    assert texts(tmp_path) == ["  0%|##", "100%|##", "done", "next 2", "xyz"]


def test_a_bar_in_pieces_is_one_line(log, tmp_path):
    for piece in (b"a\r", b"b", b"b\rc", b"c\x1b[A\b\b\r", b"\n"):
        log.feed(piece)
    assert texts(tmp_path) == ["a", "cc"]
