"""Who may see the dashboard and change something: hostile requests, word for word."""

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from client.cli.dashboard.serving import Browser, served
from tpuctl.cli.web.html import tag

EVIL = "http://evil.example"


def test_the_link_works_once_and_gives_a_cookie_that_scripts_and_other_sites_do_not_get(
    board, stranger
):
    link = board.link
    first = stranger.get(link.removeprefix(stranger.origin))
    cookie, *rules = first.headers["set-cookie"].split("; ")
    assert (first.status, rules) == (200, ["HttpOnly", "Path=/", "SameSite=Strict"])
    again = stranger.get(link.removeprefix(stranger.origin))
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    assert stranger.get("/").status == 401
    assert stranger.get("/", Cookie=cookie).status == 200
    assert stranger.sign_in(board.link).status == 200
    assert stranger.headers["Cookie"] != cookie


def test_who_has_clicked_on_the_link_in_another_page_is_let_in(board, stranger):
    clicked = {
        "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document",
    }  # fmt: skip
    link = board.link.removeprefix(stranger.origin)
    assert stranger.get("/", **clicked).status == 403
    assert stranger.get(link, **{**clicked, "Sec_Fetch_Dest": "iframe"}).status == 403
    assert stranger.get(link, **clicked).status == 200


@pytest.mark.parametrize("path", ["/", "/assets/live.js", "/jobs/digits-1", "/nothing"])
def test_nobody_sees_anything_without_the_cookie(stranger, path):
    assert stranger.get(path).status == 401
    assert stranger.get(path, Cookie=f"tpuctl-dashboard-{stranger.port}=guess").status == 401


HOSTILE_READS = [
    {"Host": "evil.example:{}"},
    {"Host": "127.0.0.1"},
    {"Host": "127.0.0.1.evil.example:{}"},
    {"Host": ""},
    {"Host": None},
    {"Host": "127.0.0.1:{}\r\nHost: evil.example"},
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost:{}"},
    {"Origin": "https://127.0.0.1:{}"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"},
]


def test_a_page_of_another_site_reads_nothing_even_with_the_cookie(browser):
    for headers in HOSTILE_READS:
        filled = {k: v and v.replace("{}", str(browser.port)) for k, v in headers.items()}
        for path in ("/", "/login?code=x", "/assets/live.js"):
            answer = browser.get(path, **filled)
            assert answer.status in (400, 403), (headers, path)
            assert not any(key.startswith("access-control") for key in answer.headers), headers
    assert browser.get("/").status == 200


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "HEAD", "TRACE"])
def test_a_preflight_and_other_methods_are_refused(browser, method):
    asked = {"Origin": browser.origin, "Access-Control-Request-Method": "POST"}
    answer = browser.send(method, "/", "", asked)
    assert answer.status == 405
    assert not any(key.startswith("access-control") for key in answer.headers)


@pytest.mark.parametrize("path", ["/", "/login", "/nothing", "/assets/live.js", "/assets/no.js"])
def test_every_answer_lets_the_browser_load_nothing_from_elsewhere(browser, path):
    for answer in (browser.get(path), browser.get(path, Origin=EVIL)):
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert {"base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"} < set(policy)
        assert "unsafe" not in answer.headers["content-security-policy"]
        kept = ("x-content-type-options", "referrer-policy", "cache-control", "x-frame-options")
        assert [answer.headers[key] for key in kept] == [
            "nosniff", "same-origin", "no-store", "DENY",
        ]  # fmt: skip


def test_files_are_named_on_a_list_and_no_path_leads_out(browser):
    assert browser.get("/assets/uplot/uPlot.min.css").status == 200
    for name in ("../server.py", "%2e%2e/server.py", "..%2fserver.py", "/etc/passwd", "uplot"):
        assert browser.get(f"/assets/{name}").status == 404, name


def raw_answers(port: int, request: str) -> list[int]:
    """The statuses of what the server sends until it closes or has nothing more to say."""
    told = b""
    # It may close before it has read all.
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
    ):
        connection.sendall(request.encode("latin-1"))
        while block := connection.recv(65536):
            told += block
    return [int(status) for status in re.findall(rb"^HTTP/1\.[01] (\d{3})", told, re.MULTILINE)]


def hostile_requests(browser: Browser) -> dict[str, str]:
    """What no browser sends: other hosts, two lengths, a second request hidden in the first, …"""
    kept = "".join(f"{key}: {value}\r\n" for key, value in browser.headers.items())
    head = f"{kept}Connection: close\r\n"
    form = f"Origin: {browser.origin}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    hidden = f"GET / HTTP/1.1\r\n{head}\r\n"
    empty = "0\r\n\r\n"
    post = f"POST /jobs/live-1/cancel HTTP/1.1\r\n{head}{form}"
    return {
        "another host before the path": f"GET {EVIL}/ HTTP/1.1\r\n{head}\r\n",
        "this host before the path": f"GET {browser.origin}/ HTTP/1.1\r\n{head}\r\n",
        "a tunnel": f"CONNECT evil.example:443 HTTP/1.1\r\n{head}\r\n",
        "no host": "GET /metrics HTTP/1.0\r\n\r\n",
        "length and chunks": f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        f"{empty}{hidden}",
        "two lengths": f"{post}Content-Length: 0\r\nContent-Length: 200\r\n\r\n{hidden}",
        "a length with a sign": f"{post}Content-Length: +0\r\n\r\n{hidden}",
        "chunks of another kind": f"{post}Transfer-Encoding: xchunked\r\n\r\n{empty}{hidden}",
        "a space before the colon": f"{post}Transfer-Encoding : chunked\r\n\r\n{empty}{hidden}",
        "a folded header": f"GET / HTTP/1.1\r\nX: a\r\n b\r\n{head}\r\n",
        "lines without a return": f"GET / HTTP/1.1\n{head}\n\n",
        "a zero byte": f"GET /\0 HTTP/1.1\r\n{head}\r\n",
        "a long header": f"GET / HTTP/1.1\r\nX: {'x' * 100_000}\r\n{head}\r\n",
        "a long cookie": f"GET / HTTP/1.1\r\n{head}Cookie: {'x' * 100_000}\r\n\r\n",
        "a long path": f"GET /{'x' * 100_000} HTTP/1.1\r\n{head}\r\n",
        "a million bytes in a form": f"{post}Content-Length: 1000000\r\n\r\n{'x' * 1_000_000}",
        "a path that leads out": f"GET /jobs/..%2f..%2fetc%2fpasswd HTTP/1.1\r\n{head}\r\n",
        "a path with a zero": f"GET /nodes/..%2f/%00 HTTP/1.1\r\n{head}\r\n",
        "TLS": "\x16\x03\x01\x02\x00\x01\r\n\r\n",
    }


