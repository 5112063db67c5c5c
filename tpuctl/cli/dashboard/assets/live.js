"use strict";
// Keeps the sections of a page up to date with what the server sends, while the page is seen.
const content = document.getElementById("content");
const connection = document.getElementById("connection");
let source = null;

// The element of a section that has the keyboard, named so that it is found again when it is new.
function focusOf(section) {
  const element = document.activeElement;
  return section.contains(element) ? element.getAttribute("href") : null;
}

function replace(id, html) {
  const section = document.getElementById(id);
  if (!section || !("section" in section.dataset)) return;
  const focused = focusOf(section);
  const open = [...section.querySelectorAll("details")].map((each) => each.open);
  section.innerHTML = html;
  section.querySelectorAll("details").forEach((each, index) => { each.open = open[index] ?? each.open; });
  if (focused) section.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

function stop() {
  source?.close();
  source = null;
}

function start() {
  if (source || document.hidden) return;
  source = new EventSource(location.href);
  source.addEventListener("sections", (event) => {
    connection.textContent = "";
    for (const [id, html] of Object.entries(JSON.parse(event.data))) replace(id, html);
    document.dispatchEvent(new Event("sections"));
  });
  source.addEventListener("trouble", (event) => { connection.textContent = JSON.parse(event.data); });
  source.addEventListener("over", stop);
  source.addEventListener("error", () => {
    connection.textContent = "not connected: is tpuctl dashboard running?";
  });
}

if (content && "live" in content.dataset) {
  start();
  // A browser has six connections to a server: pages that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
}
