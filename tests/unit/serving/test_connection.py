"""A connection with its clock in the test's hand: who is slow, idle or one too many is cut."""

import json
import re

from tpuctl.serving.http1.connection import HttpConnection, HttpLimits
from tpuctl.serving.program import TensorSpec
from tpuctl.serving.protocol.infer_request import LARGE_JSON_BYTES
from tpuctl.serving.protocol.model_documents import ModelInfo
from tpuctl.serving.protocol.protocol_error import ProtocolError
from tpuctl.serving.server.line_log import LineLog
from tpuctl.serving.server.model_server import ModelServer, ServerLoop, ServerPhase
from tpuctl.serving.server.server_options import ServerOptions
from unit.serving.test_batching import ManualClock, Model

LIMITS = HttpLimits(max_body_bytes=1000, max_total_bytes=1500, max_connections=2)


class Client:
    """The other end of a connection: what it was sent, and whether it was cut."""

    def __init__(self, server, clock):
        self.sent = b""
        self.is_closed = self.is_half_closed = False
        self.connection = HttpConnection(server, clock)
        self.connection.connection_made(self)

    def write(self, data):
        self.sent += data

    def write_eof(self):
        self.is_half_closed = True

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed

    abort = close

    def get_extra_info(self, name):
        return ("192.0.2.1", 4)

    def get_write_buffer_size(self):
        return 0

    def send(self, data):
        self.connection.receive(data)

    def status(self):
        return int(re.match(rb"HTTP/1.1 (\d+)", self.sent)[1])


class Server:
    """A model server without sockets."""

    def __init__(self):
        self.model = Model()
        self.clock = self.model.clock
        self.lines = []
        log = LineLog(self.lines.append, self.clock)
        self.scheduled, self.aside = [], []
        self.server = ModelServer(
            ServerOptions(),
            self.model.dispatcher,
            self.model.metrics,
            log,
            self.clock,
            ServerLoop(self.scheduled.append, lambda work, take: self.aside.append((work, take))),
        )
        self.server.limits = LIMITS

    def connect(self):
        return Client(self.server, self.clock)

    def serve(self, width):
        """Serve a model of rows of `width` numbers, whose bodies may be of any size."""
        inputs = {"x": TensorSpec("FP32", (-1, width))}
        self.server.limits = LIMITS._replace(max_body_bytes=10**8, max_total_bytes=10**9)
        self.server.show_model(ModelInfo("m", "1", inputs, {}))

    def run_aside(self):
        """What the thread of large bodies does next."""
        work, take = self.aside.pop(0)
        try:
            outcome = work()
        except ProtocolError as error:
            outcome = error
        take(outcome)

    def run_model(self):
        self.scheduled.pop(0)()
        self.model.run()

    def wait(self, seconds):
        self.clock.now_s += seconds
        for connection in list(self.server.connections):
            connection.check_time(self.clock.now_s)


