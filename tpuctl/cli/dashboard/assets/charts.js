"use strict";
// Draws what the workers measured, with uPlot: a line for each worker and attempt.
const HEIGHT = 190;
const AGAIN_MS = 10000;
const COLORS = 8;
const BAD = ["preempted", "failed", "hung", "lost", "refused"];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const element = (name, text, className) => {
  const made = document.createElement(name);
  made.textContent = text ?? "";
  if (className) made.className = className;
  return made;
};
const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19);
const DAY_S = 86400;
// Times of the axis: hours and minutes, with the day where there are several.
function axisTimes(plot, times) {
  const [from, to] = [plot.scales.x.min, plot.scales.x.max];
  const start = to - from > DAY_S ? 5 : 11;
  const end = to - from < 300 ? 19 : 16;
  return times.map((time) => new Date(time * 1000).toISOString().slice(start, end).replace("T", " "));
}
const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

// The values of a line on all times: undefined has no point, and null breaks the line.
function onTimes(line, count) {
  const values = new Array(count);
  line.values.forEach((value, index) => { if (value !== null) values[line.first + index] = value; });
  line.gaps.forEach((index) => { values[index] = null; });
  return values;
}

// When attempts began and how they ended, as lines from top to bottom.
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const mark of marks) {
    const x = plot.valToPos(mark.time, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const isBad = BAD.includes(mark.kind);
    ctx.strokeStyle = ctx.fillStyle = color(isBad ? "bad" : "muted");
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isLeft = mark.kind !== "start";
    ctx.textAlign = isLeft ? "right" : "left";
    ctx.fillText(mark.text, x + (isLeft ? -3 : 3), bbox.top + 11 * devicePixelRatio);
  }
  ctx.restore();
}

// The values at the cursor, or the newest ones; a line that has none there is left out.
function valuesText(chart, data, index) {
  const shown = chart.lines.map((line, number) => [line.label, data[number + 1][index]]);
  const known = shown.filter(([, value]) => value !== undefined && value !== null);
  const text = known.map(([label, value]) => `${label} ${value}`).join(", ");
  return text ? `${clock(data[0][index])} UTC: ${text}` : `${clock(data[0][index])} UTC: not measured`;
}

// What the lines say, for those who do not see the picture: from, to and the newest value of each.
function wordsOf(chart) {
  const lines = chart.lines.map((line) => {
    const values = line.values.filter((value) => value !== null);
    const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    return values.length ? `attempt ${line.attempt}, ${line.label}: ${low} to ${high}, last ${values.at(-1)}` : `${line.label}: not measured`;
  });
  return `${titleOf(chart)}. ${lines.join("; ")}. Arrow keys read single times, plus and minus zoom.`;
}

// Keys do what the pointer does: they move the cursor, zoom around it, and show all again.
function onKey(plot, event) {
  const times = plot.data[0];
  const last = times.length - 1;
  const at = plot.cursor.idx ?? last;
  const moves = { ArrowLeft: Math.max(0, at - 1), ArrowRight: Math.min(last, at + 1), Home: 0, End: last };
  if (event.key in moves) {
    plot.setCursor({ left: plot.valToPos(times[moves[event.key]], "x"), top: 1 });
  } else if (event.key === "+" || event.key === "-") {
    const { min, max } = plot.scales.x;
    const half = (max - min) * (event.key === "+" ? 0.25 : 1);
    const from = Math.max(times[0], times[at] - half);
    plot.setScale("x", { min: from, max: Math.max(from + 1, Math.min(times[last], times[at] + half)) });
  } else if (event.key === "Escape") {
    plot.setScale("x", { min: times[0], max: times[last] });
  } else {
    return;
  }
  event.preventDefault();
}

// The newest time at which any line has a value: workers are not measured at the same moments.
function newestIndex([times, ...lines]) {
  let index = times.length - 1;
  while (index > 0 && lines.every((line) => line[index] === undefined || line[index] === null)) index -= 1;
  return index;
}

function axis(more) {
  return { stroke: color("muted"), grid: { stroke: color("raised") }, ticks: { stroke: color("line") }, ...more };
}

