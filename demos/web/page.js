// The page of the refund desk. It shows what the server says, and decides nothing by itself.
//
// Rule 1: what the model writes is shown by textContent alone, so it never becomes markup.
// Rule 2: nothing that a person typed is lost. Each field is kept for its conversation (and its
//         question) until it was sent, also when the page is reloaded or another one is looked at.
// Rule 3: nothing moves between the press and the release of a button: a click is never lost.

const $ = id => document.getElementById(id);
const LABELS = {met: "✓", unmet: "✗", end: ""};  // any other kind is its own label
const EXAMPLES = [...document.querySelectorAll("#intro button")].map(button => button.textContent);

let events = null;  // of the conversation that is open
let card = null;    // the question that waits in it
let may = [];       // what may be done with it

// Elements.

function element(name, className, textContent, ...children) {
  const made = Object.assign(document.createElement(name), {className, textContent});
  made.append(...children);
  return made;
}

function row(name, {kind, text, whole}) {
  const shown = whole ? folded(text, whole) : element("span", "text", text);
  return element(name, kind, "", element("span", "kind", LABELS[kind] ?? kind), shown);
}

// What is cut or summed up. One click shows it whole.
const folded = (text, whole) => element("details", "text", "",
  element("summary", "", text), element("div", "whole", whole));

// Rule 3: what arrives while a button is pressed waits until it is released.

const LONGEST_PRESS = 2000;  // ms; a longer one holds nothing up
let isPressed = false;
let waiting = [];
let timer = 0;

function whenReleased(action) {
  if (isPressed) waiting.push(action);
  else action();
}

function press() {
  isPressed = true;
  clearTimeout(timer);
  timer = setTimeout(release, LONGEST_PRESS);
}

function release() {
  isPressed = false;
  clearTimeout(timer);
  setTimeout(() => {  // after the click
    const actions = waiting;
    waiting = [];
    actions.forEach(whenReleased);
  });
}

addEventListener("pointerdown", press, true);
addEventListener("pointerup", release, true);
addEventListener("pointercancel", release, true);

// Rule 2: fields that are kept.

const conversation = () => decodeURIComponent(location.hash.slice(1));

function keyOf(field) {
  const question = field.closest("#card") && card ? card.id : "";
  return `${conversation()}/${question}/${field.id}`;
}

function keep(field) {
  if (field.value) sessionStorage.setItem(keyOf(field), field.value);
  else sessionStorage.removeItem(keyOf(field));
}

const kept = field => sessionStorage.getItem(keyOf(field));

function forget(...keys) {
  for (const key of keys) sessionStorage.removeItem(key);
}

// What the server says.

function show(event) {
  const isAtEnd = innerHeight + scrollY > document.body.scrollHeight - 80;
  if (event.anew) $("rows").replaceChildren();
  if (event.rows) {
    $("forming").replaceChildren();
    $("rows").append(...event.rows.map(said => row("li", said)));
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
    line = row("p", {kind, text: kind === "call" ? `${name} ` : ""});
    line.dataset.place = forming;
    $("forming").append(line);
  }
  line.lastChild.textContent += text;
}

function stand(standing) {
  const isNew = standing.card && standing.card.id !== card?.id;
  const isAnswered = card && !standing.card;
  card = standing.card;
  may = standing.may;
  $("forming").replaceChildren();
  $("status").textContent = standing.says;
  $("ask").hidden = Boolean(card) && !may.includes("turn") && !isWriting();
  $("send").disabled = !may.includes("turn");
  $("stop").hidden = !may.includes("stop");
  $("go-on").hidden = !may.includes("resume");
  for (const button of [$("stop"), $("go-on")]) button.disabled = false;
  $("card").hidden = !card;
  if (isNew) ask();
  if (isAnswered && document.activeElement === document.body) $("text").focus({preventScroll: true});
  list();
}

// Is a person about to say something? Then it is not taken out of sight.
const isWriting = () => document.activeElement === $("text") || $("text").value !== "";

function ask() {
  $("remark").textContent = card.remark;
  $("thought").textContent = card.thought;
  $("asks").textContent = card.asks;
  $("why").textContent = card.why;
  $("keys").replaceChildren(...card.keys.map(({value, label}) => Object.assign(
    element("button", "", label), {id: value, value, type: "submit"})));
  listValues($("received"), card.arguments);
  listValues($("as-new"), card.as_new ?? []);
  $("other").hidden = !card.as_new;
  $("editor").hidden = card.editable === null;
  $("edit").value = kept($("edit")) ?? card.editable ?? "";
  $("editor").open = $("edit").value !== (card.editable ?? "");
  $("reason").value = kept($("reason")) ?? "";
  $("misfit").textContent = "";
  if ($("editor").open) preview();
  // The title and no button: a stray key decides nothing. Whoever is writing goes on writing.
  if (document.activeElement !== $("text")) $("card-title").focus({preventScroll: true});
  $("card").scrollIntoView({block: "nearest"});
}

function listValues(into, values) {
  into.replaceChildren(...values.flatMap(([name, value]) => [element("dt", "", name), shown(value)]));
}

// A long value is cut to a few lines, which say how long it is.
function shown(value) {
  if (value.length <= 200) return element("dd", "", value);
  const cut = `${value.slice(0, 120)}… (${value.length} characters)`;
  return element("dd", "", "", folded(cut, value));
}

// What a person does.

