"""Damaged requests by the thousand beside good ones: these get their own rows, and nothing hangs.

pytest -m soak -s tests/soak/serving
"""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from client.serving.probe_model import FAILS, NOT_A_NUMBER
from client.serving.served import INFER, raw_request, request_body, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SECONDS = 60
CHUNKED = request_body(5)
REQUESTS = [
    raw_request(request_body(3, 4)),
    raw_request(request_body(FAILS)),
    raw_request(request_body(NOT_A_NUMBER)),
    f"POST {INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    + b"%x\r\n%s\r\n0\r\n\r\n" % (len(CHUNKED), CHUNKED),
    b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n",
]


def damaged(source):
    """One to three requests behind each other, changed in up to six places."""
    data = bytearray(b"".join(source.choices(REQUESTS, k=source.randint(1, 3))))
    for _ in range(source.randint(0, 6)):
        place = source.randrange(len(data))
        match source.randrange(4):
            case 0:
                data[place] = source.randrange(256)
            case 1:
                del data[place : place + source.randint(1, 30)]
            case 2:
                data[place:place] = source.randbytes(source.randint(1, 20))
            case 3:
                data[place:place] = data[: source.randint(1, 100)]
        data = data or bytearray(b"x")
    return bytes(data)


def send_damaged(served, seed, end_s):
    """Send until the end; some clients leave at once, others read what comes. Counts answers."""
    source, answers = random.Random(seed), Counter()
    while time.monotonic() < end_s:
        with served.connect() as client, suppress(TimeoutError, ConnectionError):
            client.settimeout(0.3)
            client.sendall(damaged(source))
            while source.random() < 0.9 and (data := client.recv(65536)):
                answers[data[9:12].decode("ascii", "replace")] += 1
    return answers


def send_good(served, seed, end_s):
    """Send until the end; returns how many there were, and the answers that are wrong."""
    source, count, wrong = random.Random(seed), 0, []
    while time.monotonic() < end_s:
        value = source.randint(1, 600)
        status, found = served.infer(value, -value, id=str(value))
        count += 1
        rows = [2 * value, 0, -2 * value, 0]
        if status != 200 or found["outputs"][0]["data"] != rows or found["id"] != str(value):
            wrong.append((status, found))
    return count, wrong


def test_damaged_requests_harm_no_good_one():
    with (
        serving("--max-batch", "16", "--queue-rows", "512") as served,
        ThreadPoolExecutor(11) as pool,
    ):
        log = pool.submit(served.process.stderr.read)
        end_s = time.monotonic() + SECONDS
        bad = [pool.submit(send_damaged, served, seed, end_s) for seed in range(6)]
        good = [pool.submit(send_good, served, seed, end_s) for seed in range(4)]
        answers = sum((each.result() for each in bad), Counter())
        counts = [each.result() for each in good]
        print(f"{sum(count for count, _ in counts)} good ones; damaged: {dict(answers)}")
        assert [wrong for _, wrong in counts] == [[]] * 4
        assert {"200", "400", "500"} <= answers.keys()
        assert served.infer(21)[0] == 200
        assert served.metric("in_flight") == served.metric("queued_rows") == 0
        served.process.kill()
        text = log.result()
        assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:3000]
