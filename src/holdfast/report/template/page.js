"use strict";
// Theme: the system's unless the reader chooses one.
const root = document.documentElement, button = document.getElementById("theme");
const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const remember = (value) => { try { localStorage.setItem("holdfast-theme", value); } catch { /* not kept, still shown */ } };
const recall = () => { try { return localStorage.getItem("holdfast-theme"); } catch { return null; } };
const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.ariaLabel = `Switch to ${button.textContent.toLowerCase()} colours`; };
if (recall()) root.dataset.theme = recall();
button.hidden = false;
button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; remember(root.dataset.theme); label(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
label();

// A cell's details appear beside it on hover and focus, and move with it when the page scrolls.
const tip = document.getElementById("tip");
let told = null;
const hide = () => { told = null; tip.hidden = true; };
const place = () => {
  if (!told) return;
  const box = told.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const above = box.top - size.height - 8;
  tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
  tip.style.left = `${Math.max(8, Math.min(innerWidth - size.width - 8, box.left + (box.width - size.width) / 2))}px`;
};
const show = (event) => {
  const cell = event.target.closest?.("td"), more = cell?.querySelector(".more");
  if (!more) return hide();
  told = cell;
  tip.replaceChildren(...more.cloneNode(true).childNodes);
  tip.hidden = false;
  place();
};
document.addEventListener("mouseover", show);
document.addEventListener("focusin", show);
document.addEventListener("scroll", place, true);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

// One tab stop per table; the arrow keys move between its cells.
for (const grid of document.querySelectorAll("[role=grid]")) {
  const rows = [...grid.tBodies[0].rows].map((row) => [...row.querySelectorAll("td")]);
  for (const cell of rows.flat()) cell.tabIndex = -1;
  if (rows[0]?.[0]) rows[0][0].tabIndex = 0;
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const at = rows.findIndex((row) => row.includes(event.target));
    if (!step || at < 0) return;
    event.preventDefault();
    const next = rows[at + step[0]]?.[rows[at].indexOf(event.target) + step[1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// Attempts at one layout play in step: what is done to one video is done to the others; a shorter one waits at its end.
for (const group of document.querySelectorAll(".together")) {
  const films = [...group.querySelectorAll("video")], button = group.querySelector("button"), led = new Set();
  if (!button) continue;
  const running = () => films.some((film) => !film.paused);
  const others = (film) => films.filter((other) => other !== film);
  const label = () => { button.textContent = running() ? "Pause" : "Play together"; };
  const lead = (film, other) => {
    const at = Math.min(film.currentTime, other.duration || Infinity);
    if (Math.abs(other.currentTime - at) < 0.05) return;
    led.add(other);
    other.currentTime = at;
  };
  for (const film of films) {
    film.addEventListener("play", () => {
      for (const other of others(film)) if (other.paused && !other.ended) { lead(film, other); other.play(); }
      label();
    });
    film.addEventListener("pause", () => { if (!film.ended) for (const other of others(film)) other.pause(); label(); });
    film.addEventListener("ended", label);
    film.addEventListener("seeked", () => { if (!led.delete(film)) for (const other of others(film)) lead(film, other); });
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    if (running()) return films.forEach((film) => film.pause());
    const again = films.every((film) => film.ended);
    for (const film of films) if (again || !film.ended) film.play();
  });
}

// A video's controls would hide half of its picture, score included: they show while it is pointed at or has the focus.
// A finger points at nothing before it taps: a tap on the picture plays it.
for (const film of document.querySelectorAll(".clips video")) {
  const still = film.parentElement.classList;
  const update = (event) => {
    if (event?.pointerType === "touch") return;
    film.controls = film.matches(":hover, :focus");
    still.toggle("still", !film.controls && film.paused);
  };
  film.tabIndex = 0;
  for (const name of ["pointerenter", "pointerleave", "focus", "blur", "play", "pause"]) film.addEventListener(name, update);
  film.addEventListener("pointerup", (event) => { if (event.pointerType === "touch" && still.contains("still")) film.play(); });
  update();
}

// Open all details before printing.
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details:not(.deep)")) part.open = true; });