def test_a_request_that_comes_byte_by_byte_is_cut():
    server = Server()
    for start in (b"GET /hea", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"):
        client = server.connect()
        client.send(start)
        server.wait(6)
        client.send(b"l")
        assert client.sent == b""
        server.wait(6)
        assert (client.status(), client.is_half_closed) == (408, True)
        client.send(b"more")
        server.wait(3)
        assert client.is_closed
        client.connection.connection_lost(None)
    assert server.server.connections == set()
    assert len(server.lines) == 2


def test_a_connection_is_kept_while_it_is_used():
    server = Server()
    client = server.connect()
    for _ in range(3):
        server.wait(60)
        client.send(b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n")
    assert client.sent.count(b'{"live": true}') == 3
    server.wait(60)
    assert not client.is_closed
    server.wait(20)
    assert client.is_closed


def test_a_client_that_does_not_take_its_answer_is_cut():
    server = Server()
    client = server.connect()
    client.connection.pause_writing()
    server.wait(15)
    client.connection.resume_writing()
    server.wait(15)
    assert not client.is_closed
    client.connection.pause_writing()
    server.wait(21)
    assert client.is_closed


def test_a_new_connection_takes_the_place_of_one_that_is_idle():
    server = Server()
    first = server.connect()
    server.clock.now_s += 1
    second = server.connect()
    second.connection.is_busy = True
    third = server.connect()
    assert (first.is_closed, second.is_closed, third.is_closed) == (True, False, False)
    third.connection.is_busy = True
    fourth = server.connect()
    assert (fourth.status(), b"Retry-After: 1\r\n" in fourth.sent) == (503, True)
    assert fourth.is_closed


def test_a_client_that_left_with_a_request_half_read_is_not_answered():
    client = Server().connect()
    client.close()
    client.send(b"damaged\r\n\r\n")
    assert client.sent == b""


def test_bodies_that_come_at_the_same_time_have_a_bound():
    server = Server()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n"
    first, second = server.connect(), server.connect()
    first.send(head)
    second.send(head)
    assert (second.status(), second.is_half_closed) == (503, True)
    first.connection.connection_lost(None)
    second.connection.connection_lost(None)
    third = server.connect()
    third.send(head + bytes(900))
    assert third.status() == 503  # the model is not loaded
    third.send(head)
    assert third.sent.count(b"HTTP/1.1") == 1


def test_a_model_that_does_not_come_back_makes_the_server_unready():
    server = Server()
    server.server.show_model(ModelInfo("m", "1", {}, {}))
    server.model.submit(1)
    server.model.dispatcher.start_batch()
    found = []
    for seconds in (1, 40):
        server.clock.now_s += seconds
        client = server.connect()
        client.send(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        found.append(client.status())
    assert found == [200, 503]


def test_answers_are_the_last_of_their_connection_when_the_server_drains():
    server = Server()
    client = server.connect()
    server.server.phase = ServerPhase.DRAINING
    client.send(b"GET /v2/health/ready HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (client.status(), client.is_closed) == (503, True)
    assert b"Connection: close" in client.sent


def test_errors_in_a_loop_do_not_fill_the_log():
    lines, clock = [], ManualClock()
    log = LineLog(lines.append, clock)
    for _ in range(100):
        log.error("a\nb")
    assert lines == ["a b"] * 20
    clock.now_s += 1
    log.error("c")
    assert lines[20:] == ["80 errors were not logged", "c"]


WIDTH = LARGE_JSON_BYTES // 4


def infer(rows, *, width=WIDTH, number=1.5):
    """A request with rows of one number again and again."""
    values = {"name": "x", "datatype": "FP32", "shape": [rows, width]}
    text = json.dumps({"inputs": [{**values, "data": [number] * (rows * width)}]}).encode()
    head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def test_others_are_answered_while_a_large_request_is_read_and_its_answer_written():
    server = Server()
    server.serve(WIDTH)
    large, other = server.connect(), server.connect()
    large.send(infer(1))
    assert len(server.aside) == 1, "its JSON is not read in the server's own thread"
    other.send(b"GET /v2/health/ready HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (other.status(), large.sent) == (200, b"")
    server.run_aside()
    server.run_model()
    assert large.sent == b"", "nor is its answer written there"
    other.sent = b""
    other.send(b"GET /v2/health/ready HTTP/1.1\r\nHost: h\r\n\r\n")
    assert other.status() == 200
    server.run_aside()
    assert large.status() == 200
    answer = json.loads(large.sent.partition(b"\r\n\r\n")[2])
    assert answer["outputs"][0]["data"] == [3.0] * WIDTH


def test_a_small_request_is_read_at_once():
    server = Server()
    server.serve(1)
    client = server.connect()
    client.send(infer(2, width=1))
    server.run_model()
    assert (client.status(), server.aside) == (200, [])


def test_a_large_request_that_is_wrong_is_refused_when_it_is_read():
    server = Server()
    server.serve(WIDTH)
    client = server.connect()
    client.send(infer(1, number="a"))
    assert client.sent == b""
    server.run_aside()
    assert (client.status(), server.server.is_at_rest) == (400, True)


def test_a_client_that_leaves_while_its_large_request_is_read_gets_no_turn():
    server = Server()
    server.serve(WIDTH)
    client = server.connect()
    client.send(infer(1))
    client.connection.connection_lost(None)
    server.run_aside()
    assert (server.scheduled, server.model.dispatcher.in_flight) == ([], 0)
