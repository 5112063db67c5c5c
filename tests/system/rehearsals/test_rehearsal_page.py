"""The page of a rehearsal in a browser: alone, readable at every width, light, dark and printed."""

import asyncio
import re

import clouds
import pytest
from chromium import browse, chromium_path
from unit.cli.rehearse.sample_reports import REPORTS, SOME_FAIL
from unit.cli.test_page_palette import TEXT_RATIO, contrast

from tpuctl.cli.rehearse.html_report import html_text

pytestmark = pytest.mark.skipif(chromium_path() is None, reason="there is no Chromium")

BEGAN_S = 1_800_000_000.0
WIDTHS = (1280, 760, 360)
SCHEMES = ("light", "dark")
SMALLEST_PX = 12
TEXTS = """
[...document.querySelectorAll('body *')].filter(
  each => [...each.childNodes].some(n => n.nodeType == 3 && n.data.trim()) &&
          each.tagName != 'title' && each.getClientRects().length
).map(each => {
  const style = getComputedStyle(each), rect = each.getBoundingClientRect();
  let behind = each;
  while (behind && getComputedStyle(behind).backgroundColor == 'rgba(0, 0, 0, 0)')
    behind = behind.parentElement;
  return {
    text: each.textContent.trim().slice(0, 40),
    color: each.namespaceURI.endsWith('svg') ? style.fill : style.color,
    behind: getComputedStyle(behind || document.documentElement).backgroundColor,
    size: parseFloat(style.fontSize), left: rect.left, right: rect.right,
  };
})
"""

BREAKS = "[...document.querySelectorAll('section')].map(s => getComputedStyle(s).breakInside)"


def hex_of(color):
    red, green, blue = map(int, re.findall(r"\d+", color)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(report, id=name, marks=() if report is SOME_FAIL else clouds.MATRIX)
        for name, report in REPORTS.items()
    ],
)
def test_the_page_loads_nothing_and_every_text_can_be_read(report, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html_text(report, began_s=BEGAN_S), "utf-8")

    async def scenario():
        asked, problems = [], []
        async with browse() as tab:
            tab.listen("Network.requestWillBeSent", lambda told: asked.append(told["request"]))
            tab.listen("Runtime.exceptionThrown", problems.append)
            for scheme in SCHEMES:
                await tab.prefer(scheme)
                for width in WIDTHS:
                    await tab.resize(width)
                    await tab.go(page.as_uri())
                    texts = await tab.value(TEXTS)
                    assert len(texts) > 20
                    check_texts(texts, width)
                    assert await tab.value("document.documentElement.scrollWidth") <= width
        assert {each["url"] for each in asked} == {page.as_uri()}
        assert problems == []

    asyncio.run(scenario())


def check_texts(texts, width):
    pale = [
        each["text"] for each in texts
        if contrast(hex_of(each["color"]), hex_of(each["behind"])) < TEXT_RATIO
    ]  # fmt: skip
    assert pale == []
    assert [each["text"] for each in texts if each["size"] < SMALLEST_PX] == []
    shown = [each for each in texts if each["left"] > -100]  # headings are beside a narrow window
    assert [each["text"] for each in shown if each["left"] < -1 or each["right"] > width + 1] == []


def test_paper_is_light_and_each_run_stays_on_one_page_of_it(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html_text(SOME_FAIL, began_s=BEGAN_S), "utf-8")

    async def scenario():
        async with browse() as tab:
            await tab.go(page.as_uri())
            dark = {"name": "prefers-color-scheme", "value": "dark"}
            await tab.send("Emulation.setEmulatedMedia", media="print", features=[dark])
            ink = await tab.value("getComputedStyle(document.body).color")
            assert contrast(hex_of(ink), "#ffffff") > 15
            assert set(await tab.value(BREAKS)) == {"avoid"}
            printed = await tab.send("Page.printToPDF")
            assert printed["data"].startswith("JVBERi")  # %PDF in base64

    asyncio.run(scenario())


def test_a_screen_reader_is_told_what_each_picture_shows(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html_text(SOME_FAIL, began_s=BEGAN_S), "utf-8")

    async def scenario():
        async with browse() as tab:
            await tab.go(page.as_uri())
            nodes = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        named = [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in nodes
                 if not each["ignored"]]  # fmt: skip
        pictures = [name for role, name in named if role in ("image", "img")]
        assert len(pictures) == len(SOME_FAIL.verdicts) + 1
        assert all(name.startswith("attempt 1 ") for name in pictures)
        tables = [name for role, name in named if role == "table"]
        assert tables == ["Every moment, in the order in which it was tried"]

    asyncio.run(scenario())
