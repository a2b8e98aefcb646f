"use strict";
// The sheet and the connection to the server; draw.js shows them.

// Not randomUUID: browsers offer it on secure addresses only, and tablets use plain http.
const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const MARKS = ["milestone", "penalty", "final", "invalid", "note", "clock"];
const LETTERS = "asdghjkl";
/** The tab that was chosen, until the browser's tab is closed: another console need not begin there. */
const chosen = {
  get() { try { return sessionStorage.getItem("holdfast-tab"); } catch { return null; } },
  set(name) { try { sessionStorage.setItem("holdfast-tab", name); } catch { /* shown, not kept */ } },
};
/** What was typed. A field that is full may hold half of an emoji, which is not text and would be refused. */
const typed = (id) => $(id).value.trim().replace(/\p{Surrogate}/gu, "");

let operator = "", tab = "", attempt = null, progress = null, armed = false;
let offline = false, sending = false, asking = false;
// Events in order; each is sent until the server confirms it, and stored once. Each is kept as an entry of its own, so
// that tabs do not overwrite each other's. Tickets that this server does not know belong to another console: it may be back.
let unsent = kept.names("unsent-").map((name) => kept.get(name)).filter((entry) => entry?.event?.key)
  .sort((one, other) => one.order - other.order).map(({ event }) => event);
let order = 0;
const strays = new Set();
const waiting = () => unsent.filter((event) => !strays.has(event.ticket));

// ------------------------------------------------------------------ the server
async function call(path, body) {
  const sent = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, { ...(body && sent), signal: AbortSignal.timeout(8000) });
  if (answer.status === 401) throw new Error("The server needs its token: open the address that it printed.");
  const content = await answer.json();
  if ([409, 413, 422].includes(answer.status)) return { refused: content.message ?? "The server does not understand this page. Load it again." };
  if (answer.status === 404) return { unknown: true };
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
  const all = unsent.length, count = waiting().length, strayed = all > count;
  $("state").className = `state ${offline || strayed ? "bad" : "good"}`;
  $("state").textContent = offline ? `offline, ${all} unsent` : count ? `sending ${count}` : strayed ? `${all} kept` : "saved";
  $("state").title = reason || (strayed ? "Kept on this device for another server, and sent when that answers here." : "");
  if (changed && attempt) drawSheet();
}

function push(kind, value, ticket = attempt.ticket) {
  const event = { operator, ticket, key: fresh(), kind, value };
  order = Math.max(order + 1, Date.now());
  unsent.push(event);
  kept.set(`unsent-${event.key}`, { order, event });
  armed = false;
  render();
  flush();
}

async function flush() {
  if (sending) return;
  sending = true;
  for (let event; (event = waiting()[0]);) {
    setOffline(offline);
    const answer = await insist("/api/event", event);
    if (answer.unknown) {
      strays.add(event.ticket);
      continue;
    }
    unsent = unsent.filter((other) => other !== event);
    kept.drop(`unsent-${event.key}`);
    if (answer.refused) toast(answer.refused, true);
    else if (attempt?.ticket === event.ticket) attempt.sheet = answer;
    if (event.kind === "submit" && !answer.refused) {
      toast(`Saved${answer.score === null ? " as invalid" : `: ${points(answer.score)} points`}. u takes it back.`);
    }
    if (event.kind === "withdraw" && !answer.refused) toast("Taken back. Both entries stay in the record.");
    setOffline(false);
    if (attempt) render();
  }
  sending = false;
  setOffline(offline);
  if (!attempt) load();
}

async function load() {
  if (tab === "agreement" || asking || !operator) return;
  asking = true;
  await settled();
  const wish = { operator, way: tab }, answer = await insist("/api/next", wish);
  asking = false;
  if (wish.way !== tab || wish.operator !== operator) return void load();
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
  if (strays.size) { strays.clear(); await flush(); }
  if (!operator || waiting().length || asking || tab === "agreement") return;
  if (!attempt) return void load();
  try {
    progress = await call(`/api/progress?operator=${encodeURIComponent(operator)}`);
    setOffline(false);
    drawProgress();
  } catch (error) { setOffline(true, error.message); }
}

async function settled() {
  while (waiting().length || sending) {
    flush();
    await new Promise((done) => { setTimeout(done, 30); });
  }
}

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

function tick(name) { push("milestone", { name, on: !reached(name), at: reached(name) ? null : player.at() }); }
function penalize(penalty) { push("penalty", { name: penalty.name, count: (given(penalty.name) + 1) % (penalty.most + 1) }); }
function undo() {
  if (attempt && marks().length) return void push("undo");
  const newest = progress?.recent[0];
  if (newest && !waiting().length) withdraw(newest);
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
  const text = typed("note");
  if (attempt && text !== (last("note") ?? "")) push("note", text);
}

// ------------------------------------------------------------------ hands
async function choose(name) {
  keepNote();
  attempt = null;
  tab = name;
  chosen.set(name);
  player.show(null);
  $("toast").hidden = true;
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
  const reason = typed("reason") || "no reason given";
  askReason(false);
  push("invalid", reason);
};
$("sign").onsubmit = (event) => {
  event.preventDefault();
  operator = typed("name");
  if (!operator) return;
  kept.set("operator", operator);
  choose(tab);
};
$("who").onclick = () => { keepNote(); attempt = null; operator = ""; player.show(null); render(); $("name").focus(); };
for (const node of document.querySelectorAll("[data-tab]")) node.onclick = () => choose(node.dataset.tab);
// A clicked button loses focus, so that Enter saves; one reached with Tab keeps it.
document.addEventListener("click", (event) => {
  const node = event.target.closest("button, summary");
  if (node && !node.matches(":focus-visible")) node.blur();
});

const KEYS = {
  u: undo, x: () => { if (!last("invalid")) askReason(); }, n: () => $("note").focus(), f: () => { if (attempt.final) $("final").click(); },
  Enter: save, " ": () => player.toggle(), ArrowLeft: () => player.step(-1), ArrowRight: () => player.step(1),
};
document.addEventListener("keydown", (event) => {
  const { target, key } = event, typing = target.matches("textarea, input:not([type=range])");
  if (typing) {
    if (key !== "Escape" && (key !== "Enter" || target !== $("note") || event.shiftKey)) return;
    event.preventDefault();
    return void (target === $("reason") ? askReason(false) : target.blur());
  }
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

(async () => {
  const hello = await insist("/api/hello");
  operator = kept.get("operator", "") || hello.operator;
  tab = chosen.get() || hello.way;
  $("name").value = hello.operator;
  render();
  if (operator) choose(tab); else $("name").focus();
  setInterval(look, 5000);
})();
