// The level editor, and the form that it shares with the page of a request.
"use strict";

// A form for the settings of a level. `onChange` is called when a person changes one.
class LevelForm {
  constructor(form, onChange) {
    this.form = form;
    this.controls = [...form.querySelectorAll("[data-setting]")];
    form.addEventListener("input", () => { this.mark(); onChange(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    this.mark();
  }

  // Says at each control what to enter. `errors` is by dotted name.
  showErrors(errors = {}) {
    for (const control of this.controls) {
      const error = errors[control.dataset.setting];
      const setting = control.closest(".setting");
      const shown = setting.querySelector(".errors");
      if (!error) {
        control.removeAttribute("aria-invalid");
        shown?.remove();
      } else if (shown) {
        shown.textContent = error;
      } else {
        control.setAttribute("aria-invalid", "true");
        const message = make("p", "errors", error);
        message.id = control.id + "-error";
        control.setAttribute("aria-errormessage", message.id);
        setting.append(message);
      }
    }
  }

  static value(control) {
    switch (control.dataset.kind) {
      case "bool": return control.checked;
      case "option": return JSON.parse(control.value);
      case "list": return [...control.querySelectorAll("input:checked")].map((box) => JSON.parse(box.value));
      case "text": return control.value === "" ? [] : control.value.split("\n");
      default: return control.value === "" ? null : Number(control.value);
    }
  }

  static isChanged(control) {
    return JSON.stringify(LevelForm.value(control)) !== JSON.stringify(JSON.parse(control.dataset.original));
  }

  // The settings that differ from the original.
  get overrides() {
    const result = {};
    for (const control of this.controls.filter(LevelForm.isChanged)) {
      const path = control.dataset.setting.split(".");
      const name = path.pop();
      let group = result;
      for (const part of path) group = group[part] ??= {};
      group[name] = LevelForm.value(control);
    }
    return result;
  }

  // Shows values by dotted name.
  set(values) {
    for (const control of this.controls) {
      const value = values[control.dataset.setting];
      if (value === undefined || JSON.stringify(value) === JSON.stringify(LevelForm.value(control))) continue;
      switch (control.dataset.kind) {
        case "bool": control.checked = value; break;
        case "option": control.value = JSON.stringify(value); break;
        case "list":
          for (const box of control.querySelectorAll("input")) box.checked = value.includes(JSON.parse(box.value));
          break;
        case "text": control.value = value.join("\n"); break;
        default: control.value = value;
      }
    }
    this.mark();
  }

  reset() {
    this.set(Object.fromEntries(this.controls.map((c) => [c.dataset.setting, JSON.parse(c.dataset.original)])));
  }

  // Marks the settings that differ from the original, and counts them in the heading of their group.
  mark() {
    for (const control of this.controls) {
      control.closest(".setting").classList.toggle("changed", LevelForm.isChanged(control));
    }
    for (const group of this.form.querySelectorAll(".group")) {
      const count = group.querySelectorAll(".setting.changed").length;
      group.querySelector(".changes").textContent = count ? ` ${count} changed` : "";
    }
  }
}

// Loads a picture into an image, and says so while it is being drawn.
function showPicture(image, name) {
  const address = "picture?name=" + encodeURIComponent(name);
  if (image.getAttribute("src") === address) return;
  image.parentElement.setAttribute("aria-busy", "true");
  const done = () => image.parentElement.setAttribute("aria-busy", "false");
  image.onload = done;
  image.onerror = done;
  image.src = address;
}

const gameKeys = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", " ": "space", Escape: "escape" };

// A game in the page. Keys go to the server one after the other; those of a held key that it cannot follow are dropped.
class Game {
  constructor(element, onStop) {
    this.find = (id) => element.querySelector("#" + id);
    this.element = element;
    this.onStop = onStop;
    this.id = null;
    this.waiting = [];
    this.isBusy = false;
    this.isDone = false;
    this.find("screen").addEventListener("keydown", (event) => this.handleKey(event));
    this.find("stop").addEventListener("click", () => this.stop());
  }

  async start(world, level, seed) {
    const game = await post("play", { world, level, seed });
    this.id = game.game;
    this.keys = new Set(game.keys);
    this.waiting = [];
    const buttons = game.actions.map(({ action, key }) => {
      const button = make("button", "", action);
      button.type = "button";
      button.title = "Key: " + key;
      button.addEventListener("click", () => this.press(key));
      return button;
    });
    const restart = make("button", "", "Restart");
    restart.type = "button";
    restart.id = "restart";
    restart.addEventListener("click", () => this.press("r"));
    this.find("play-events").textContent = "";
    this.find("play-actions").replaceChildren(...buttons, restart);
    this.find("play-help").textContent = "Keys, while the picture is focused: " + game.help.join("; ");
    this.element.hidden = false;
    this.show(game);
    this.find("screen").focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    const key = gameKeys[event.key] || event.key;
    if (key.length > 1 && !Object.values(gameKeys).includes(key)) return;
    event.preventDefault();
    if (!event.repeat || this.waiting.length < 1) this.press(key);
  }

  async press(key) {
    if (this.waiting.length < 8) this.waiting.push(key);
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.waiting.length && this.id) {
      const game = this.id;
      const next = this.waiting.shift();
      // the episode ended with an earlier key; then, "r" starts the next one
      if (this.isDone && this.keys.has(next) && next !== "r") continue;
      try {
        const result = await post("key", { game, key: next });
        if (game !== this.id) continue; // it was stopped, or another one was started
        if (result.quit) this.stop(); else this.show(result);
      } catch (error) {
        if (game !== this.id) continue;
        this.waiting = [];
        this.find("play-events").textContent = explain(error);
      }
    }
    this.isBusy = false;
  }

  show(state) {
    this.find("screen").querySelector("img").src = state.frame;
    this.find("play-status").textContent = state.status.join("; ");
    if (state.events?.length || state.done) this.find("play-events").textContent = (state.events || []).join(" ");
    this.isDone = state.done;
    this.find("restart").hidden = !state.done;
  }

  stop() {
    this.id = null;
    this.element.hidden = true;
    this.onStop();
  }
}

// What is being edited, kept in this tab: for this entry of the history, so that a reload and the back button find it, and
// for the next time that the editor of this world is opened without a level.
class Draft {
  constructor(world, isLinked) {
    let entry = history.state?.entry;
    if (!entry) {
      entry = String(Math.random()).slice(2);
      history.replaceState({ entry }, "");
    }
    addEventListener("hashchange", () => history.replaceState({ entry }, "")); // the link that skips the navigation
    this.ofEntry = `level ${entry}`;
    this.ofWorld = `level of ${world}`;
    this.isLinked = isLinked;
  }

  keep(value) {
    try {
      for (const key of [this.ofEntry, this.ofWorld]) sessionStorage.setItem(key, JSON.stringify(value));
    } catch { /* not available, or full */ }
  }

  // What was kept, if anything. `isEarlier` says that it was edited on another visit of the editor.
  get() {
    try {
      const own = sessionStorage.getItem(this.ofEntry);
      const kept = JSON.parse(own ?? (this.isLinked ? null : sessionStorage.getItem(this.ofWorld)));
      return kept && { ...kept, isEarlier: own === null };
    } catch {
      return null;
    }
  }
}

function addEditor() {
  const start = JSON.parse(document.getElementById("start").textContent);
  const find = (id) => document.getElementById(id);
  const { world } = start;
  const text = find("level-text");
  const form = new LevelForm(document.querySelector(".level-form"), () => {
    source = "form";
    checkSoon(...edited());
    keep();
  });
  const game = new Game(find("game"), () => find("play").focus());
  let overrides = {}; // of the last valid level
  let source = "form"; // where the level was edited last
  let latest = 0;
  let isSaving = false;

  let lastSeed = 0; // that was valid

  const draft = new Draft(world, new URLSearchParams(location.search).has("level"));

  const edited = () => source === "text" ? [text.value, source] : [form.overrides, source];

  // The seed; while the field holds none, the last one.
  function seed() {
    const { value, min, max } = find("seed");
    const number = Number(value);
    const isSeed = value !== "" && Number.isInteger(number) && number >= Number(min) && number <= Number(max);
    if (isSeed) lastSeed = number;
    find("seed").setAttribute("aria-invalid", !isSeed);
    const error = isSeed ? "" : `Enter a whole number from ${min} to ${max}. The map is that of seed ${lastSeed}.`;
    if (find("seed-error").textContent !== error) find("seed-error").textContent = error;
    return lastSeed;
  }

  // Keeps the level as it is in the form or in the text, even if it is not valid.
  function keep() {
    const level = source === "text" ? text.value : JSON.stringify(form.overrides, null, 1);
    draft.keep({ level, seed: find("seed").value, name: find("file-name").value });
  }

  // `level` is an object, or JSON text; `origin` is where it was changed, which is left as it is.
  async function check(level, origin) {
    const request = ++latest;
    let result;
    try {
      result = await post("level", { world, level, seed: seed() });
    } catch (error) {
      result = { error: explain(error) };
    }
    if (request !== latest) return false;
    find("level-error").textContent = result.error;
    form.showErrors(origin === "form" ? result.fields : {}); // after a change of the text, the form is the one before
    text.setAttribute("aria-invalid", Boolean(result.error));
    for (const name of ["save", "play"]) find(name).disabled = Boolean(result.error);
    if (result.error) return false;
    overrides = result.overrides;
    if (origin !== "form") form.set(result.values);
    if (origin !== "text") text.value = JSON.stringify(overrides, null, 1);
    showPicture(find("map"), result.picture);
    showStats(request);
    return true;
  }

  async function showStats(request) {
    try {
      const html = await post("level-stats", { world, level: overrides });
      if (request !== latest) return;
      update(`<div id="stats" class="stats" aria-live="polite">${html}</div>`);
    } catch (error) {
      if (request === latest) find("stats").textContent = explain(error);
    }
  }

  const checkSoon = debounce(check, 80);
  const checkTextSoon = debounce(() => check(...edited()), 200);
  const fileName = () => find("file-name").value.trim();
  const say = (sentence) => { find("file-status").textContent = sentence; };

  // Waits until the level of the form and of the text has been checked.
  async function isValid() {
    await checkSoon.flush();
    await checkTextSoon.flush();
    return !find("save").disabled;
  }

  // `replacing` is the name of a file that the person has agreed to replace.
  async function save(replacing = null) {
    if (isSaving) return;
    isSaving = true;
    try {
      await saveAs(replacing ?? fileName(), replacing !== null);
    } catch (error) {
      say(explain(error));
    }
    isSaving = false;
  }

  async function saveAs(name, replace) {
    if (!await isValid()) return;
    withdrawOffer();
    const { conflict, file } = await post("level-file", { world, level: overrides, name, replace });
    say(conflict || "Saved as " + file);
    if (!conflict) await refreshNames();
    else if (name === fileName()) offerToReplace(name);
  }

  // The offer is about one file, so it ends when another name is typed.
  function offerToReplace(name) {
    const button = make("button", "", "Replace it");
    button.type = "button";
    button.id = "replace";
    button.addEventListener("click", () => save(name));
    find("save").after(button);
    button.focus();
  }

  function withdrawOffer() {
    if (document.activeElement === find("replace")) find("save").focus();
    find("replace")?.remove();
  }

  async function refreshNames() {
    const names = await get("level-files?" + new URLSearchParams({ world }));
    find("file-names").replaceChildren(...names.map((name) => Object.assign(make("option"), { value: name })));
  }

  async function load() {
    const name = fileName();
    withdrawOffer();
    try {
      const level = await get("level-file?" + new URLSearchParams({ world, name }));
      await open(level.overrides, name, "Loaded ");
    } catch (error) {
      say(explain(error));
    }
  }

  async function upload(file) {
    withdrawOffer();
    if (file.size > 65536) { say(file.name + " is too large for a level"); return; }
    try {
      const content = await file.text();
      if (content.trim()) await open(content, file.name, "Opened "); else say(file.name + " is empty");
    } catch (error) {
      say(error instanceof DOMException ? file.name + " cannot be read" : explain(error));
    }
  }

  // Shows the level of a file. If it is not valid, the level that is being edited stays as it is.
  async function open(level, name, done) {
    const { error, overrides: opened } = await post("level", { world, level, seed: seed() });
    if (error) { say(name + " cannot be opened: " + error); return; }
    if (!await check(opened, "file")) return;
    say(done + name);
    keep();
  }

  text.addEventListener("input", () => { source = "text"; checkTextSoon(); keep(); });
  find("seed").addEventListener("input", () => { checkSoon(...edited()); keep(); });
  find("reseed").addEventListener("click", () => {
    find("seed").value = seed() < Number(find("seed").max) ? seed() + 1 : 0;
    check(...edited());
    keep();
  });
  find("reset").addEventListener("click", () => {
    form.reset();
    source = "form";
    check({}, "reset");
    keep();
  });
  find("save").addEventListener("click", (event) => { if (event.detail < 2) save(); }); // once for a double click
  find("file-name").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.repeat) save(); });
  find("file-name").addEventListener("input", () => {
    if (find("replace")) say("");
    withdrawOffer();
    keep();
  });
  find("load").addEventListener("click", load);
  find("upload").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) upload(file);
    event.target.value = "";
  });
  find("play").addEventListener("click", async () => {
    if (!await isValid()) return;
    const play = find("play");
    play.disabled = true; // which takes the focus away
    play.textContent = "Starting ...";
    let isStarted = true;
    try {
      await game.start(world, overrides, seed());
    } catch (error) {
      isStarted = false;
      say(explain(error));
    }
    play.disabled = false;
    play.textContent = "Play";
    if (!isStarted) play.focus();
  });

  async function begin() {
    const kept = draft.get() ?? { level: start.level, seed: "0", name: "" };
    find("seed").value = kept.seed;
    find("file-name").value = kept.name;
    source = "text";
    text.value = kept.level; // to be corrected there if it is not valid
    if (!await check(kept.level, "start") || !kept.isEarlier || text.value === "{}") return;
    say("This is the level that you edited last. \"Reset all\" brings back the original.");
  }

  begin();
}

if (document.getElementById("level-text")) addEditor();
