"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const { data, ...rest } = properties, node = Object.assign(document.createElement(tag), rest);
  Object.assign(node.dataset, data);
  node.append(...children);
  return node;
};
const kept = {
  get(name, otherwise) { try { return JSON.parse(localStorage.getItem(`holdfast-${name}`)) ?? otherwise; } catch { return otherwise; } },
  set(name, value) { try { localStorage.setItem(`holdfast-${name}`, JSON.stringify(value)); } catch { /* shown, not kept */ } },
};
// Not randomUUID: browsers lend that to secure addresses only, and a tablet comes by plain http.
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const MARKS = ["milestone", "penalty", "final", "invalid", "note", "clock"];
const LETTERS = "asdghjkl";

let operator = "", tab = "", attempt = null, progress = null, armed = false;
let offline = false, sending = false, asking = false;
let unsent = kept.get("unsent", []); // events in order; each is sent until the server has it, and it takes each once

// ------------------------------------------------------------------ the server
async function call(path, body) {
  const options = { signal: AbortSignal.timeout(8000) };
  if (body) Object.assign(options, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const answer = await fetch(path, options);
  if (answer.status === 401) throw new Error("The server wants its token: open the address that it printed.");
  const content = await answer.json();
  if (answer.status === 422 || answer.status === 404) return { refused: content.message ?? "The server does not understand this page. Load it again." };
  if (!answer.ok) throw new Error(content.message);
  return content;
}

/** Ask until there is an answer. */
async function insist(path, body) {
  for (;;) {
    try {
      const answer = await call(path, body);
      setOffline(false);
      return answer;
    } catch (error) {
      setOffline(true, error.message);
      await new Promise((done) => { setTimeout(done, 500); });
    }
  }
}

function setOffline(value, reason = "") {
  const changed = offline !== value;
  offline = value;
  const count = unsent.length;
  $("state").className = `state ${offline ? "bad" : "good"}`;
  $("state").textContent = offline ? `offline, ${count} unsent` : count ? `sending ${count}` : "saved";
  $("state").title = reason;
  if (changed && attempt) drawSheet();
}

function push(kind, value, ticket = attempt.ticket) {
  unsent.push({ operator, ticket, key: fresh(), kind, value });
  kept.set("unsent", unsent);
  armed = false;
  render();
  flush();
}

async function flush() {
  if (sending) return;
  sending = true;
  while (unsent.length) {
    setOffline(offline);
    const event = unsent[0], answer = await insist("/api/event", event);
    unsent.shift();
    kept.set("unsent", unsent);
    if (answer.refused) toast(answer.refused, true);
    else if (attempt?.ticket === event.ticket) attempt.sheet = answer;
    if (event.kind === "submit" && !answer.refused) toast(answer.score === null ? "Saved as invalid. u takes it back." : `Saved: ${points(answer.score)} points. u takes it back.`);
    if (event.kind === "withdraw" && !answer.refused) toast("Taken back. Both entries stay in the record.");
    setOffline(false);
    if (attempt) render();
  }
  sending = false;
  if (!attempt) load();
}

async function load() {
  if (tab === "agreement" || asking || !operator) return;
  asking = true;
  await settled();
  const wanted = tab, answer = await insist("/api/next", { operator, way: wanted });
  asking = false;
  if (wanted !== tab) return void load();
  if (answer.refused) return void toast(answer.refused, true);
  progress = answer.progress;
  attempt = answer.attempt;
  armed = false;
  askReason(false);
  if (attempt) { build(); player.show(attempt, (seconds) => push("clock", seconds)); } else player.show(null);
  render();
}
/** Every now and then: how far the others are, and whether there is something new to score. */
async function look() {
  if (!operator || unsent.length || asking || tab === "agreement") return;
  if (!attempt) return void load();
  try {
    progress = await call(`/api/progress?operator=${encodeURIComponent(operator)}`);
    setOffline(false);
    drawProgress();
  } catch (error) { setOffline(true, error.message); }
}
const settled = async () => { while (unsent.length || sending) { flush(); await new Promise((done) => { setTimeout(done, 30); }); } };

// ------------------------------------------------------------------ the sheet
/** The marks as they will stand once everything is sent. */
function marks() {
  const standing = [...attempt.sheet.marks];
  for (const event of unsent) {
    if (event.ticket !== attempt.ticket || event.operator !== operator) continue;
    if (event.kind === "undo") standing.pop();
    else if (MARKS.includes(event.kind)) standing.push(event);
  }
  return standing;
}
const last = (kind, name) => marks().findLast((mark) => mark.kind === kind && (!name || mark.value.name === name))?.value;
const reached = (name) => last("milestone", name)?.on ?? false;
const given = (name) => last("penalty", name)?.count ?? 0;
const points = (score) => score.toFixed(1);
const plain = (name) => name.replaceAll("_", " ");

function tick(name) { push("milestone", { name, on: !reached(name), at: reached(name) ? null : player.at() }); }
function penalize(penalty) { push("penalty", { name: penalty.name, count: (given(penalty.name) + 1) % (penalty.most + 1) }); }
function undo() {
  if (attempt && marks().length) return void push("undo");
  const newest = progress?.recent[0];
  if (newest && !unsent.length) withdraw(newest);
}
function withdraw(entry) {
  attempt = null;
  tab = entry.way;
  push("withdraw", null, entry.ticket);
}
function save() {
  if (!attempt) return;
  keepNote();
  if (!armed && !last("invalid") && !attempt.milestones.some((milestone) => reached(milestone.name))) {
    armed = true;
    return void render();
  }
  const { ticket } = attempt;
  attempt = null;
  push("submit", null, ticket);
}
function keepNote() {
  const text = $("note").value.trim();
  if (attempt && text !== (last("note") ?? "")) push("note", text);
}

/** The buttons of a task's rubric, made once per attempt. */
function build() {
  $("meta").replaceChildren(make("span", { className: "tag", textContent: `Trial ${attempt.number}` }), ...(attempt.layout ? [make("span", { className: "tag", textContent: `Layout ${attempt.layout}` })] : []));
  $("title").textContent = attempt.title;
  $("instruction").textContent = attempt.instruction;
  const button = (key, title, text, act) => {
    const node = make("button", { type: "button", className: "tick", onclick: act }, make("kbd", { textContent: key }), make("span", {}, make("b", { textContent: title }), make("small", { textContent: text })), make("i", { className: "sign", ariaHidden: "true" }));
    node.ariaPressed = "false";
    return node;
  };
  $("milestones").replaceChildren(...attempt.milestones.map((m, i) => button(i < 9 ? i + 1 : i === 9 ? 0 : "", plain(m.name), m.text, () => tick(m.name))));
  $("penalties").replaceChildren(...attempt.penalties.map((p, i) => button(LETTERS[i] ?? "", plain(p.name), `${p.text} −${p.value}${p.most > 1 ? `, up to ${p.most} times` : ""}`, () => penalize(p))));
  $("penalized").hidden = !attempt.penalties.length;
  $("final").hidden = !attempt.final;
  $("final").replaceChildren(make("kbd", { textContent: "f" }), make("span", {}, make("b", { textContent: "Final condition" }), make("small", { textContent: attempt.final })), make("i", { className: "sign", ariaHidden: "true" }));
  $("note").value = last("note") ?? "";
}

// ------------------------------------------------------------------ drawing
function render() {
  setOffline(offline);
  for (const node of document.querySelectorAll("[data-tab]")) node.ariaSelected = String(node.dataset.tab === tab);
  $("who").textContent = operator;
  $("who").hidden = !operator;
  $("welcome").hidden = Boolean(operator);
  $("agreement").hidden = tab !== "agreement" || !operator;
  $("scoring").hidden = !attempt || tab === "agreement" || !operator;
  $("nothing").hidden = Boolean(attempt) || tab === "agreement" || !operator;
  drawProgress();
  if (attempt) drawSheet();
  else if (operator) drawNothing();
}

function drawSheet() {
  const waiting = unsent.some((event) => event.ticket === attempt.ticket), { awarded, score } = attempt.sheet, invalid = last("invalid");
  attempt.milestones.forEach((milestone, i) => {
    const node = $("milestones").children[i], on = reached(milestone.name), idle = on && !waiting && !awarded.includes(milestone.name);
    node.ariaPressed = String(on);
    node.classList.toggle("idle", idle);
    node.querySelector(".sign").textContent = on ? "✓" : "";
    node.querySelector("small").textContent = idle ? `Does not count: ${milestone.needs.some((need) => !awarded.includes(need)) ? `needs ${milestone.needs.filter((need) => !awarded.includes(need)).map(plain).join(", ")}` : "the final condition does not hold"}` : milestone.text;
  });
  attempt.penalties.forEach((penalty, i) => {
    const node = $("penalties").children[i], count = given(penalty.name);
    node.ariaPressed = String(count > 0);
    node.querySelector(".sign").textContent = count ? `×${count}` : "";
  });
  const holds = last("final") ?? true, asked = reached(attempt.milestones.at(-1).name); // it decides about the last one
  $("final").disabled = !asked;
  $("final").ariaPressed = String(asked && holds);
  $("final").querySelector("b").textContent = !asked ? "Final condition" : holds ? "Final condition holds" : "Final condition does not hold";
  $("final").querySelector(".sign").textContent = asked && holds ? "✓" : "";
  $("score").textContent = invalid ? "–" : waiting && offline ? "…" : score === null ? "–" : points(score);
  $("score").classList.toggle("waiting", waiting);
  const ticked = attempt.milestones.filter((milestone) => reached(milestone.name)).length;
  const penalties = attempt.penalties.reduce((sum, penalty) => sum + given(penalty.name), 0);
  $("words").textContent = invalid ? `invalid: ${invalid}` : `${ticked} of ${attempt.milestones.length} milestones, ${penalties || "no"} ${penalties === 1 ? "penalty" : "penalties"}`;
  $("save").firstChild.textContent = armed ? "Save a zero? " : "Save ";
  $("save").classList.toggle("armed", armed);
  $("undo").disabled = !marks().length && !progress?.recent.length;
  $("invalid").disabled = Boolean(invalid);
  if (document.activeElement !== $("note")) $("note").value = last("note") ?? "";
}

function drawNothing() {
  const waiting = unsent.length > 0, { done = 0, total = 0 } = progress?.ways[tab] ?? {};
  $("nothing-title").textContent = waiting ? "Saving" : total ? "All done" : "Nothing to score";
  $("nothing-text").textContent = waiting ? "Your last entries are kept on this device and sent as soon as the server answers." : total ? `${done} of ${total} scored. What is left, if anything, lies on somebody else's screen.` : tab === "video" ? "There are no videos of attempts yet. They appear here as they are recorded." : "Nothing is planned for the robot.";
}

function drawProgress() {
  const way = progress?.ways[tab];
  $("bar").hidden = !way;
  $("done").style.width = way?.total ? `${(100 * way.done) / way.total}%` : "0";
  const left = way?.seconds_left, minutes = Math.round(left / 60);
  const parts = way ? [`${way.done} of ${way.total} trials scored`, `${way.tasks} task${way.tasks === 1 ? "" : "s"}`, left ? `about ${minutes >= 90 ? `${(minutes / 60).toFixed(1)} h` : `${Math.max(1, minutes)} min`} left` : "", way.twice ? `${way.twice} rated twice` : "", `${progress.mine} by you`] : [];
  $("progress").textContent = parts.filter(Boolean).join(" · ");
  $("recent").hidden = !progress?.recent.length;
  $("list").replaceChildren(...(progress?.recent ?? []).map((entry) => make("li", {}, make("button", { type: "button", onclick: () => withdraw(entry) }, make("b", { textContent: `${entry.number}` }), make("span", { textContent: entry.title }), make("span", { textContent: entry.score === null ? "invalid" : points(entry.score) }), make("small", { textContent: entry.time })))));
}

async function drawAgreement() {
  const found = await insist("/api/agreement"), number = (value) => value.toFixed(2).replace("-", "−");
  const cell = (text, properties = {}) => make("td", { textContent: text, ...properties });
  $("pairs").replaceChildren(...found.map((pair) => make("article", { className: "pair-card" }, make("h2", { textContent: pair.raters.join(" and ") }), make("p", { className: "note", textContent: `${pair.videos} video${pair.videos === 1 ? "" : "s"} rated by both.` }), make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["milestone", "judged", "same answer", "kappa"].map((text) => make("th", { textContent: text, scope: "col" })))), make("tbody", {}, ...pair.rows.map((row, i) => make("tr", { className: i ? "" : "sum" }, make("th", { textContent: row.name, scope: "row" }), cell(row.count), cell(`${Math.round(100 * row.observed)} %`), row.kappa === null ? cell(row.why, { className: "none" }) : cell(number(row.kappa))))))))));
  if (!found.length) $("pairs").append(make("p", { className: "none", textContent: "No video was rated by two yet. When all is scored, the Videos tab offers what others have scored." }));
}

