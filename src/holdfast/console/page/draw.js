"use strict";
// Rendering: reads the state in console.js and never changes it.
const $ = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};
const kept = {
  get(name, otherwise) {
    try { return JSON.parse(localStorage.getItem(`holdfast-${name}`)) ?? otherwise; } catch { return otherwise; }
  },
  set(name, value) {
    try { localStorage.setItem(`holdfast-${name}`, JSON.stringify(value)); } catch { /* shown, not kept */ }
  },
  drop(name) {
    try { localStorage.removeItem(`holdfast-${name}`); } catch { /* it was not kept */ }
  },
  names(start) {
    try { return Object.keys(localStorage).filter((name) => name.startsWith(`holdfast-${start}`)).map((name) => name.slice(9)); } catch { return []; }
  },
};
const points = (score) => score.toFixed(1);
const plain = (name) => name.replaceAll("_", " ");
const several = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function render() {
  const scoring = Boolean(operator) && tab !== "agreement";
  setOffline(offline);
  for (const node of document.querySelectorAll("[data-tab]")) node.ariaSelected = String(node.dataset.tab === tab);
  $("who").textContent = operator;
  $("who").hidden = !operator;
  $("welcome").hidden = Boolean(operator);
  $("agreement").hidden = !operator || scoring;
  $("scoring").hidden = !scoring || !attempt;
  $("nothing").hidden = !scoring || Boolean(attempt);
  drawProgress();
  if (attempt) drawSheet();
  else if (scoring) drawNothing();
}

/** The buttons of a task's rubric, made once per attempt. */
function build() {
  const tag = (textContent) => make("span", { className: "tag", textContent });
  $("meta").replaceChildren(...[`Trial ${attempt.number}`, attempt.layout && `Layout ${attempt.layout}`, attempt.second && "Second opinion"].filter(Boolean).map(tag));
  $("second").hidden = !attempt.second;
  $("title").textContent = attempt.title;
  $("instruction").textContent = attempt.instruction;
  const inside = (key, title, text) => [
    make("kbd", { textContent: key }),
    make("span", {}, make("b", { textContent: title }), make("small", { textContent: text })),
    make("i", { className: "sign", ariaHidden: "true" }),
  ];
  const button = (onclick, ...words) => make("button", { type: "button", className: "tick", onclick }, ...inside(...words));
  $("milestones").replaceChildren(...attempt.milestones.map(
    ({ name, text }, i) => button(() => tick(name), i < 9 ? i + 1 : i === 9 ? 0 : "", plain(name), text)));
  $("penalties").replaceChildren(...attempt.penalties.map((penalty, i) => {
    const most = penalty.most > 1 ? `, up to ${penalty.most} times` : "";
    return button(() => penalize(penalty), LETTERS[i] ?? "", plain(penalty.name), `${penalty.text} −${penalty.value}${most}`);
  }));
  $("penalized").hidden = !attempt.penalties.length;
  $("final").hidden = !attempt.final;
  $("final").replaceChildren(...inside("f", "Final condition", attempt.final));
  $("note").value = last("note") ?? "";
}

function drawSheet() {
  const open = unsent.some((event) => event.ticket === attempt.ticket), invalid = last("invalid");
  attempt.milestones.forEach((milestone, i) => drawMilestone($("milestones").children[i], milestone, open));
  attempt.penalties.forEach((penalty, i) => {
    const node = $("penalties").children[i], count = given(penalty.name);
    node.ariaPressed = String(count > 0);
    node.querySelector(".sign").textContent = count ? `×${count}` : "";
  });
  drawFinal();
  const { score } = attempt.sheet;
  $("score").textContent = invalid || score === null ? "–" : open && offline ? "…" : points(score);
  $("score").classList.toggle("waiting", open);
  const ticked = attempt.milestones.filter((milestone) => reached(milestone.name)).length;
  const penalties = attempt.penalties.reduce((sum, penalty) => sum + given(penalty.name), 0);
  const said = `${ticked} of ${attempt.milestones.length} milestones, ${penalties || "no"} ${penalties === 1 ? "penalty" : "penalties"}`;
  $("words").textContent = invalid ? `invalid: ${invalid}` : said;
  $("save").firstChild.textContent = armed ? "Save a zero? " : "Save ";
  $("save").classList.toggle("armed", armed);
  $("undo").disabled = !marks().length && !progress?.recent.length;
  $("invalid").disabled = Boolean(invalid);
  if (document.activeElement !== $("note")) $("note").value = last("note") ?? "";
}

