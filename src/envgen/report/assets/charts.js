// Charts and the theme. Texts are only ever set as text.
"use strict";

const root = document.documentElement;
const read = (element) => JSON.parse(element.textContent);
const make = (name, className, text) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const styles = () => getComputedStyle(root);

// --- numbers

function formatLarge(value) {
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (+size.toPrecision(3) >= limit) return +(value / limit).toPrecision(3) + " " + unit;
  }
  return String(+value.toPrecision(4));
}

function formatValue(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 10000 ? formatLarge(value) : String(+value.toPrecision(3));
}

// --- charts

const charts = [];

// Patterns of lines, so that curves can be told apart without their colors.
const PATTERNS = [[], [10, 4], [2, 3], [10, 3, 2, 3], [5, 3], [14, 3, 2, 3, 2, 3], [6, 2, 2, 2], [16, 5]];

function patternOf(curve, spec) {
  if (spec.series.length === 1) return [];
  return PATTERNS[(curve.color + (curve.dash ? 3 : 0)) % PATTERNS.length]; // `dash`: another curve has this color
}

function drawChart(figure) {
  const spec = read(figure.querySelector("script"));
  const chart = { figure, spec, hidden: new Set(), plot: null };
  charts.push(chart);
  buildLegend(chart);
  createPlot(chart);
  addKeyboard(chart);
  addDataTable(chart);
  new ResizeObserver(() => {
    const width = chart.figure.querySelector(".plot").clientWidth;
    if (chart.plot && width > 0 && Math.abs(chart.plot.width - width) > 1) chart.plot.setSize({ width, height: 250 });
  }).observe(figure);
}

function createPlot(chart) {
  const { figure, spec } = chart;
  const style = styles();
  const ink = style.getPropertyValue("--muted").trim();
  const grid = style.getPropertyValue("--line").trim();
  const series = [{}];
  const bands = [];
  const data = [spec.x];
  spec.series.forEach((curve, k) => {
    const color = style.getPropertyValue("--c" + curve.color).trim();
    const show = !chart.hidden.has(k);
    const hasPoints = curve.points || curve.y.filter((y) => y !== null).length < 3;
    series.push({
      label: curve.label, stroke: color, width: 2, show, spanGaps: true, dash: patternOf(curve, spec),
      points: { show: hasPoints, size: 7, fill: style.getPropertyValue("--surface").trim(), stroke: color, width: 2 },
    });
    data.push(curve.y);
    if (curve.low && curve.low.some((value) => value !== null)) {
      for (const end of [curve.low, curve.high]) {
        series.push({ label: "", stroke: "transparent", width: 0, show, spanGaps: true, points: { show: false } });
        data.push(end);
      }
      bands.push({ series: [data.length - 1, data.length - 2], fill: color + "2b" });
    }
  });
  const plotElement = figure.querySelector(".plot");
  const axis = { stroke: ink, font: "12px system-ui, sans-serif", grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  const options = {
    width: Math.max(200, plotElement.clientWidth),
    height: 250,
    series,
    bands,
    legend: { show: false },
    focus: { alpha: 0.25 },
    cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 } },
    scales: { x: { time: false }, y: { range: (plot, low, high) => yRange(spec, low, high) } },
    axes: [
      { ...axis, size: 34, space: 64, values: (plot, values) => values.map(formatLarge), label: spec.xLabel,
        labelSize: 20, labelFont: "12px system-ui, sans-serif" },
      { ...axis, size: 52, values: (plot, values) => values.map(formatValue), label: spec.yLabel, labelSize: 20,
        labelFont: "12px system-ui, sans-serif" },
    ],
    hooks: {
      drawClear: [(plot) => drawBackground(plot, spec, style)],
      draw: [(plot) => { drawLines(plot, spec, style); markFirstChart(); }],
      setCursor: [(plot) => showValues(chart, plot.cursor.idx)],
    },
  };
  if (chart.plot) chart.plot.destroy();
  chart.plot = new uPlot(options, data, plotElement);
  showValues(chart, null);
}

function yRange(spec, low, high) {
  if (low === null || high === null) return [0, 1];
  for (const [value] of spec.lines) { low = Math.min(low, value); high = Math.max(high, value); }
  if (spec.fromZero) low = Math.min(0, low);
  const span = high - low || Math.abs(high) || 1;
  return [spec.fromZero && low === 0 ? 0 : low - 0.06 * span, high + 0.08 * span];
}

function drawBackground(plot, spec, style) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = style.getPropertyValue("--shade").trim();
  for (const [from, to] of spec.shades) {
    const left = Math.max(bbox.left, plot.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, "x", true));
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.restore();
}

function drawLines(plot, spec, style) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = style.getPropertyValue("--ink").trim();
  ctx.lineWidth = devicePixelRatio;
  ctx.font = 11 * devicePixelRatio + "px system-ui, sans-serif";
  ctx.textAlign = "right";
  for (const [value, label] of spec.lines) {
    const y = plot.valToPos(value, "y", true);
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.fillText(label, bbox.left + bbox.width - 4 * devicePixelRatio, y - 4 * devicePixelRatio);
  }
  ctx.restore();
}

