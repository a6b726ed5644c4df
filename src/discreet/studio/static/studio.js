// Progressive enhancement. Pages work without it: forms are posted, and answers are pages.
"use strict";

// Sliders are logarithmic and move the number beside them.
function slideFor(range) {
  return [document.getElementById(range.dataset.for), Math.log(range.dataset.low), Math.log(range.dataset.high)];
}

function place(range) {
  const [field, low, high] = slideFor(range);
  const value = Number(field.value);
  range.hidden = false;
  if (value > 0) range.value = (Math.log(value) - low) / (high - low);
  range.setAttribute("aria-valuetext", field.value);
}

function prepare(root) {
  root.querySelectorAll("input.slide").forEach(place);
  const drop = root.querySelector("#drop");
  if (drop) drop.hidden = false;
}

document.addEventListener("input", (event) => {
  const range = event.target;
  if (!range.matches("input.slide")) {
    document.querySelectorAll(`input.slide[data-for="${CSS.escape(range.id)}"]`).forEach(place);
    return;
  }
  event.stopPropagation();
  const [field, low, high] = slideFor(range);
  field.value = Number(Math.exp(low + range.value * (high - low)).toPrecision(2));
  range.setAttribute("aria-valuetext", field.value);
  field.dispatchEvent(new CustomEvent("slide", { bubbles: true }));
}, true);

// The file was changed elsewhere: follow it, unless somebody is typing here.
function typing() {
  const active = document.activeElement;
  return active && active.matches("#main input:not([type=range]):not([type=checkbox]), #main textarea, #main select");
}

// A pulse that met a change of this page's own tells nothing; the next one knows.
let changing = 0, changed = 0, asked = 0;

document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt, xhr, requestConfig } = event.detail;
  if (elt.id === "pulse") asked = changed;
  if (requestConfig.verb === "get") return;
  changing += 1;
  xhr.addEventListener("loadend", () => {
    changing -= 1;
    changed += 1;
  });
});

document.addEventListener("plan-changed", () => {
  if (changing || asked !== changed) return;
  const notice = document.getElementById("notice");
  if (!typing()) {
    htmx.ajax("GET", location.pathname + location.search, { target: "#main", select: "#main", swap: "outerHTML show:none" });
    notice.textContent = "The file was changed elsewhere. This is the new version.";
  } else if (!notice.querySelector("a")) {
    notice.textContent = "The file was changed elsewhere. ";
    const link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "Show the new version";
    notice.append(link);
  }
});

// A page that is drawn again and names no step of its own leaves open what was open.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr } = event.detail;
  if (target.id !== "main") return;
  // The new page comes in before the old one goes, and of details of one name only one may be open.
  const open = [...target.querySelectorAll("details[open][id]")].map((one) => one.id);
  target.querySelectorAll("details[name]").forEach((one) => one.removeAttribute("name"));
  if (/[?&]at=/.test(xhr.responseURL) || xhr.getResponseHeader("hx-retarget")) return;
  document.addEventListener("htmx:afterSwap", () => {
    document.querySelectorAll("#main details[id]").forEach((one) => { one.open = open.includes(one.id); });
  }, { once: true });
});

// What was typed or slid while a request was under way is written after it.
const sent = new WeakMap();

function typed(form) {
  return JSON.stringify([...new FormData(form)].filter(([name]) => name.startsWith("[")));
}

const writing = new Set();
let onward = null;

document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt, xhr } = event.detail;
  if (!elt.matches(".live-form")) return;
  sent.set(elt, typed(elt));
  writing.add(xhr);
  xhr.addEventListener("loadend", () => {
    writing.delete(xhr);
    goOn(); // by now htmx has sent what was queued behind this request
  });
});
document.addEventListener("htmx:afterSettle", (event) => {
  const form = event.detail.requestConfig && event.detail.requestConfig.elt;
  if (form && form.isConnected && sent.has(form) && sent.get(form) !== typed(form)) htmx.trigger(form, "change");
});

// Whoever types and at once clicks elsewhere keeps what was typed: it is written before the click counts.
function unwritten() {
  const fields = [...document.querySelectorAll(".live-form input[id]:not([type=hidden]):not([type=checkbox]):not(.slide), .live-form textarea")];
  const differs = (field) => field.value !== (document.getElementById(`was-${field.id}`) || field).value;
  return new Set(fields.filter(differs).map((field) => field.form));
}

function goOn() {
  if (writing.size || !onward) return;
  const target = onward.isConnected ? onward : [...document.querySelectorAll("a[href], button")].find(isSame(onward));
  onward = null;
  if (!target) return;
  target.dataset.again = "1";
  target.click();
  delete target.dataset.again;
}

// The page may have been drawn again since the click.
function isSame(gone) {
  return (one) => one.outerHTML === gone.outerHTML && (!one.form || one.form.outerHTML === gone.form.outerHTML);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("a[href], button");
  if (!target || target.dataset.again || target.closest(".live-form") || (!writing.size && !unwritten().size)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  onward = target;
  unwritten().forEach((form) => htmx.trigger(form, "change"));
  goOn();
}, true);

// A dropped file is copied into the folder.
async function send(file) {
  const problem = document.getElementById("drop-problem");
  problem.textContent = `Copying ${file.name} …`;
  const csrf = document.querySelector("meta[name=csrf]").content;
  const answer = await fetch(`/upload?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "x-csrf": csrf } });
  const text = await answer.text();
  if (answer.ok) location.assign(text);
  else problem.textContent = text;
}

document.addEventListener("change", (event) => {
  if (event.target.id === "dropped" && event.target.files.length) send(event.target.files[0]);
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (document.getElementById("drop") && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
});

document.documentElement.classList.add("scripted");
document.addEventListener("htmx:load", (event) => {
  prepare(event.detail.elt);
  // What was typed before the scripts had come met no listener.
  if (event.detail.elt === document.body) unwritten().forEach((form) => htmx.trigger(form, "change"));
});
prepare(document);
