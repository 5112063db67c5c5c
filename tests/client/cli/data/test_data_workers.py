"""`tpuctl data` to and from the workers of a slice: once to the bucket, then each fetches."""

import hashlib

import pytest

from client.cli.node.four_workers import BUCKET, bucket, on_workers, slice_of_four


@pytest.fixture(scope="module")
def four(manual_cloud):
    """`tpuctl` with one slice of four workers that all tests of this file share."""
    return slice_of_four(manual_cloud)


@pytest.fixture
def dataset(tmp_path):
    root = tmp_path / "dataset"
    (root / "deep").mkdir(parents=True)
    for index in range(6):
        (root / "deep" / f"{index}.bin").write_bytes(bytes([index]) * (1000 + index))
    (root / "empty").write_bytes(b"")
    return root


NAMES = [*(f"deep/{index}.bin" for index in range(6)), "empty"]


def names_on_workers(tpuctl, path, worker="all"):
    script = f"cd {path} && find . -type f | sed 's:^./::' | sort"
    return [text.split() for text in on_workers(tpuctl, script, worker)]


def keys(tpuctl, prefix=""):
    return tpuctl("data", "list", f"{BUCKET}/{prefix}", "-o", "json").json


def test_a_directory_is_pushed_once_every_worker_fetches_it_and_it_comes_back(
    four, dataset, tmp_path
):
    result = four("data", "push", str(dataset), "worker:n1:data/set", "-o", "json")
    assert result.code == 0, result.err
    assert result.json == [
        {
            "worker": number,
            "state": "DONE",
            "objects_copied": 7,
            "bytes_copied": 6015,
            "objects_skipped": 0,
            "error": None,
        }
        for number in range(4)
    ]
    assert result.err == ""  # the bucket is in the region of the slice
    assert names_on_workers(four, "data/set") == [NAMES] * 4
    staged = keys(four, "tpuctl/staging/")
    assert [row["size_bytes"] for row in staged] == [*range(1000, 1006), 0]
    again = four("data", "push", str(dataset), "worker:n1:data/set", "-o", "json")
    assert {(row["objects_copied"], row["objects_skipped"]) for row in again.json} == {(0, 7)}
    assert keys(four, "tpuctl/staging/") == staged
    one = four("data", "pull", "worker:n1/2:data/set", str(tmp_path / "one"), "-o", "json")
    assert one.json[0]["objects_copied"] == 7, one.err
    assert (tmp_path / "one/deep/5.bin").read_bytes() == (dataset / "deep/5.bin").read_bytes()
    again = four("data", "pull", "worker:n1/2:data/set", str(tmp_path / "one"), "-o", "json")
    assert (again.json[0]["objects_copied"], again.json[0]["objects_skipped"]) == (0, 7)
    assert four("data", "pull", "worker:n1:data/set/deep", str(tmp_path / "all")).code == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["0", "1", "2", "3"]
    assert (tmp_path / "all/3/0.bin").read_bytes() == (dataset / "deep/0.bin").read_bytes()


def test_what_is_in_a_bucket_already_is_not_uploaded_again(four, dataset):
    four("data", "push", str(dataset), f"{BUCKET}/there")
    before = keys(four)
    result = four("data", "push", f"{BUCKET}/there", "worker:n1/all:from-bucket", "-o", "json")
    assert [row["objects_copied"] for row in result.json] == [7] * 4
    assert keys(four) == before
    assert names_on_workers(four, "from-bucket") == [NAMES] * 4


def test_shards_are_disjoint_and_complete(four, dataset):
    result = four("data", "push", str(dataset), "worker:n1:shards", "--shard", "-o", "json")
    assert [row["objects_copied"] for row in result.json] == [2, 2, 2, 1]
    parts = names_on_workers(four, "shards")
    assert parts == [NAMES[0::4], NAMES[1::4], NAMES[2::4], NAMES[3::4]]


