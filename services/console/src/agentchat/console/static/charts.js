// Draw the data that the server wrote into data-chart with uPlot; one hover line spans all charts.
import { clock } from "./times.js";

const COLOURS = ["--accent", "--quiet", "--warn", "--good"]; // red is for failures
const plots = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function short(value) {
  if (value == null) return "";
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toFixed(1)}k`;
  return `${+value.toFixed(2)}`;
}

function before(seconds) {
  const minutes = Math.round(-seconds / 60);
  return minutes ? `-${minutes} min` : "now";
}

function options(chart, width) {
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--quiet"), grid, ticks: { show: false }, font: "11px system-ui" };
  return {
    width, height: 116, padding: [8, 14, 0, 0],
    cursor: { sync: { key: "now" }, points: { size: 5 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: { x: { time: false, range: (_, low) => [Math.min(low, -300), 0] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, size: 22, space: 56, incrs: [60, 120, 300, 600, 900, 1200], values: (_, marks) => marks.map(before) },
      { ...axis, size: 40, space: 28, values: (_, marks) => marks.map(short) },
    ],
    series: [
      { value: (_, x) => (x == null ? "" : clock(new Date(Date.now() + x * 1000))), label: "at" },
      ...chart.lines.map(([name], index) => ({
        label: name, stroke: colour(name.startsWith("failed") ? "--bad" : COLOURS[index]), width: 1.5, points: { show: false }, spanGaps: true,
        value: (_, value) => (value == null ? "" : `${short(value)} ${chart.unit}`),
      })),
    ],
  };
}

function draw(force) {
  for (const element of document.querySelectorAll("[data-chart]")) {
    const known = plots.get(element);
    if (!force && known?.text === element.dataset.chart) continue;
    const chart = JSON.parse(element.dataset.chart);
    const data = [chart.x, ...chart.lines.map(([, values]) => values)];
    if (known && !force) {
      known.plot.setData(data);
      known.text = element.dataset.chart;
      continue;
    }
    known?.plot.destroy();
    element.replaceChildren();
    plots.set(element, { plot: new uPlot(options(chart, element.clientWidth), data, element), text: element.dataset.chart });
  }
  for (const [element, { plot }] of plots) {
    if (!element.isConnected) {
      plot.destroy();
      plots.delete(element);
    }
  }
}

new ResizeObserver(() => {
  for (const [element, { plot }] of plots) plot.setSize({ width: element.clientWidth, height: 116 });
}).observe(document.getElementById("main"));
dark.addEventListener("change", () => draw(true));
document.addEventListener("htmx:after:swap", () => draw(false));
draw(false);
