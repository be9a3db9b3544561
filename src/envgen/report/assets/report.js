// The rest of the script of a report, after charts.js: it fills in pictures and plays clips.
// --- what follows needs the whole page

let pictures = {};

function fillPicture(image) {
  const url = pictures[image.dataset.picture];
  if (url && url.startsWith("data:image/")) image.src = url;
}

function addLightbox() {
  const dialog = document.getElementById("lightbox");
  for (const button of document.querySelectorAll("button.zoom")) {
    button.addEventListener("click", () => {
      const image = button.querySelector("img");
      dialog.querySelector("img").src = image.src;
      dialog.querySelector("img").alt = image.alt;
      dialog.showModal();
    });
  }
  dialog.addEventListener("click", () => dialog.close());
}

function addPlayer(figure) {
  const spec = read(figure.querySelector("script"));
  const screen = figure.querySelector(".screen");
  const controls = figure.querySelector(".controls");
  const play = make("button", "play", "Play");
  const slider = make("input");
  play.type = "button";
  slider.type = "range";
  slider.min = 0;
  slider.max = spec.frames - 1;
  slider.value = 0;
  slider.setAttribute("aria-label", "Step");
  const status = make("p", "status");
  const vitals = make("div", "vitals");
  const bars = Object.entries(spec.vitals).map(([name, values]) => {
    const meter = make("meter");
    meter.max = meter.optimum = spec.maxima[name];
    meter.low = spec.maxima[name] / 3;
    meter.high = spec.maxima[name] / 2;
    const label = make("label", "", name);
    label.append(meter);
    vitals.append(label);
    return [meter, values];
  });
  const skills = make("ol", "achieved");
  const marks = spec.skills.map(([frame, name]) => {
    const item = make("li");
    const button = make("button", "", name);
    button.type = "button";
    button.title = "Go to step " + (spec.first + frame);
    button.addEventListener("click", () => { pause(); show(frame); });
    item.append(button);
    skills.append(item);
    return [button, frame];
  });
  const row = make("div", "transport");
  row.append(play, slider);
  controls.append(row, status, vitals, skills);

  let frame = spec.poster;
  let isNew = true;
  let timer = null;
  let decoder = null;
  let canvas = null;
  let latest = 0;

  function describe() {
    const action = spec.actions[frame];
    status.textContent = "step " + (spec.first + frame) + (action ? " · " + action.replaceAll("_", " ") : " · end");
    slider.value = frame;
    for (const [meter, values] of bars) meter.value = values[frame];
    for (const [button, at] of marks) button.classList.toggle("done", frame >= at);
  }

  async function open() {
    const url = pictures[spec.clip];
    const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (char) => char.charCodeAt(0));
    decoder = new ImageDecoder({ data: bytes, type: "image/webp" });
    await decoder.tracks.ready;
    const image = screen.querySelector("img");
    canvas = make("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", image.alt);
    image.replaceWith(canvas);
  }

  async function show(target) {
    isNew = false;
    frame = target;
    describe();
    const request = ++latest;
    if (!("ImageDecoder" in window)) return;
    if (!decoder) await open();
    const { image } = await decoder.decode({ frameIndex: target });
    if (request === latest) {
      if (canvas.width !== image.displayWidth) { canvas.width = image.displayWidth; canvas.height = image.displayHeight; }
      canvas.getContext("2d").drawImage(image, 0, 0);
    }
    image.close();
  }

  function pause() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "Play";
  }

  async function advance() {
    const start = performance.now();
    await show(frame + 1);
    if (timer === null) return;
    if (frame >= spec.frames - 1) { pause(); return; }
    timer = setTimeout(advance, Math.max(0, spec.ms - (performance.now() - start)));
  }

  play.addEventListener("click", () => {
    if (timer !== null) { pause(); return; }
    play.textContent = "Pause";
    if (!("ImageDecoder" in window)) screen.querySelector("img").src = pictures[spec.clip]; // plays by itself
    if (isNew || frame >= spec.frames - 1) frame = -1;
    isNew = false;
    timer = setTimeout(advance, 0);
  });
  slider.addEventListener("input", () => { pause(); show(Number(slider.value)); });
  if (!("ImageDecoder" in window)) slider.disabled = true;
  describe();
}

function openTarget() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* not encoded */ }
  const target = document.getElementById(name);
  for (let element = target; element; element = element.parentElement) {
    if (element.tagName === "DETAILS") element.open = true;
  }
  if (target) target.scrollIntoView();
}

function addOpenAll() {
  for (const section of document.querySelectorAll("section.runs")) {
    const runs = section.querySelectorAll(":scope > details");
    if (runs.length < 2) continue;
    const button = make("button", "open-all", "Open all");
    button.type = "button";
    button.addEventListener("click", () => {
      const open = button.textContent === "Open all";
      for (const run of runs) run.open = open;
      button.textContent = open ? "Close all" : "Open all";
    });
    section.querySelector("h3").append(button);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  pictures = read(document.getElementById("pictures"));
  whenNear(document.querySelectorAll("figure.chart"), drawOnce);
  whenNear(document.querySelectorAll("img[data-picture]"), fillPicture);
  whenNear(document.querySelectorAll("figure.clip"), addPlayer);
  addLightbox();
  addOpenAll();
  openTarget();
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("figure.chart").forEach(drawOnce);
    document.querySelectorAll("img[data-picture]").forEach(fillPicture);
  });
});