def test_workers_are_verified_and_with_shard_each_its_part(four, dataset):
    (dataset / "empty").unlink()
    for name in sorted(path.name for path in (dataset / "deep").iterdir())[3:]:
        (dataset / "deep" / name).unlink()
    four("data", "push", str(dataset), f"{BUCKET}/three")
    four("data", "push", f"{BUCKET}/three", "worker:n1:three", "--shard")
    sharded = four("data", "verify", f"{BUCKET}/three", "worker:n1:three", "--shard")
    assert (sharded.code, sharded.out) == (0, ""), sharded.err
    whole = four("data", "verify", "worker:n1/0:three", f"{BUCKET}/three", "-o", "json")
    assert whole.code == 50
    assert [(row["worker"], row["name"], row["verdict"]) for row in whole.json] == [
        (0, "deep/1.bin", "extra"),
        (0, "deep/2.bin", "extra"),
    ]


def test_a_worker_that_is_named_alone_gets_its_shard_again(four, dataset):
    four("data", "push", str(dataset), f"{BUCKET}/there")
    result = four("data", "push", f"{BUCKET}/there", "worker:n1/2:one-shard", "--shard")
    assert result.rows[0][:3] == ["2", "DONE", "2"]


def test_one_worker_is_served_through_ssh_and_nothing_goes_to_a_bucket(four, dataset):
    (dataset / "deep" / "0.bin").chmod(0o755)
    before = keys(four)
    result = four("data", "push", str(dataset), "worker:n1/3:by-ssh", "-o", "json")
    assert result.json[0]["objects_copied"] == 7, result.err
    assert keys(four) == before
    script = "cd by-ssh && sha256sum deep/5.bin && stat -c %a deep/0.bin"
    (text,) = on_workers(four, script, "3")
    assert text.split()[0] == hashlib.sha256((dataset / "deep/5.bin").read_bytes()).hexdigest()
    assert text.split()[2] == "755"
    (dataset / "deep" / "1.bin").write_bytes(b"changed")
    again = four("data", "push", str(dataset), "worker:n1/3:by-ssh", "-o", "json").json[0]
    assert (again["objects_copied"], again["objects_skipped"]) == (1, 6)


@pytest.mark.parametrize("worker", ["/1", "/0,1"])
def test_a_single_file_gets_the_name_it_is_given_or_keeps_its_own(four, dataset, worker):
    source = str(dataset / "deep" / "4.bin")
    assert four("data", "push", source, f"worker:n1{worker}:single/renamed").code == 0
    assert four("data", "push", source, f"worker:n1{worker}:single/").code == 0
    (found,) = on_workers(four, "ls single", "1")
    assert found.split() == ["4.bin", "renamed"]


def test_a_link_here_is_not_followed_by_what_a_worker_sends(four, dataset, tmp_path):
    four("data", "push", str(dataset), "worker:n1/0:back")
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "deep").symlink_to(outside)
    result = four("data", "pull", "worker:n1/0:back", str(target))
    assert result.code == 70
    assert list(outside.iterdir()) == []
    assert (target / "empty").exists()


def test_a_stream_goes_to_workers_and_comes_back(four):
    pushed = four("data", "push", "-", "worker:n1/2,3:stream/text", stdin="what was piped\n")
    assert pushed.code == 0, pushed.err
    back = four("data", "pull", "worker:n1/2:stream/text", "-")
    assert (back.code, back.out) == (0, "what was piped\n")


def test_names_that_lead_out_are_refused_on_the_worker_and_the_rest_is_delivered(
    four, manual_cloud
):
    store = bucket(manual_cloud)
    for name in ("../escape", "ok"):
        store.blob(f"odd/{name}").upload_from_string(b"x")
    result = four("data", "push", f"{BUCKET}/odd", "worker:n1/1,3:odd")
    assert result.code == 70
    assert "worker 3: ../escape: not copied: the name would lead out of the target" in result.err
    assert names_on_workers(four, "odd", "1,3") == [["ok"]] * 2


@pytest.mark.parametrize("worker", ["/0", "/0,1"])
def test_a_link_out_of_the_tree_is_refused_by_name_and_the_rest_is_delivered(four, dataset, worker):
    (dataset / "link").symlink_to("/etc/hostname")
    result = four("data", "push", str(dataset), f"worker:n1{worker}:linked")
    assert result.code == 70
    assert result.err.splitlines() == [
        f"warning: {dataset}/link: not copied: a symbolic link that leads out of the tree",
        "error: 1 name was refused",
        "hint: put right what the warnings name, or leave it out with --exclude",
    ]
    assert names_on_workers(four, "linked", "0") == [NAMES]