// Returns what the server answers; undefined if it refuses, which `problems` then says.
async function post(path, body, problems = $("status")) {
  const options = {method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body)};
  const answer = await fetch(path, options).catch(() => null);
  const said = await answer?.json().catch(() => null);
  if (answer?.ok) return said;
  const detail = said?.detail ?? "The server does not answer; is it running?";
  problems.textContent = typeof detail === "string" ? detail : detail[0].msg;
  return undefined;
}

const here = path => `conversations/${encodeURIComponent(conversation())}${path}`;
const withModel = body => ({model: $("model").value, ...body});

// A yes is to what the card shows: the server reads what was put in, and says how it would run.
async function preview() {
  const text = $("edit").value;
  const yes = [...$("keys").children].filter(key => key.value !== "no");
  const problem = element("p", "", "");
  for (const key of yes) key.disabled = true;
  const found = await post(here("/edited"), {arguments: text}, problem);
  if ($("edit").value !== text || !card) return;  // it was changed meanwhile
  if (found) listValues($("received"), found.arguments);
  $("misfit").textContent = found ? found.problem : problem.textContent;
  for (const key of yes) key.disabled = $("misfit").textContent !== "";
}

$("edit").oninput = () => { keep($("edit")); preview(); };
$("reason").oninput = () => keep($("reason"));
$("text").oninput = () => keep($("text"));

$("ask").onsubmit = async event => {
  event.preventDefault();
  if ($("send").disabled) return;
  const text = $("text").value;
  const key = keyOf($("text"));
  $("send").disabled = true;
  if (!conversation()) location.hash = crypto.randomUUID();
  keep($("text"));  // for the new conversation, which opens with it
  if (await post(here("/turn"), withModel({text})) === undefined) {
    $("send").disabled = !may.includes("turn");
    return;
  }
  forget(key, keyOf($("text")));
  if ($("text").value === text) $("text").value = "";  // else more was typed meanwhile
  else keep($("text"));
};

$("card").onsubmit = async event => {
  event.preventDefault();
  const chosen = event.submitter.value;
  const keys = [...$("keys").children];
  const drafts = [keyOf($("edit")), keyOf($("reason"))];
  const isEdited = $("edit").value !== (card.editable ?? "");
  const body = withModel({question: card.id, decision: chosen === "no" ? "no" : "yes",
    reason: $("reason").value, new: chosen === "new"});
  if (chosen === "yes" && isEdited) body.arguments = $("edit").value;
  for (const key of keys) key.disabled = true;  // one answer a question
  if (await post(here("/verdict"), body) !== undefined) forget(...drafts);
  else for (const key of keys) key.disabled = false;
};

$("text").onkeydown = event => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  $("ask").requestSubmit();
};
$("reason").onkeydown = event => event.key !== "Enter";  // it would say yes
$("stop").onclick = () => { $("stop").disabled = true; post(here("/stop"), {}); };
$("go-on").onclick = () => { $("go-on").disabled = true; post(here("/resume"), withModel({})); };
$("new").onclick = event => { event.preventDefault(); location.hash = ""; $("text").focus(); };
$("model").onchange = () => { $("scripted").hidden = !$("model").value.startsWith("offline:"); };

for (const example of document.querySelectorAll("#intro button")) {
  example.onclick = () => {
    const typed = $("text").value.trim();
    const isMine = typed && !EXAMPLES.includes(typed);
    $("text").value = isMine ? `${typed}\n${example.textContent}` : example.textContent;
    keep($("text"));
    $("text").focus();
  };
}

// The list. Its links are changed and never made anew, so one that is pressed stays.

async function list() {
  const answer = await fetch("conversations").catch(() => null);
  const found = answer?.ok ? await answer.json().catch(() => null) : null;
  if (found) whenReleased(() => update(found));
}

function update(found) {
  const links = Object.fromEntries([...$("list").children].map(item => [item.dataset.name, item]));
  const items = found.map(({name, title, state}) => {
    const item = links[name] ?? element("li", "", "", element("a", "", "",
      element("span", "title", ""), element("small", "", "")));
    item.dataset.name = name;
    const link = item.firstChild;
    link.href = `#${name}`;
    link.className = state;
    link.firstChild.textContent = title;
    link.lastChild.textContent = state;
    if (name === conversation()) link.ariaCurrent = "page";
    else link.removeAttribute("aria-current");
    return item;
  });
  const isSame = items.length === $("list").children.length
    && items.every((item, place) => item === $("list").children[place]);
  if (!isSame) $("list").replaceChildren(...items);
}

function open() {
  events?.close();
  card = null;
  show({rows: [], anew: true});
  stand({may: ["turn"], says: "", card: null});
  $("text").value = kept($("text")) ?? "";
  if (!conversation()) return;
  events = new EventSource(here("/events"));
  events.onmessage = event => whenReleased(() => show(JSON.parse(event.data)));
  events.onerror = () => { $("status").textContent = "The server does not answer; is it running?"; };
}

onhashchange = open;
if ($("text").value) keep($("text"));  // typed before this script ran, or put back by the browser
open();

// The models come when they come: Ollama may take a while to say which it has.
const models = await fetch("models").then(answer => answer.json()).catch(() => []);
const listed = [...$("model").options].map(option => option.value);
const more = models.filter(name => !listed.includes(name));
whenReleased(() => $("model").append(...more.map(name => element("option", "", name))));
