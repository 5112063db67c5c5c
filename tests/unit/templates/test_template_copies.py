"""What templates share is the same in each, for each is a folder of its own."""

import gzip
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

TEMPLATES = Path(__file__).parents[3] / "templates"
ON_DIGITS = ("digits-jax", "keras", "tensorflow", "torch-gloo")
ENGINES = ("jax-generate", "openai-stub")
WITH_PYTHON = (*ON_DIGITS, "jax-transformer", *ENGINES)
ON_CHECKPOINTS = (*ON_DIGITS, "jax-transformer", "jax-generate")


@pytest.mark.parametrize("name", ON_DIGITS)
def test_every_framework_reads_the_same_digits(name):
    assert (TEMPLATES / name / "digits.py").read_bytes() == (
        TEMPLATES / "digits" / "digits.py"
    ).read_bytes()


def test_who_generates_has_the_model_of_who_trains():
    trained, used = (TEMPLATES / name / "model.py" for name in ("jax-transformer", "jax-generate"))
    assert used.read_bytes() == trained.read_bytes()


@pytest.mark.system
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_setup_touches_no_network_where_the_packages_are_there(name, tmp_path):
    """A stand-in for `python3` that imports anything; no other program is in sight."""
    job = yaml.safe_load((TEMPLATES / name / "job.yaml").read_text())
    assert "requires" not in job  # it runs on Google too
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n[ $# = 2 ] && [ $1 = -c ]\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", "-c", job["setup"]],
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.system
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_setup_makes_a_python_that_run_finds_where_they_are_not(name, tmp_path):
    """Stand-ins write down how they were called; the packages are not to be had."""
    job = yaml.safe_load((TEMPLATES / name / "job.yaml").read_text())
    calls = tmp_path / "calls"
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f"""#!/bin/bash
if [ "$1" = -c ]; then exit 1; fi
echo python3 "$@" >> {calls}
if [ "$1" = -m ]; then
    /bin/mkdir -p .uv/bin
    printf '#!/bin/bash\\necho uv "$@" >> {calls}\\n' > .uv/bin/uv
    /bin/chmod +x .uv/bin/uv
fi
""")
    python.chmod(0o755)
    environ = {"PATH": str(python.parent)}
    run = {"env": environ, "cwd": tmp_path, "check": True, "capture_output": True}
    subprocess.run(["/bin/bash", "-c", job["setup"]], **run)
    own = tmp_path / ".venv" / "bin" / "python3"
    own.parent.mkdir(parents=True)
    own.write_text(f"#!/bin/bash\necho own python3 $@ >> {calls}\n")
    own.chmod(0o755)
    environ["PORT"] = "8000"
    started_by = job["run"] if "run" in job else job["serve"]["command"]
    subprocess.run(["/bin/bash", "-c", started_by], **run)
    installed, made, filled, started = calls.read_text().splitlines()
    assert installed == "python3 -m pip install --target .uv uv"
    assert made == "uv venv --python >=3.11,<3.14 .venv"
    assert filled.startswith("uv pip install --python .venv ")
    assert filled.endswith(" -r requirements.txt")
    engine = "engine.py --port 8000 --shutdown-timeout 25 --lame-duck 3"
    assert started == f"own python3 {engine if name in ENGINES else 'train.py'}"


@pytest.mark.parametrize("name", ON_CHECKPOINTS)
def test_the_requirements_have_what_checkpoints_need(name):
    """In the versions that tpuctl itself asks for: the library comes without them."""
    project = tomllib.loads((TEMPLATES.parent / "pyproject.toml").read_text())["project"]
    needed = [
        each
        for each in project["dependencies"]
        if each.startswith(("google-cloud-storage", "google-crc32c", "numpy", "safetensors"))
    ]
    assert len(needed) == 4
    assert set(needed) <= set((TEMPLATES / name / "requirements.txt").read_text().splitlines())


def test_the_text_is_the_poem():
    data = TEMPLATES / "jax-transformer" / "data" / "paradise-lost.txt.gz"
    text = gzip.decompress(data.read_bytes()).decode("ascii")
    assert len(text) == 456_804
    assert text.startswith("Book I\n\nOf Man's first disobedience, and the fruit\n")
    assert text.endswith("Through Eden took their solitary way.\n")
    assert "Gutenberg" not in text