def test_a_worker_that_cannot_write_fails_alone_and_is_named(four, dataset):
    on_workers(four, "touch blocked", "2")
    result = four("data", "push", str(dataset), "worker:n1/1,2:blocked", "-o", "json")
    assert [row["state"] for row in result.json] == ["DONE", "FAILED"]
    assert result.code == 70
    assert result.err.splitlines()[0].startswith("warning: worker 2: ")
    assert '"error": "1 of 2 workers failed: 2"' in result.err


@pytest.mark.parametrize("worker", ["/0", "/0,1"])
def test_globs_and_the_ignore_file_count_for_workers_too(four, dataset, worker):
    (dataset / ".tpuctlignore").write_text("0.bin\n.tpuctlignore\n")
    argv = ("--include", "deep/*", "--exclude", "[345].bin")
    assert four("data", "push", str(dataset), f"worker:n1{worker}:some{worker}/", *argv).code == 0
    assert on_workers(four, f"ls some{worker}/deep", "0") == ["1.bin\n2.bin\n"]


@pytest.fixture
def faults(four):
    yield lambda text: four("local", "fault", text)
    four("local", "fault", "--clear")


def test_broken_streams_and_damaged_bytes_are_fetched_again(four, faults, manual_cloud):
    body = bytes(range(256)) * 4096
    bucket(manual_cloud).blob("large").upload_from_string(body)
    assert faults("storage.objects.get: return-broken-stream-after-256K x3").code == 0
    assert faults("storage.objects.get: corrupt bytes x1").code == 0
    result = four("data", "push", f"{BUCKET}/large", "worker:n1/0,1:faulty/")
    assert result.code == 0, result.err
    met = [row[1] for row in four("local", "fault").rows]
    assert met == ["3", "1"]
    digests = on_workers(four, "sha256sum faulty/large | cut -c-64", "0,1")
    assert digests == [f"{hashlib.sha256(body).hexdigest()}\n"] * 2


def test_a_dry_run_shows_who_would_get_what_and_sends_nothing(four, dataset):
    before = keys(four)
    result = four("data", "push", str(dataset), "worker:n1:dry", "--shard", "--dry-run")
    rows = result.rows
    assert rows[:2] == [["0", "dry/deep/0.bin", "1000"], ["0", "dry/deep/4.bin", "1004"]]
    assert len(rows) == 7
    assert keys(four) == before
    assert on_workers(four, "test -e dry && echo there || echo none") == ["none\n"] * 4


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("push", "x", "worker:n1"), 2, "'worker:n1' is not a place on workers"),
        (("push", f"{BUCKET}/a", f"{BUCKET}/b"), 2, "does not copy from gs:// to gs://"),
        (("push", "worker:n1:a", "worker:n1:b"), 2, "does not copy from worker: to worker:"),
        (("push", "worker:n1:a", "b"), 2, "data push does not copy from worker: to a path"),
        (("push", f"{BUCKET}/a", "b"), 2, "data push does not copy from gs:// to a path"),
        (("pull", "a", f"{BUCKET}/b"), 2, "data pull does not copy from a path to gs://"),
        (("pull", "a", "worker:n1:b"), 2, "data pull does not copy from a path to worker:"),
        (("pull", "worker:n1:a", "-"), 2, "several workers cannot share one stream"),
        (("push", "x", "worker:n1/9:b"), 2, "node 'n1' has no worker 9"),
        (("push", "x", "worker:nope:b"), 10, "there is no node 'nope' in us-west4-a"),
        (("push", "/no/such", "worker:n1:b"), 10, "there is no file or directory /no/such"),
        (("push", "/no/such", "worker:n1/0:b"), 10, "there is no file or directory /no/such"),
        (("push", f"{BUCKET}/no", "worker:n1:b"), 10, "nothing is under gs://local-bucket/no"),
        (("pull", "worker:n1/0:no/such", "x"), 10, "worker 0 has no no/such"),
        (("push", "x", f"{BUCKET}/x", "--shard"), 2, "--shard has no meaning here"),
        (("push", "x", "worker:n1:b", "--delete"), 2, "--delete has no meaning here"),
        (("push", "-", "worker:n1:b/"), 2, "a stream needs a name"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line_with_a_way_out(four, argv, code, message):
    result = four("data", *argv)
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