let fading = 0;
function toast(text, bad = false) {
  $("toast").textContent = text;
  $("toast").className = bad ? "bad" : "";
  $("toast").hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => { $("toast").hidden = true; }, bad ? 8000 : 4000);
}

// ------------------------------------------------------------------ hands
async function choose(name) {
  keepNote();
  attempt = null;
  tab = name;
  kept.set("tab", name);
  player.show(null);
  render();
  if (name === "agreement") await drawAgreement(); else await load();
}
function askReason(open = true) {
  $("why").hidden = !open;
  $("actions").hidden = open;
  $("reason").value = "";
  if (open) $("reason").focus(); else document.activeElement?.blur();
}

$("undo").onclick = undo;
$("save").onclick = save;
$("invalid").onclick = () => askReason();
$("final").onclick = () => push("final", !(last("final") ?? true));
$("again").onclick = load;
$("nevermind").onclick = () => askReason(false);
$("note").onchange = keepNote;
$("why").onsubmit = (event) => {
  event.preventDefault();
  const reason = $("reason").value.trim() || "no reason given";
  askReason(false);
  push("invalid", reason);
};
$("sign").onsubmit = (event) => {
  event.preventDefault();
  operator = $("name").value.trim();
  if (!operator) return;
  kept.set("operator", operator);
  choose(tab);
};
$("who").onclick = () => { keepNote(); attempt = null; operator = ""; player.show(null); render(); $("name").focus(); };
for (const node of document.querySelectorAll("[data-tab]")) node.onclick = () => choose(node.dataset.tab);
// A touched button lets go of the keyboard, so that Enter saves; one reached with Tab keeps it.
document.addEventListener("click", (event) => { const node = event.target.closest("button, summary"); if (node && !node.matches(":focus-visible")) node.blur(); });

