// What the model writes is shown by textContent alone, so it never becomes markup.
const $ = id => document.getElementById(id);
const STATES = {running: "The desk is working.", waits: "The desk waits for your decision.",
  stopped: "Stopped. Nothing is lost: it can go on."};
const LABELS = {met: "✓ check", missing: "✗ check", end: ""};
let events = null;   // of the conversation that is open
let card = null;     // the question that waits in it

function element(name, className, textContent, ...children) {
  const made = Object.assign(document.createElement(name), {className, textContent});
  made.append(...children);
  return made;
}

const row = (name, kind, text) => element(name, kind, "",
  element("span", "kind", LABELS[kind] ?? kind), element("span", "text", text));

function show(event) {
  const isAtEnd = innerHeight + scrollY > document.body.scrollHeight - 80;
  if (event.anew) $("rows").replaceChildren();
  if (event.rows) {
    $("forming").replaceChildren();
    $("rows").append(...event.rows.map(({kind, text}) => row("li", kind, text)));
  } else if (event.forming) {
    grow(event);
  } else {
    stand(event);
  }
  if (isAtEnd && !card) scrollTo(0, document.body.scrollHeight);
}

function grow({forming, kind, name, text}) {
  let line = [...$("forming").children].find(child => child.dataset.place === forming);
  if (!line) {
    line = row("p", kind, kind === "call" ? `${name} ` : "");
    line.dataset.place = forming;
    $("forming").append(line);
  }
  line.lastChild.textContent += text;
}

function stand({state, problem, card: asked}) {
  card = asked && {...asked, call: asked.call ?? {id: "", name: "", arguments: {}}};
  $("forming").replaceChildren();
  $("status").textContent = [STATES[state], problem].filter(Boolean).join(" ");
  $("ask").hidden = state === "waits";
  $("text").disabled = $("send").disabled = state === "running" || state === "stopped";
  $("stop").hidden = state !== "running";
  $("go-on").hidden = state !== "stopped";
  $("card").hidden = !card;
  if (card) ask();
  list();
}

function ask() {
  $("card-title").textContent = card.call.id ? `Run ${card.call.name}?` : "Go on?";
  $("remark").textContent = card.remark || (card.call.id ? "" : card.question);
  $("thought").textContent = card.thought;
  list_arguments(card.received ?? card.call.arguments);
  $("edit").value = JSON.stringify(card.call.arguments, null, 2);
  $("editor").open = $("yes").disabled = false;
  $("editor").hidden = card.as_new || !card.call.id;  // a retry is as it was, or a new one
  $("as-new").hidden = !card.as_new;
  $("yes").textContent = card.as_new ? "The same again" : card.call.id ? "Yes, run it" : "Go on";
  $("reason").value = "";
  $("card-title").focus({preventScroll: true});  // no button: a stray key decides nothing
  $("card").scrollIntoView({block: "nearest"});
}

function list_arguments(values) {
  const shown = value => typeof value === "string" ? value : JSON.stringify(value);
  $("received").replaceChildren(...Object.entries(values).flatMap(
    ([name, value]) => [element("dt", "", name), element("dd", "", shown(value))]));
}

// The arguments that a person put in; null if there are none. A yes is to what the card shows.
function edited() {
  const written = JSON.parse($("edit").value);
  if (Object.prototype.toString.call(written) !== "[object Object]") throw new Error("no object");
  return JSON.stringify(written) === JSON.stringify(card.call.arguments) ? null : written;
}

$("edit").oninput = () => {
  $("yes").disabled = true;
  try {
    list_arguments(edited() ?? card.received ?? card.call.arguments);
    $("yes").disabled = false;
  } catch { /* half-written JSON */ }
};

async function post(path, body) {
  const options = {method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({model: $("model").value, ...body})};
  const answer = await fetch(path, options).catch(() => null);
  const said = await answer?.json().catch(() => null);
  if (answer?.ok) return said;
  const detail = said?.detail ?? "The server does not answer; is it running?";
  $("status").textContent = typeof detail === "string" ? detail : detail[0].msg;
  throw new Error("refused");
}

const here = path => `conversations/${location.hash.slice(1)}${path}`;

$("ask").onsubmit = async event => {
  event.preventDefault();
  const text = $("text").value;
  if (location.hash.length < 2) location.hash = crypto.randomUUID();
  await post(here("/turn"), {text});
  $("text").value = "";
};

$("card").onsubmit = async event => {
  event.preventDefault();
  const chosen = event.submitter.value;
  const decision = chosen === "no" ? "no" : "yes";
  const body = {call_id: card.call.id, decision, reason: $("reason").value, new: chosen === "new"};
  if (chosen === "yes") body.arguments = edited();
  await post(here("/verdict"), body);
};

$("text").onkeydown = event => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  $("ask").requestSubmit();
};
$("reason").onkeydown = event => event.key !== "Enter";  // it would say yes
$("stop").onclick = () => post(here("/stop"), {});
$("go-on").onclick = () => post(here("/resume"), {});
$("new").onclick = event => { event.preventDefault(); location.hash = ""; $("text").focus(); };

for (const example of document.querySelectorAll("#intro button")) {
  example.onclick = () => { $("text").value = example.textContent; $("text").focus(); };
}

async function list() {
  const found = await (await fetch("conversations")).json();
  $("list").replaceChildren(...found.map(({name, title, state}) => {
    const shown = [element("span", "title", title), element("small", "", state)];
    const link = element("a", state, "", ...shown);
    link.href = `#${name}`;
    if (location.hash === link.hash) link.ariaCurrent = "page";
    return element("li", "", "", link);
  }));
}

function open() {
  events?.close();
  show({rows: [], anew: true});
  stand({state: "new", problem: ""});
  if (location.hash.length < 2) return;
  events = new EventSource(here("/events"));
  events.onmessage = event => show(JSON.parse(event.data));
  events.onerror = () => { $("status").textContent = "The server does not answer; is it running?"; };
}

const models = await (await fetch("models")).json();
$("model").replaceChildren(...models.map(name => element("option", "", name)));
window.onhashchange = open;
open();
