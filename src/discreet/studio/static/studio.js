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

document.addEventListener("plan-changed", () => {
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
document.addEventListener("htmx:load", (event) => prepare(event.detail.elt));
prepare(document);