const KEYS = {
  u: undo, x: () => { if (!last("invalid")) askReason(); }, n: () => $("note").focus(), f: () => { if (attempt.final) $("final").click(); },
  Enter: save, " ": () => player.toggle(), ArrowLeft: () => player.step(-1), ArrowRight: () => player.step(1),
};
document.addEventListener("keydown", (event) => {
  const { target, key } = event, typing = target.matches("textarea, input:not([type=range])");
  if (typing) { if (key === "Escape" || (key === "Enter" && target === $("note") && !event.shiftKey)) { event.preventDefault(); if (target === $("reason")) askReason(false); else target.blur(); } return; }
  if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "z") { event.preventDefault(); return void undo(); }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || tab === "agreement" || !operator) return;
  if (!attempt) { if (key === "u") undo(); return; }
  if (target.matches("button, summary") && (key === "Enter" || key === " ")) return;
  const name = key.length === 1 ? key.toLowerCase() : key;
  const milestone = /^[0-9]$/.test(name) ? attempt.milestones[name === "0" ? 9 : Number(name) - 1] : null;
  const penalty = attempt.penalties[LETTERS.indexOf(name)];
  const act = milestone ? () => tick(milestone.name) : penalty && name.length === 1 ? () => penalize(penalty) : KEYS[name];
  if (act) { event.preventDefault(); act(); }
});

// Theme: the system's until somebody chooses; the report's switch, with its memory.
const root = document.documentElement, dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const label = () => { $("theme").textContent = dark() ? "Light" : "Dark"; $("theme").ariaLabel = `Switch to ${dark() ? "light" : "dark"} colours`; };
if (kept.get("console-theme")) root.dataset.theme = kept.get("console-theme");
$("theme").hidden = false;
$("theme").onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; kept.set("console-theme", root.dataset.theme); label(); };
label();

(async () => {
  const hello = await insist("/api/hello");
  operator = kept.get("operator", "") || hello.operator;
  tab = kept.get("tab", "") || hello.way;
  $("name").value = hello.operator;
  render();
  if (operator) choose(tab); else $("name").focus();
  setInterval(look, 5000);
})();
