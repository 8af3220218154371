"use strict";

const MEANINGS = ["not at all", "hardly", "somewhat", "quite", "very"];
const NAME = "ipl-rating-name"; // in this browser only
const at = (id) => document.getElementById(id);
const rater = { name: "", screens: [], tasks: [], words: {}, answers: {}, shown: 0 };
const waiting = new Map(); // answers that the server has not confirmed
let sending = false;

function make(kind, fields, ...inside) {
  const element = Object.assign(document.createElement(kind), fields);
  element.append(...inside);
  return element;
}

function remember(store, value) {
  try {
    if (value === undefined) return store.getItem(NAME);
    if (value === null) store.removeItem(NAME);
    else store.setItem(NAME, value);
  } catch { /* a browser that keeps nothing: the name is typed again */ }
  return null;
}

async function ask(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-IPL-Rating": "1" },
    body: JSON.stringify(body),
  });
  const told = await response.json();
  if (response.ok) return told;
  const problem = new Error(told.error);
  problem.final = response.status < 500;
  throw problem;
}

function say(id, text) {
  at(id).textContent = text;
  at(id).hidden = !text;
}

function only(id) {
  for (const part of ["start", "screen", "end"]) at(part).hidden = part !== id;
}

// The first screen: who is it?

function showStart() {
  const known = remember(localStorage);
  remember(sessionStorage, null);
  rater.name = "";
  only("start");
  at("known").hidden = !known;
  at("go-on").textContent = known ? `Go on as ${known}` : "";
  at("name-label").textContent = known ? "Or another name" : "Your name";
  at("name").value = "";
  say("start-problem", "");
}

async function begin(name, where) {
  try {
    Object.assign(rater, await ask("begin", { name }));
  } catch (problem) {
    showStart();
    say("start-problem", problem.final ? problem.message : "The server does not answer; try again.");
    return;
  }
  remember(localStorage, rater.name);
  remember(sessionStorage, rater.name);
  go(where || rater.screens.length + 1);
}

// The screens: one list of words each.

const rated = (item) => rater.answers[item] !== undefined;
const unfinished = () => {
  const place = rater.screens.findIndex((screen) => !screen.items.every(rated));
  return place < 0 ? rater.screens.length + 1 : place + 1;
};

function go(number) {
  const wanted = Math.max(1, Math.min(number, unfinished()));
  if (location.hash === `#${wanted}`) show(wanted);
  else location.hash = wanted; // and hashchange shows it
}

function show(number) {
  rater.shown = number;
  if (number > rater.screens.length) {
    showEnd();
    return;
  }
  const screen = rater.screens[number - 1];
  const task = rater.tasks[screen.task];
  only("screen");
  say("problem", "");
  at("who-rates").textContent = rater.name;
  at("screen-title").textContent = `List ${number} of ${rater.screens.length}`;
  at("pictures").replaceChildren(...task.pictures.map((picture) => make("li", {},
    make("img", { src: `pictures/${picture.file}`, alt: `A picture of the class ${picture.label}` }),
    make("span", { textContent: picture.label }))));
  const more = task.more ? ` and ${task.more} more` : "";
  at("classes").textContent = `Classes: ${task.classes.join(", ")}${more}.`;
  at("words").replaceChildren(...screen.items.map(makeWord));
  at("back").disabled = number === 1;
  at("next").textContent = number === rater.screens.length ? "Finish" : "Next";
  showProgress();
  at("screen-title").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function makeWord(item) {
  const scale = MEANINGS.map((meaning, index) => make("label", {},
    make("input", {
      type: "radio", name: item, value: index + 1, checked: rater.answers[item] === index + 1,
    }),
    make("b", { textContent: index + 1 }),
    make("span", { className: "hidden", textContent: ` ${meaning}` })));
  const word = make("fieldset", {}, make("legend", { textContent: rater.words[item] }),
    make("div", { className: "scale" }, ...scale));
  word.dataset.item = item;
  return word;
}

const fieldsets = () => [...at("words").querySelectorAll("fieldset")];
const open = () => fieldsets().find((word) => !rated(word.dataset.item));

function showProgress() {
  const total = Object.keys(rater.words).length;
  const done = Object.keys(rater.answers).length;
  at("progress").max = total;
  at("progress").value = done;
  at("progress-label").textContent = `${done} of ${total} words rated`;
  const now = document.activeElement.closest("fieldset") || open();
  for (const word of fieldsets()) word.classList.toggle("now", word === now);
}

function rate(item, rating) {
  rater.answers[item] = rating;
  waiting.set(`${rater.name} ${item}`, { name: rater.name, item, rating });
  say("problem", "");
  showProgress();
  send();
}

async function send() {
  if (sending) return;
  sending = true;
  while (waiting.size) {
    const [key, answer] = waiting.entries().next().value;
    at("saved").textContent = "Saving";
    try {
      await ask("rate", answer);
      if (waiting.get(key) === answer) waiting.delete(key); // else it was changed meanwhile
    } catch (problem) {
      at("saved").textContent = "";
      if (problem.final) {
        waiting.delete(key);
        delete rater.answers[answer.item];
        go(rater.shown);
      }
      const why = problem.final === undefined ? "cannot be reached" : "could not save it";
      say("problem", problem.final ? `Your last answer is not saved. ${problem.message}`
        : `The server ${why}; your answer is kept here and sent again.`);
      if (!problem.final) await new Promise((later) => setTimeout(later, 2000));
      continue;
    }
    if (!waiting.size) {
      at("saved").textContent = "Saved";
      say("problem", "");
    }
  }
  sending = false;
  if (!at("end").hidden) showEnd();
}

function next() {
  const left = open();
  if (left) {
    say("problem", `Please rate “${rater.words[left.dataset.item]}” first.`);
    left.querySelector("input").focus();
    return;
  }
  go(rater.shown + 1);
}

function showEnd() {
  only("end");
  const count = Object.keys(rater.words).length;
  at("end-text").textContent = waiting.size
    ? "Your last answers are being saved. Please leave this page open."
    : `${rater.name}, all ${count} words are rated and saved. You can close this page.`;
  at("end-title").focus();
}

// What a person does.

at("who").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(at("name").value);
});
at("go-on").addEventListener("click", () => begin(remember(localStorage)));
at("leave").addEventListener("click", showStart);
at("other").addEventListener("click", showStart);
at("back").addEventListener("click", () => go(rater.shown - 1));
at("change").addEventListener("click", () => go(rater.screens.length));
at("next").addEventListener("click", next);
at("words").addEventListener("submit", (event) => event.preventDefault());
at("words").addEventListener("change", (event) => rate(event.target.name, Number(event.target.value)));
at("words").addEventListener("focusin", showProgress);

document.addEventListener("keydown", (event) => {
  if (at("screen").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
  if (!"12345".includes(event.key)) return;
  const word = document.activeElement.closest("fieldset") || open();
  if (!word) return;
  event.preventDefault();
  const choice = word.querySelector(`input[value="${event.key}"]`);
  choice.checked = true;
  choice.focus();
  rate(word.dataset.item, Number(event.key));
  const after = fieldsets()[fieldsets().indexOf(word) + 1];
  const left = after && !rated(after.dataset.item) ? after : open();
  (left ? left.querySelector("input") : at("next")).focus();
});

window.addEventListener("hashchange", () => {
  if (rater.name) go(Number(location.hash.slice(1)) || 1);
});
window.addEventListener("beforeunload", (event) => {
  if (waiting.size) event.preventDefault();
});

const name = remember(sessionStorage);
if (name) begin(name, Number(location.hash.slice(1)));
else showStart();
