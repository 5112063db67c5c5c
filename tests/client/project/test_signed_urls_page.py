"""The programs of docs/signed-urls.md, run as they stand there."""

import base64
import json
import re
import subprocess
from pathlib import Path

from client.project.test_project_setup import send
from tpuctl.operations.local import local_cloud

__all__ = ["send"]

PAGE = (Path(__file__).parents[3] / "docs" / "signed-urls.md").read_text("utf-8")
BLOCKS = {
    language: re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    for language in ("bash", "python")
}


def test_the_programs_of_the_page_run(cloud, send, tmp_path, monkeypatch):
    exports = local_cloud.client_environment(cloud.line)
    for name in ("STORAGE_EMULATOR_HOST", "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM"):
        monkeypatch.setenv(name, exports[name])
    monkeypatch.chdir(tmp_path)
    subprocess.run(["bash", "-euc", BLOCKS["bash"][1]], check=True, timeout=30)
    assert json.loads(Path("key.json").read_text())["type"] == "service_account"
    sign, form, key, _boto3 = BLOCKS["python"]
    known = {}
    exec("\n".join([sign, form, key]), known)  # noqa: S102
    known["client"].close()
    assert len(base64.b64decode(known["secret"])) == 30


def test_every_refusal_of_the_page_is_one_of_the_tests():
    codes = re.findall(r"^\| (`.*?`) \| 4", PAGE, re.MULTILINE)
    named = {code for cell in codes for code in re.findall(r"`(\w+)`", cell)}
    tests = Path(__file__).parents[1] / "storage" / "signing"
    written = "".join(path.read_text("utf-8") for path in tests.glob("test_*.py"))
    assert {code for code in named if f'"{code}"' not in written} == set()
    assert len(named) == 10