def test_requests_that_no_browser_sends_are_refused_and_nothing_hidden_in_them_is_answered(browser):
    answers = {
        why: raw_answers(browser.port, text) for why, text in hostile_requests(browser).items()
    }
    wrong = {
        why: statuses
        for why, statuses in answers.items()
        if len(statuses) > 1 or not set(statuses) <= {400, 403, 404, 405, 413}
    }
    assert wrong == {}
    assert browser.get("/").status == 200


def test_the_cookie_of_another_run_is_worth_nothing(cloud, browser, stranger):
    with served(cloud.home, 0.0) as other:
        elsewhere = Browser(other.port)
        elsewhere.sign_in(other.link)
        assert elsewhere.get("/cost").status == 200
        token = elsewhere.headers["Cookie"].partition("=")[2]
        for name in (f"tpuctl-dashboard-{other.port}", f"tpuctl-dashboard-{browser.port}"):
            assert stranger.get("/", Cookie=f"{name}={token}").status == 401
        assert elsewhere.get("/cost", Cookie=browser.headers["Cookie"]).status == 401


def test_who_sends_slowly_or_reads_nothing_holds_up_nobody_else(board, browser):
    head = "".join(f"{key}: {value}\r\n" for key, value in browser.headers.items())
    live = f"GET / HTTP/1.1\r\n{head}Accept: text/event-stream\r\n\r\n"
    form = f"POST / HTTP/1.1\r\n{head}Origin: {browser.origin}\r\nContent-Length: 9\r\n"
    with contextlib.ExitStack() as stack:
        for begun in ["G", "GET / HTTP/1.1\r\nHo", form, live] * 20:
            connection = socket.create_connection(("127.0.0.1", board.port), timeout=20)
            stack.enter_context(connection).sendall(begun.encode())
        assert browser.get("/cost").status == 200


def test_a_browser_that_goes_in_the_middle_of_live_sections_is_forgotten(board, browser):
    looks = []

    async def pause(_seconds):
        looks.append(time.monotonic())
        await asyncio.sleep(0.01)

    board.pause = pause
    head = "".join(f"{key}: {value}\r\n" for key, value in browser.headers.items())
    with socket.create_connection(("127.0.0.1", board.port), timeout=20) as connection:
        connection.sendall(
            f"GET /cost HTTP/1.1\r\n{head}Accept: text/event-stream\r\n\r\n".encode()
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert connection.recv(65536)
    deadline_s = time.monotonic() + 20
    while not looks or looks[-1] > time.monotonic() - 0.5:
        assert time.monotonic() < deadline_s, len(looks)
        time.sleep(0.05)
    assert browser.get("/cost").status == 200


def test_what_an_element_holds_is_escaped_and_no_element_runs_a_script():
    evil = "<script>alert(1)</script>"
    assert tag("p", evil, title='">') == (
        '<p title="&quot;&gt;">&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    )
    assert tag("p", tag("b", "a") + evil).count("<b>") == 0  # such a sum is a plain text
    for key in ("style", "onclick"):
        with pytest.raises(ValueError, match=key):
            tag("p", **{key: "x"})


def test_it_listens_to_this_machine_alone_and_ctrl_c_ends_it(cloud):
    argv = [sys.executable, "-P", "-m", "tpuctl", "dashboard", "--no-open"]
    with subprocess.Popen(
        argv, env={"TPUCTL_HOME": str(cloud.home)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        link = process.stdout.readline().strip()
        port = int(re.match(r"http://127\.0\.0\.1:(\d+)/login\?code=[\w-]{43}$", link)[1])
        with urllib.request.urlopen(link, timeout=20) as answer:
            assert answer.status == 200
        rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
        listening = [row.split() for row in rows]
        assert [w[1] for w in listening if w[3] == "0A" and w[1].endswith(f":{port:04X}")] == [
            f"0100007F:{port:04X}"
        ]
        reader = socket.create_connection(("127.0.0.1", port))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        reader.close()
    assert (process.returncode, out) == (130, "")
    assert re.sub(r"code=\S+", "code=C", err) == (
        f"opened; the link for another browser: http://127.0.0.1:{port}/login?code=C\n\ninterrupted\n"
    )


def test_a_port_in_use_is_one_line(tpuctl):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = tpuctl("dashboard", "--port", str(port))
    assert (ended.code, ended.err) == (
        60,
        f"error: cannot listen on 127.0.0.1:{port}: address already in use\n"
        "hint: let a free port be chosen: tpuctl dashboard --port 0\n",
    )