function makeChart(figure, chart, state) {
  const data = dataOf(chart, state);
  const caption = figure.querySelector("figcaption span");
  const show = (plot) => { caption.textContent = valuesText(chart, plot.data, plot.cursor.idx ?? newestIndex(plot.data)); };
  const options = {
    width: figure.clientWidth, height: HEIGHT, legend: { show: false },
    cursor: { sync: { key: "charts" }, drag: { x: true, y: false } },
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
    scales: {
      // Of a single time uPlot would show years.
      x: { range: (plot, from, to) => (plot.data[0].length === 1 || from === to ? [from - 30, from + 30] : [from, to]) },
      y: chart.unit === "%" ? { range: [0, 100] } : {},
    },
    axes: [axis({ values: axisTimes, space: 70 }), axis({ size: 56 })],
    series: [{}, ...chart.lines.map((line) => ({
      label: line.label, stroke: color(`series-${state.labels.indexOf(line.label) % COLORS}`), width: 1.5,
      points: { show: data[0].length < 40 },
    }))],
    hooks: { draw: [(plot) => drawMarks(plot, state.marks)], setCursor: [show], setData: [show] },
  };
  const picture = figure.querySelector("div");
  const plot = new uPlot(options, data, picture);
  picture.addEventListener("keydown", (event) => onKey(plot, event));
  show(plot);
  return plot;
}

function dataOf(chart, state) {
  return [state.times, ...chart.lines.map((line) => onTimes(line, state.times.length))];
}

// New values leave a part alone that somebody has zoomed into.
function setValues(plot, data) {
  const { min, max } = plot.scales.x;
  const isZoomed = plot.data[0].length > 1 && (min > plot.data[0][0] || max < plot.data[0].at(-1));
  plot.setData(data, !isZoomed);
  if (isZoomed) plot.setScale("x", { min, max });
}

function legend(labels) {
  const list = element("ul", "", "legend");
  labels.forEach((label, index) => {
    const item = element("li");
    item.append(element("span", "", `swatch series-${index % COLORS}`), ` ${label}`);
    list.append(item);
  });
  return list;
}

const titleOf = (chart) => (chart.unit ? `${chart.title}, ${chart.unit}` : chart.title);

function figureOf(chart) {
  const figure = element("figure");
  const caption = element("figcaption");
  const values = element("span", "", "muted");
  caption.append(element("b", titleOf(chart)), " ", values);
  const picture = element("div");
  Object.assign(picture, { tabIndex: 0, role: "img", ariaLabel: wordsOf(chart) });
  // The values are read aloud while keys move the cursor, not whenever there are new ones.
  picture.addEventListener("focus", () => { values.ariaLive = "polite"; });
  picture.addEventListener("blur", () => { values.ariaLive = "off"; });
  figure.append(caption, picture);
  return figure;
}

class Board {
  constructor(box) {
    this.box = box;
    this.plots = [];
    this.looked = 0;
  }

  // What the lines are: as long as it stays the same, only their values are new.
  shape(state) {
    return JSON.stringify(state.charts.map((chart) => [chart.title, chart.lines.map((line) => [line.attempt, line.label])]));
  }

  async look() {
    if (this.busy || this.state?.over || Date.now() - this.looked < AGAIN_MS) return;
    this.busy = true;
    this.looked = Date.now();
    try {
      const answer = await fetch(this.box.dataset.charts);
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const state = await answer.json();
      state.labels = [...new Set(state.charts.flatMap((chart) => chart.lines.map((line) => line.label)))];
      const isSame = this.state && this.shape(state) === this.shape(this.state);
      this.state = state;
      await (isSame ? this.update() : this.draw());
    } catch (error) {
      if (!this.state) this.box.textContent = `No measurements: ${error.message}.`;
    } finally {
      this.busy = false;
    }
  }

  async update() {
    for (const [index, chart] of this.state.charts.entries()) {
      if (!this.plots[index]) return; // drawn anew just now
      setValues(this.plots[index], dataOf(chart, this.state));
      this.plots[index].root.parentElement.ariaLabel = wordsOf(chart);
      await frame();
    }
  }

  async draw() {
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
    const { charts, labels, missing } = this.state;
    const lines = missing.map((text) => element("p", text, "missing"));
    if (!charts.length) lines.push(element("p", "Nothing has been measured yet.", "muted"));
    this.box.replaceChildren(...lines, ...(charts.length ? [legend(labels)] : []));
    const figures = charts.map(figureOf);
    const grid = element("div", "", "figures");
    grid.append(...figures);
    this.box.append(grid);
    const turn = this.turn = (this.turn ?? 0) + 1;
    for (const [index, chart] of charts.entries()) {
      if (turn !== this.turn) return; // drawn anew meanwhile, in other colours
      this.plots.push(makeChart(figures[index], chart, this.state));
      await frame(); // one picture at a time: the page stays usable
    }
    this.box.dataset.drawn = charts.length;
  }

  fit() {
    this.plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: HEIGHT }));
  }
}

document.querySelectorAll("[data-charts]").forEach((box) => {
  const board = new Board(box);
  board.look();
  document.addEventListener("sections", () => board.look());
  new ResizeObserver(() => board.fit()).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => board.state && board.draw());
});
