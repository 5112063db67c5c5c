"""What a load test sends, and which options are refused."""

import pytest

from tpuctl.errors import LocalIOError, NotFoundError, UsageError
from tpuctl.operations.load import load_plan
from tpuctl.operations.load.load_plan import LoadRequest, plan_load

ASKED = {
    "url": "http://127.0.0.1:8000/v1", "rates": "10", "duration_s": 5.0, "warm_up_s": 0.0,
    "deadline_s": 1.0, "max_in_flight": 8,
}  # fmt: skip


def planned(**asked):
    return plan_load(LoadRequest(**{**ASKED, **asked}))


def test_a_body_makes_it_a_post_of_json(tmp_path):
    bodies, token = tmp_path / "bodies", tmp_path / "token"
    bodies.write_bytes(b'{"a": 1}\n\n{"a": 2}\n')
    token.write_text("s3cret\n")
    plan, rates = planned(rates="1, 2.5", bodies_file=bodies, token_file=token, headers=["X-A: b"])
    assert (plan.method, plan.bodies, rates) == ("POST", (b'{"a": 1}', b'{"a": 2}'), [1.0, 2.5])
    assert plan.headers == {
        "Content-Type": "application/json", "X-A": "b", "Authorization": "Bearer s3cret",
    }  # fmt: skip
    plan, _ = planned(body_file=bodies, headers=["content-type: text/plain"], method="put")
    assert (plan.method, plan.bodies) == ("PUT", (bodies.read_bytes(),))
    assert plan.headers == {"Content-Type": "text/plain"}
    plan, _ = planned()
    assert (plan.method, plan.bodies, plan.headers) == ("GET", (), {})


def test_what_cannot_be_sent_is_refused(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("\n")
    refused = {
        "is not a URL of HTTP": {"url": "127.0.0.1:8000"},
        "'ftp://h/' is not a URL": {"url": "ftp://h/"},
        "'http://h:x/' is not a URL": {"url": "http://h:x/"},
        "a URL with a password": {"url": "http://me:pass@h/"},
        "--rate 'x' is not a list of numbers": {"rates": "x"},
        "--rate must be above 0 and at most 100,000": {"rates": "1,0"},
        "--rate must be above 0": {"rates": "nan"},
        "must be longer than 0s": {"duration_s": 0.0},
        "--header 'X' is not NAME:VALUE": {"headers": ["X"]},
        "--header 'X Y:1' is not NAME:VALUE": {"headers": ["X Y:1"]},
        "a token in an argument": {"headers": ["authorization: Bearer x"]},
        "--method 'A B' is not a method": {"method": "a b"},
        "--body and --bodies exclude": {"body_file": empty, "bodies_file": empty},
        "has 0 lines with a body": {"bodies_file": empty},
        "does not hold one line of text": {"token_file": empty},
    }
    for text, asked in refused.items():
        with pytest.raises(UsageError, match=text.replace("(", r"\(")):
            planned(**asked)
    with pytest.raises(NotFoundError, match="--body: there is no file"):
        planned(body_file=tmp_path / "none")


def test_bodies_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(load_plan, "MOST_BODY_BYTES", 10)
    monkeypatch.setattr(load_plan, "MOST_BODIES", 2)
    bodies = tmp_path / "bodies"
    bodies.write_text("1\n2\n3\n")
    with pytest.raises(UsageError, match="has 3 lines with a body, and 1 to 2"):
        planned(bodies_file=bodies)
    bodies.write_text("12345678901")
    with pytest.raises(LocalIOError, match="more than 10 bytes"):
        planned(body_file=bodies)
