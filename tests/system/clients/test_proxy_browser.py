"""A browser in front of a proxy: streams, events, WebSockets, and a page of evil.example."""

import asyncio
import contextlib

import pytest
from chromium import browse, chromium_path
from client.proxy.engines import proxied

pytestmark = pytest.mark.skipif(chromium_path() is None, reason="Chromium is not installed")

FETCHED = """
fetch('/upload', {method: 'POST', body: 'question'}).then(answer => answer.text())
"""
EVENTS = """
new Promise((done, fail) => {
  const seen = [], source = new EventSource('/events?count=3');
  source.onmessage = event => { seen.push(event.data); if (seen.length == 3) {
    source.close(); done(seen.join()); } };
  source.onerror = () => fail('the stream broke');
})
"""
TALK = """
new Promise((done, fail) => {
  const talk = new WebSocket(`ws://${location.host}/ws`, ['v1.tokens']), seen = [];
  talk.onopen = () => { seen.push(talk.protocol); talk.send('hello'); };
  talk.onmessage = event => { seen.push(event.data); talk.send('close 4321'); };
  talk.onclose = event => done([...seen, event.code, event.reason].join());
  talk.onerror = () => fail('the socket broke');
})
"""
EVIL = "--host-resolver-rules=MAP evil.example 127.0.0.1"


def test_a_page_talks_to_the_engine_and_a_foreign_one_does_not():
    async def scenario():
        async with proxied() as (stand, [engine]), browse(EVIL) as tab:
            opening = asyncio.create_task(keep_open(engine))
            await tab.go(f"{stand.url}/x")
            assert await tab.value(FETCHED) == str(len("question"))
            assert await tab.value(EVENTS) == "0,1,2"
            assert await tab.value(TALK) == "v1.tokens,hello,4321,as you wish"
            before = engine.paths.total()
            foreign = f"http://evil.example:{stand.port}/x"
            await tab.go(foreign)
            assert "wrong_host" in await tab.value("document.body.innerText")
            sent = f"fetch('{stand.url}/x', {{mode: 'no-cors'}}).then(() => 1, () => 0)"
            await tab.value(sent)
            await tab.go("about:blank")
            assert engine.paths.total() == before
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await opening

    async def keep_open(engine):
        while True:
            engine.is_open.set()
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
