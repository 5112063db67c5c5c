"use strict";
// Keeps the sections of a page up to date with what the server sends, while the page is seen.
const content = document.getElementById("content");
const connection = document.getElementById("connection");
let source = null;

// What is in a section and can have the keyboard, by its place; a link also by where it leads.
const FOCUSABLE = "a[href], [tabindex]";
function focusOf(section) {
  const element = document.activeElement;
  if (!section.contains(element)) return null;
  return [element.getAttribute("href"), [...section.querySelectorAll(FOCUSABLE)].indexOf(element)];
}

function giveFocus(section, [href, index]) {
  const link = href && section.querySelector(`a[href="${CSS.escape(href)}"]`);
  (link ?? section.querySelectorAll(FOCUSABLE)[index])?.focus({ preventScroll: true });
}

// A log shows the line that was looked for, else its end.
function scrollLog(section, isAtEnd = true) {
  const log = section.querySelector(".log");
  const found = document.getElementById("found");
  if (log && found) log.scrollTop = found.offsetTop - log.offsetTop - log.clientHeight / 2;
  else if (log && isAtEnd) log.scrollTop = log.scrollHeight;
}

function isAtEnd(log) {
  return !log || log.scrollTop + log.clientHeight > log.scrollHeight - 30;
}

function replace(id, html) {
  const section = document.getElementById(id);
  if (!section || !("section" in section.dataset)) return;
  const focused = focusOf(section);
  const open = [...section.querySelectorAll("details")].map((each) => each.open);
  const wasAt = [...section.querySelectorAll(".mesh")].map((each) => each.scrollLeft);
  const wasAtEnd = isAtEnd(section.querySelector(".log"));
  section.innerHTML = html;
  scrollLog(section, wasAtEnd);
  section.querySelectorAll("details").forEach((each, index) => { each.open = open[index] ?? each.open; });
  section.querySelectorAll(".mesh").forEach((each, index) => { each.scrollLeft = wasAt[index] ?? 0; });
  if (focused) giveFocus(section, focused);
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

if (content) scrollLog(content);
if (content && "live" in content.dataset) {
  start();
  // A browser has six connections to a server: pages that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
}