let hasFirstChart = false;
function markFirstChart() {
  if (!hasFirstChart) performance.mark("first-chart");
  hasFirstChart = true;
}

function buildLegend(chart) {
  const legend = chart.figure.querySelector(".legend");
  chart.position = make("span", "position");
  chart.values = chart.spec.series.map((curve, k) => {
    const button = make("button", "c" + curve.color);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.title = "Show or hide";
    const value = make("b");
    button.append(lineSample(patternOf(curve, chart.spec)), make("span", "", curve.label), value);
    button.addEventListener("click", () => {
      const hide = !chart.hidden.has(k);
      if (hide) chart.hidden.add(k); else chart.hidden.delete(k);
      button.setAttribute("aria-pressed", String(!hide));
      createPlot(chart);
    });
    const focus = (on) => chart.plot.setSeries(on ? seriesIndex(chart, k) : null, { focus: on });
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => focus(true));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => focus(false));
    legend.append(button);
    return value;
  });
  legend.append(chart.position);
}

function lineSample(pattern) {
  const [svg, line] = ["svg", "line"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  svg.setAttribute("class", "line-sample");
  svg.setAttribute("aria-hidden", "true");
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 4, y2: 4 })) line.setAttribute(name, value);
  line.setAttribute("stroke-dasharray", pattern.join(" ") || "none");
  svg.append(line);
  return svg;
}

function seriesIndex(chart, k) {
  const hasBand = (curve) => curve.low && curve.low.some((value) => value !== null);
  return 1 + k + 2 * chart.spec.series.slice(0, k).filter(hasBand).length;
}

function showValues(chart, index) {
  const last = index === null || index === undefined;
  chart.spec.series.forEach((curve, k) => {
    const value = last ? curve.y.filter((y) => y !== null).at(-1) : curve.y[index];
    chart.values[k].textContent = formatValue(value);
  });
  chart.position.textContent = last ? "" : "at " + formatLarge(chart.spec.x[index]) + " " + chart.spec.xLabel;
}

function addKeyboard(chart) {
  const element = chart.figure.querySelector(".plot");
  let index = -1;
  const status = make("p", "visually-hidden");
  status.setAttribute("aria-live", "polite");
  chart.figure.append(status);
  element.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const { x, series, xLabel } = chart.spec;
    index = Math.min(x.length - 1, Math.max(0, index + moves[event.key]));
    chart.plot.setCursor({ left: chart.plot.valToPos(x[index], "x"), top: 20 });
    const values = series.map((curve) => curve.label + " " + formatValue(curve.y[index]));
    status.textContent = formatLarge(x[index]) + " " + xLabel + ": " + values.join(", ");
  });
  element.addEventListener("blur", () => { index = -1; chart.plot.setCursor({ left: -10, top: -10 }); });
}

// The values of the curves as a table below the chart. It is filled when it is opened.
function addDataTable(chart) {
  const label = "Data of " + chart.figure.querySelector("figcaption strong").textContent;
  const details = make("details", "data");
  const scroll = make("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  details.append(make("summary", "", "Data"), scroll);
  chart.updateData = () => { if (details.open) scroll.replaceChildren(dataTable(chart.spec, label)); };
  details.addEventListener("toggle", chart.updateData);
  chart.figure.append(details);
}

function dataTable({ x, xLabel, series }, caption) {
  const table = make("table");
  table.createCaption().textContent = caption;
  const header = (scope, text) => Object.assign(make("th", "", text), { scope });
  table.createTHead().insertRow().append(...[xLabel, ...series.map((curve) => curve.label)].map((name) => header("col", name)));
  const body = table.createTBody();
  x.forEach((value, k) => {
    const row = body.insertRow();
    row.append(header("row", formatLarge(value)));
    for (const curve of series) row.insertCell().textContent = formatValue(curve.y[k]);
  });
  return table;
}

function whenNear(elements, action) {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      action(entry.target);
    }
  }, { rootMargin: "400px" });
  for (const element of elements) observer.observe(element);
}

// --- theme

const themes = ["system", "light", "dark"];
let theme = "system";
try { theme = localStorage.getItem("envgen-theme") || theme; } catch { /* not available for this address */ }

function showTheme(name) {
  if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
  for (const chart of charts) createPlot(chart);
}

function applyTheme() {
  if (!themes.includes(theme)) theme = "system";
  document.getElementById("theme").textContent = "Theme: " + theme;
  showTheme(theme);
}

document.getElementById("theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  try { localStorage.setItem("envgen-theme", theme); } catch { /* not available for this address */ }
  applyTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
addEventListener("beforeprint", () => showTheme("light"));
addEventListener("afterprint", applyTheme);

applyTheme();
const drawn = new Set();
const drawOnce = (figure) => {
  if (drawn.has(figure)) return;
  drawn.add(figure);
  drawChart(figure);
};
const first = document.querySelector("figure.chart"); // the others are drawn when the page has been read
if (first) drawOnce(first);

