"""The dashboard in a real browser: `pytest -m benchmark -s`; skips where there is no Chromium."""

import asyncio
import random

import pytest
from chromium import Tab, browse, chromium_path
from client.cli.dashboard.serving import served
from client.cli.job.job_records import T, attempt, job, put, store_of
from system.pictures.dashboard_pictures import sign_in

from benchmarks.measure import keep
from benchmarks.metrics.test_samples import SAMPLES_OF_AN_OBJECT, samples
from tpuctl.models.job import JobState
from tpuctl.packed_samples import pack

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(chromium_path() is None, reason="there is no Chromium"),
]

WORKERS = 256
ROUNDS = 7
FRAMES = """
window.slowest = 0;
let last = performance.now();
const tick = (now) => { slowest = Math.max(slowest, now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) longest = Math.max(longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""  # noqa: E501
"""The longest time between two frames, and the longest task of the page."""
TIMES = """JSON.stringify([
  performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  performance.getEntriesByType("navigation")[0].domInteractive,
])"""


@pytest.fixture
def link(cloud):
    """The link to a dashboard with a job of 256 workers, an hour of which is in the bucket."""
    store, noise = store_of(cloud.home), random.Random(7)
    put(store, job(state=JobState.SUCCEEDED, attempts=(attempt(worker_count=WORKERS),)))
    for worker in range(WORKERS):
        for half in range(2):
            rows = samples(T + 1800 * half, SAMPLES_OF_AN_OBJECT, noise)
            key = f"tpuctl/jobs/digits-1/metrics/a1/w{worker}/{round(1e3 * rows[0]['time_s']):015d}"
            store.put_if_absent(key, pack(rows))
    with served(cloud.home, T + 7200) as board:
        yield board.link


def test_a_job_of_256_workers_in_a_browser(link):
    found = asyncio.run(look(link))
    keep(
        f"dashboard: the page of a job of {WORKERS} workers in Chromium",
        "usable within 1 s, 200 KiB with all files, no frame over 100 ms",
        **found,
    )


async def look(link: str) -> dict[str, object]:
    """Load the page several times, each time without a cache."""
    painted, usable, drawn, frames, tasks = [], [], [], [], []
    async with browse() as tab:
        base = await sign_in(tab, link)
        await tab.send("Network.setCacheDisabled", cacheDisabled=True)
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=FRAMES)
        await tab.resize(1280)
        for _ in range(ROUNDS):
            size = await loaded_bytes(tab, f"{base}/jobs/digits-1")
            first_ms, usable_ms = await tab.value(f"({TIMES})".join(["JSON.parse(", ")"]))
            painted.append(round(first_ms))
            usable.append(round(usable_ms))
            drawn.append(round(await tab.value("performance.now()")))
            frames.append(round(await tab.value("slowest")))
            tasks.append(round(await tab.value("longest")))
        charts = await tab.value("document.querySelectorAll('figure').length")
    return {
        "kib_without_measurements": round(size / 1024, 1), "charts": charts,
        "first_paint_ms": painted, "usable_ms": usable, "all_charts_drawn_ms": drawn,
        "longest_frame_ms": frames, "longest_task_ms": tasks,
    }  # fmt: skip


async def loaded_bytes(tab: Tab, url: str) -> int:
    """Open a page and wait for its charts; the bytes of the page and its files."""
    sizes: dict[str, int] = {}
    urls: dict[str, str] = {}
    tab.listeners.clear()
    tab.listen(
        "Network.responseReceived",
        lambda told: urls.update({told["requestId"]: told["response"]["url"]}),
    )
    tab.listen(
        "Network.loadingFinished",
        lambda told: sizes.update({told["requestId"]: int(told["encodedDataLength"])}),
    )
    await tab.send("Page.navigate", url="about:blank")
    await tab.go(url)
    await tab.until("document.querySelector('[data-drawn]') !== null")
    return sum(size for key, size in sizes.items() if not urls.get(key, "").endswith("/samples"))