/** The last milestone earns nothing without the final condition, and says so. */
function drawMilestone(node, { name, text }, open) {
  const { awarded } = attempt.sheet, on = reached(name), idle = on && !open && !awarded.includes(name);
  node.ariaPressed = String(on);
  node.classList.toggle("idle", idle);
  node.querySelector(".sign").textContent = on ? "✓" : "";
  node.querySelector("small").textContent = idle ? "Does not count: the final condition does not hold" : text;
}

/** The final condition decides about the last milestone, and is asked for once that is reached. */
function drawFinal() {
  const holds = last("final") ?? true, asked = reached(attempt.milestones.at(-1).name), words = holds ? "holds" : "does not hold";
  $("final").disabled = !asked;
  $("final").ariaPressed = String(asked && holds);
  $("final").querySelector("b").textContent = asked ? `Final condition ${words}` : "Final condition";
  $("final").querySelector(".sign").textContent = asked && holds ? "✓" : "";
}

function drawNothing() {
  const { done = 0, total = 0 } = progress?.ways[tab] ?? {};
  const [title, text] = waiting().length ? ["Saving", "Your last entries are kept on this device and sent as soon as the server answers."]
    : total ? ["All done", `${done} of ${total} scored. Anything left is open on another screen.`]
      : ["Nothing to score", tab === "robot" ? "Nothing is planned for the robot." : "Videos of attempts appear here as they are recorded."];
  $("nothing-title").textContent = title;
  $("nothing-text").textContent = text;
}

function drawProgress() {
  const way = progress?.ways[tab], minutes = Math.max(1, Math.round(way?.seconds_left / 60));
  $("bar").hidden = !way;
  $("done").style.width = way?.total ? `${(100 * way.done) / way.total}%` : "0";
  $("progress").textContent = !way ? "" : [
    `${way.done} of ${way.total} trials scored`,
    several(way.tasks, "task"),
    way.seconds_left ? `about ${minutes >= 90 ? `${(minutes / 60).toFixed(1)} h` : `${minutes} min`} left` : "",
    way.twice ? `${way.twice} rated twice` : "",
    `${progress.mine} by you`,
  ].filter(Boolean).join(" · ");
  $("recent").hidden = !progress?.recent.length;
  $("list").replaceChildren(...(progress?.recent ?? []).map((entry) => make("li", {}, make("button",
    { type: "button", onclick: () => withdraw(entry) },
    make("b", { textContent: entry.number }),
    make("span", { textContent: entry.title }),
    make("span", { textContent: entry.score === null ? "invalid" : points(entry.score) }),
    make("small", { textContent: entry.time })))));
}

async function drawAgreement() {
  const pairs = await insist("/api/agreement");
  const heads = ["milestone", "judged", "same answer", "kappa"].map((textContent) => make("th", { textContent, scope: "col" }));
  const line = ({ name, count, observed, kappa, why }, i) => make("tr", { className: i ? "" : "sum" },
    make("th", { textContent: name, scope: "row" }),
    make("td", { textContent: count }),
    make("td", { textContent: `${Math.round(100 * observed)} %` }),
    make("td", kappa === null ? { textContent: why, className: "none" } : { textContent: kappa.toFixed(2).replace("-", "−") }));
  $("pairs").replaceChildren(...pairs.map((pair) => make("article", { className: "pair-card" },
    make("h2", { textContent: pair.raters.join(" and ") }),
    make("p", { className: "note", textContent: `${several(pair.videos, "video")} rated by both.` }),
    make("div", { className: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => head.cloneNode(true)))),
      make("tbody", {}, ...pair.rows.map(line)))))));
  const none = "No video was rated by two people yet. When all are scored, the Videos tab offers those that others have scored.";
  if (!pairs.length) $("pairs").append(make("p", { className: "none", textContent: none }));
}

let fading = 0;
function toast(text, bad = false) {
  $("toast").textContent = text;
  $("toast").className = bad ? "bad" : "";
  $("toast").hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => { $("toast").hidden = true; }, bad ? 8000 : 4000);
}

// Theme: the system's unless the user chooses one.
const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const label = () => {
  $("theme").textContent = dark() ? "Light" : "Dark";
  $("theme").ariaLabel = `Switch to ${dark() ? "light" : "dark"} colours`;
};
if (kept.get("console-theme")) root.dataset.theme = kept.get("console-theme");
$("theme").hidden = false;
$("theme").onclick = () => {
  root.dataset.theme = dark() ? "light" : "dark";
  kept.set("console-theme", root.dataset.theme);
  label();
};
system.addEventListener("change", label);
label();
