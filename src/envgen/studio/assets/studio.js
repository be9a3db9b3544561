// What all pages of the studio share, after charts.js: live updates, pictures, and the list of runs.
// HTML comes from the studio alone, which escapes every text. Other texts are only ever set as text.
"use strict";

// --- requests

async function get(address) {
  return readResponse(await fetch(address));
}

async function post(address, body) {
  const headers = { "Content-Type": "application/json" };
  return readResponse(await fetch(address, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function readResponse(response) {
  if (!response.ok) throw new Error((await response.text()).trim());
  const isJson = response.headers.get("Content-Type").startsWith("application/json");
  return isJson ? response.json() : response.text();
}

function explain(error) {
  return error instanceof TypeError ? "envgen studio does not answer; is it still running?" : error.message;
}

// Calls `action` once, `milliseconds` after the last call. `flush` calls it now if a call is due, and waits for its end.
function debounce(action, milliseconds) {
  let timer = null;
  let latest = [];
  let result = null;
  const run = () => {
    clearTimeout(timer);
    timer = null;
    result = action(...latest);
  };
  const soon = (...values) => {
    clearTimeout(timer);
    latest = values;
    timer = setTimeout(run, milliseconds);
  };
  soon.flush = async () => {
    if (timer !== null) run();
    await result;
  };
  return soon;
}

// --- updates: an element takes over the content of another one, and keeps what a person has opened, ticked or focused

const KEPT = new Set(["open", "checked", "value", "hidden", "aria-busy"]);

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
    old.replaceWith(fresh);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (old.matches("figure.chart") && drawn.has(old)) {
    updateChart(old, fresh);
  } else if (!old.isEqualNode(fresh)) {
    morphAttributes(old, fresh);
    if (!old.hasAttribute("data-own")) morphChildren(old, fresh); // a script fills in the content of these
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
}

function morphAttributes(old, fresh) {
  const isProgress = old.nodeName === "PROGRESS";
  for (const { name, value } of fresh.attributes) {
    if ((!KEPT.has(name) || isProgress) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!KEPT.has(name) && name !== "src" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.nodeName === "IMG" && old.hasAttribute("src") && !old.src.includes(old.dataset.picture)) fillPicture(old);
}

function morphChildren(old, fresh) {
  const byKey = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = keyOf(child) ? byKey.get(keyOf(child)) : place && !keyOf(place) ? place : null;
    if (same && same.nodeName === child.nodeName) {
      if (same === place) place = place.nextSibling; else old.insertBefore(same, place);
      morph(same, child);
    } else {
      old.insertBefore(child, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function updateChart(figure, fresh) {
  const chart = charts.find((known) => known.figure === figure);
  const source = fresh.querySelector("script").textContent;
  const spec = JSON.parse(source);
  const title = (element) => element.querySelector("figcaption strong").textContent;
  const labels = (value) => JSON.stringify(value.series.map((curve) => [curve.label, curve.color]));
  if (title(fresh) !== title(figure) || labels(spec) !== labels(chart.spec)) { // another chart, or other curves
    charts.splice(charts.indexOf(chart), 1);
    drawn.delete(figure);
    const hasFocus = figure.contains(document.activeElement);
    figure.replaceWith(fresh);
    if (hasFocus) fresh.querySelector(".plot").focus({ preventScroll: true });
    return;
  }
  figure.querySelector("figcaption").replaceWith(fresh.querySelector("figcaption"));
  if (source === figure.querySelector("script").textContent) return;
  figure.querySelector("script").textContent = source;
  const plot = figure.querySelector(".plot");
  plot.setAttribute("aria-label", fresh.querySelector(".plot").getAttribute("aria-label"));
  chart.spec = spec;
  createPlot(chart);
  chart.updateData();
}

// Replaces the content of a part of the page, or the part itself.
function update(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.firstElementChild;
  const old = document.getElementById(fresh.id);
  if (!old) return;
  const focused = document.activeElement;
  morph(old, fresh);
  // an element loses the focus when it is moved
  if (document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
  prepare(document.getElementById(fresh.id));
  document.dispatchEvent(new CustomEvent("updated", { detail: fresh.id }));
}

function prepare(root) {
  whenNear([...root.querySelectorAll("figure.chart")].filter((figure) => !drawn.has(figure)), drawOnce);
  whenNear(root.querySelectorAll("img[data-picture]:not([src])"), fillPicture);
  whenNear(root.querySelectorAll(".stats[data-level]"), fillStats);
}

const statsShown = new WeakMap(); // the level whose statistics an element shows

async function fillStats(element) {
  const { world, level } = element.dataset;
  if (statsShown.get(element) === level) return;
  statsShown.set(element, level);
  try {
    const html = await post("level-stats", { world, level });
    if (statsShown.get(element) === level) element.innerHTML = html;
  } catch (error) {
    if (statsShown.get(element) !== level) return;
    statsShown.delete(element); // the next update tries again
    element.textContent = explain(error);
  }
}

function fillPicture(image) {
  image.src = "picture?name=" + encodeURIComponent(image.dataset.picture);
}

// --- events. A page that nobody sees reads none, because a browser opens only six connections to a server.

let events = null;

function connect() {
  const address = document.body.dataset.stream;
  if (!address || events || document.hidden) return;
  events = new EventSource(address);
  events.onopen = () => { setConnection("Live"); };
  events.onmessage = (event) => { update(JSON.parse(event.data).html); };
  events.onerror = () => {
    setConnection("Not connected: is envgen studio still running?");
    if (events && events.readyState === EventSource.CLOSED) { // refused: the browser does not try again by itself
      disconnect();
      explainRefusal(address);
    }
  };
}

// Tries again, unless it is useless: another studio may have taken the port, or the address may never have been valid.
async function explainRefusal(address) {
  let reason = "";
  try {
    const response = await fetch(address);
    if (response.status < 400 || response.status >= 500) response.body.cancel();
    else reason = response.status === 403 ? "the studio was restarted; open its new address" : await response.text();
  } catch {
    // it does not answer
  }
  if (events) return; // the page was hidden and seen again
  if (reason) setConnection("Not connected: " + reason.trim()); else setTimeout(connect, 3000);
}

function disconnect() {
  if (events) events.close();
  events = null;
}

function setConnection(text) {
  const status = document.getElementById("connection");
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("lost", text !== "Live");
}

// --- pictures in full size

const lightbox = document.getElementById("lightbox");
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.zoom");
  if (!button) return;
  const image = button.querySelector("img");
  lightbox.querySelector("img").src = image.src;
  lightbox.querySelector("img").alt = image.alt;
  lightbox.showModal();
});
lightbox.addEventListener("click", () => lightbox.close());

// --- the list of runs: filter and comparison

function tickedRuns() {
  return [...document.querySelectorAll("input[name=run]:checked")].map((box) => box.value);
}

function addComparison() {
  const status = document.getElementById("compare-status");
  let latest = 0;
  let compared = ""; // the runs of the comparison
  let missing = ""; // what is said of runs that the address names and the folder does not hold

  async function compare() {
    const runs = tickedRuns();
    const query = new URLSearchParams(runs.map((id) => ["run", id])).toString();
    history.replaceState(null, "", query ? "?" + query : location.pathname);
    const request = ++latest;
    compared = runs.join();
    if (!runs.length) {
      status.textContent = missing;
      update('<div id="comparison"></div>');
      return;
    }
    try {
      const html = await get("compare?" + query);
      if (request !== latest) return;
      update(html);
      status.textContent = (runs.length === 1 ? "One run is shown. " : runs.length + " runs are compared. ") + missing;
    } catch (error) {
      status.textContent = explain(error);
    }
  }

  const soon = debounce(compare, 150);
  document.addEventListener("change", (event) => {
    if (!event.target.matches("input[name=run]")) return;
    missing = "";
    soon();
  });
  document.addEventListener("updated", (event) => { // a run that is compared may have been deleted
    if (event.detail === "list" && tickedRuns().join() !== compared) soon();
  });
  const ticked = new Set(new URLSearchParams(location.search).getAll("run"));
  for (const box of document.querySelectorAll("input[name=run]")) box.checked = ticked.has(box.value);
  const numMissing = ticked.size - tickedRuns().length;
  if (numMissing) missing = (numMissing === 1 ? "One run is" : numMissing + " runs are") + " no longer in this folder.";
  if (ticked.size) compare();
}

function filterRuns() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll(".runs-table tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
}

// --- start

prepare(document);
connect();
document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); });
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
if (document.getElementById("comparison")) {
  addComparison();
  document.addEventListener("input", (event) => { if (event.target.id === "filter") filterRuns(); });
  document.addEventListener("updated", (event) => {
    if (event.detail === "list" && document.getElementById("filter")) filterRuns();
  });
}
