// One request of a run: copy it, write the reply, and see its errors and levels while typing.
"use strict";

function addReply() {
  const start = JSON.parse(document.getElementById("start").textContent);
  const find = (id) => document.getElementById(id);
  const reply = find("reply");
  const requestId = { id: start.id, name: start.name };
  const draft = `draft ${start.id} ${start.name}`;
  let items = []; // the valid levels of the reply
  let latest = 0;
  let isSending = false;
  let isSent = false;

  async function check() {
    if (isSent) return;
    const request = ++latest;
    try { sessionStorage.setItem(draft, reply.value); } catch { /* not available */ }
    find("send").textContent = "Send";
    delete find("send").dataset.despite;
    find("send-status").textContent = "";
    if (find("skeleton")) find("skeleton").disabled = Boolean(reply.value.trim());
    if (!reply.value.trim()) {
      items = [];
      showErrors([]);
      update('<div class="levels" id="reply-levels"></div>');
      return;
    }
    try {
      const result = await post("reply-check", { ...requestId, text: reply.value });
      if (request !== latest) return;
      items = result.items;
      if (result.checked) showErrors(result.errors, true);
      update(result.html || '<div class="levels" id="reply-levels"></div>');
      showButtons();
    } catch (error) {
      if (request === latest) showErrors([explain(error)]);
    }
  }

  const checkReplySoon = debounce(check, 150);

  function showErrors(errors, isChecked) {
    const list = make("ul", "errors");
    list.append(...errors.map((error) => make("li", "", error)));
    const valid = make("p", "badge good", "The reply is valid");
    find("reply-errors").replaceChildren(...(errors.length ? [list] : isChecked ? [valid] : []));
    reply.setAttribute("aria-invalid", errors.length > 0);
  }

  // The reply as an object with levels, if it is JSON, or JSON in a code fence or between other text.
  function parseReply() {
    const text = reply.value;
    for (const json of [text, text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1)]) {
      try {
        const value = JSON.parse(json);
        if (Array.isArray(value.levels)) return value;
      } catch {
        // not JSON
      }
    }
    return null;
  }

  // The buttons that open a level in the form. Putting it back into a reply that cannot be parsed would lose the rest.
  function showButtons() {
    const isParsed = Boolean(parseReply());
    for (const button of document.querySelectorAll("button[data-item]")) button.hidden = !isParsed;
  }

  async function send() {
    if (isSending || isSent) return;
    isSending = true;
    await checkReplySoon.flush(); // which takes back "Send anyway" and what is said beside it
    await sendReply(find("send-status"), find("send"));
    isSending = false;
  }

  async function sendReply(status, button) {
    if (!reply.value.trim()) {
      status.textContent = "The reply is empty. Write it above first.";
      reply.focus();
      return;
    }
    try {
      const despite = button.dataset.despite === "yes";
      const text = reply.value;
      const { conflict } = await post("reply", { ...requestId, text, despite_errors: despite });
      if (!conflict) { close("Sent."); return; }
      if (reply.value !== text) return; // the errors are those of what it was before
      status.textContent = "The reply has errors. The run would ask again.";
      button.textContent = "Send anyway";
      button.dataset.despite = "yes";
    } catch (error) {
      status.textContent = explain(error);
    }
  }

  function close(sentence) {
    isSent = true;
    find("send-status").textContent = sentence;
    for (const element of [reply, find("send"), find("skeleton")]) if (element) element.disabled = true;
    try { sessionStorage.removeItem(draft); } catch { /* not available */ }
  }

  // --- copying

  document.addEventListener("click", async (event) => {
    const what = event.target.dataset?.copy;
    if (!what) return;
    const status = find("copy-status");
    try {
      const text = what === "all" ? await get("request-text?" + new URLSearchParams(requestId)) : find("newest").textContent;
      await navigator.clipboard.writeText(text);
      status.textContent = "Copied.";
    } catch (error) {
      status.textContent = error instanceof DOMException ? "The browser does not allow copying; select the text." : explain(error);
    }
  });

  // --- the form for one level

  const dialog = find("level-dialog");
  let form = null;
  let edited = 0;
  let level = {};
  let latestForm = 0;

  async function checkForm(overrides) {
    const request = ++latestForm;
    try {
      const result = await post("level", { world: start.world, level: overrides, seed: 0 });
      if (request !== latestForm) return;
      find("dialog-error").textContent = result.error;
      form.showErrors(result.fields);
      find("dialog-ok").disabled = Boolean(result.error);
      if (result.error) return;
      level = result.overrides;
      form.set(result.values);
      showPicture(find("dialog-map"), result.picture);
    } catch (error) {
      if (request !== latestForm) return;
      find("dialog-error").textContent = explain(error);
      find("dialog-ok").disabled = true;
    }
  }

  const checkSoon = debounce(checkForm, 80);

  function openDialog(k) {
    const item = items[k];
    edited = item.position;
    find("dialog-title").textContent = "Level " + (edited + 1);
    find("purpose").value = item.purpose;
    for (const box of find("skills").querySelectorAll("input")) box.checked = item.skills.includes(box.value);
    form.reset();
    checkSoon(item.level);
    checkSoon.flush();
    dialog.showModal();
  }

  function writeReply(value) {
    reply.value = JSON.stringify(value, null, 1);
    check();
  }

  if (dialog) {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-item]");
      if (button) openDialog(Number(button.dataset.item));
    });
    form = new LevelForm(dialog.querySelector(".level-form"), () => checkSoon(form.overrides));
    find("dialog-cancel").addEventListener("click", () => dialog.close());
    find("dialog-ok").addEventListener("click", async () => {
      await checkSoon.flush();
      if (find("dialog-ok").disabled) return;
      const skills = [...find("skills").querySelectorAll("input:checked")].map((box) => box.value);
      const levels = items.map((item) => ({ purpose: item.purpose, skills: item.skills, level: item.level }));
      const value = parseReply() || { reasoning: "", levels };
      const { weight } = value.levels[edited] || {}; // `base` is left out: the form holds all settings of the level
      value.levels[edited] = { purpose: find("purpose").value, skills, ...(weight === undefined ? {} : { weight }), level };
      writeReply(value);
      dialog.close();
    });
  }
  find("skeleton")?.addEventListener("click", () => {
    const levels = Array.from({ length: start.levels }, () => ({ purpose: "", skills: [], level: {} }));
    writeReply({ reasoning: "", levels });
  });

  // --- start

  function followState() {
    const isOpen = find("request-open").dataset.open === "yes";
    if (!isOpen && !isSent) close("This request has already been answered.");
  }

  reply.addEventListener("input", checkReplySoon);
  // The second click of a double click, or a key that is held, must not confirm what it has not shown yet.
  find("send").addEventListener("click", (event) => { if (event.detail < 2) send(); });
  find("send").addEventListener("keydown", (event) => { if (event.repeat && event.key === "Enter") event.preventDefault(); });
  document.addEventListener("updated", (event) => { if (event.detail === "request-state") followState(); });
  // Text may have been typed before this script was loaded.
  try { reply.value ||= sessionStorage.getItem(draft) || ""; } catch { /* not available */ }
  for (const button of [find("send"), find("skeleton")]) if (button) button.disabled = false;
  followState();
  if (reply.value) check();
}

addReply();
