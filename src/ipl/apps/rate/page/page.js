"use strict";

const MEANINGS = ["not at all", "hardly", "somewhat", "quite", "very"];
const NAME_KEY = "ipl-rating-name"; // in this browser only
const element = (id) => document.getElementById(id);
const rater = { name: "", screens: [], tasks: [], words: {}, answers: {}, current: 0 };
const unsaved = new Map(); // answers that the server has not confirmed
const RETRY_MS = 2000;
let sending = false;

function create(tag, properties, ...children) {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

function storedName(storage) {
  try {
    return storage.getItem(NAME_KEY);
  } catch {
    return null; // the browser allows no storage: the name is typed again
  }
}

function storeName(storage, name) {
  try {
    if (name === null) storage.removeItem(NAME_KEY);
    else storage.setItem(NAME_KEY, name);
  } catch { /* the browser allows no storage */ }
}

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-IPL-Rating": "1" },
    body: JSON.stringify(body),
  });
  const content = await response.json();
  if (response.ok) return content;
  const error = new Error(content.error);
  error.final = response.status < 500;
  throw error;
}

function showMessage(id, text) {
  element(id).textContent = text;
  element(id).hidden = !text;
}

function showSection(id) {
  for (const part of ["start", "screen", "end"]) element(part).hidden = part !== id;
}

// The first screen: who rates?

function showStart() {
  const known = storedName(localStorage);
  storeName(sessionStorage, null);
  rater.name = "";
  showSection("start");
  element("known").hidden = !known;
  element("continue").textContent = known ? `Continue as ${known}` : "";
  element("name-label").textContent = known ? "Or another name" : "Your name";
  element("name").value = "";
  showMessage("start-problem", "");
}

async function begin(name, number) {
  try {
    Object.assign(rater, await post("begin", { name }));
  } catch (error) {
    showStart();
    showMessage("start-problem", error.final ? error.message : "The server does not answer; try again.");
    return;
  }
  storeName(localStorage, rater.name);
  storeName(sessionStorage, rater.name);
  go(number || rater.screens.length + 1);
}

// The screens: one list of words each.

const isRated = (item) => rater.answers[item] !== undefined;
const firstUnfinished = () => {
  const index = rater.screens.findIndex((screen) => !screen.items.every(isRated));
  return index < 0 ? rater.screens.length + 1 : index + 1;
};

function go(number) {
  const allowed = Math.max(1, Math.min(number, firstUnfinished()));
  if (location.hash === `#${allowed}`) show(allowed);
  else location.hash = allowed; // hashchange shows it
}

function show(number) {
  rater.current = number;
  if (number > rater.screens.length) {
    showEnd();
    return;
  }
  const screen = rater.screens[number - 1];
  const task = rater.tasks[screen.task];
  showSection("screen");
  showMessage("problem", "");
  element("who-rates").textContent = rater.name;
  element("screen-title").textContent = `List ${number} of ${rater.screens.length}`;
  element("images").replaceChildren(...task.pictures.map((image) => create("li", {},
    create("img", { src: `pictures/${image.file}`, alt: `An image of the class ${image.label}` }),
    create("span", { textContent: image.label }))));
  const more = task.more ? ` and ${task.more} more` : "";
  element("classes").textContent = `Classes: ${task.classes.join(", ")}${more}.`;
  element("words").replaceChildren(...screen.items.map(createWord));
  element("back").disabled = number === 1;
  element("next").textContent = number === rater.screens.length ? "Finish" : "Next";
  showProgress();
  element("screen-title").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function createWord(item) {
  const scale = MEANINGS.map((meaning, index) => create("label", {},
    create("input", {
      type: "radio", name: item, value: index + 1, checked: rater.answers[item] === index + 1,
    }),
    create("b", { textContent: index + 1 }),
    create("span", { className: "hidden", textContent: ` ${meaning}` })));
  const word = create("fieldset", {}, create("legend", { textContent: rater.words[item] }),
    create("div", { className: "scale" }, ...scale));
  word.dataset.item = item;
  return word;
}

const fieldsets = () => [...element("words").querySelectorAll("fieldset")];
const firstUnrated = () => fieldsets().find((word) => !isRated(word.dataset.item));

function showProgress() {
  const total = Object.keys(rater.words).length;
  const done = Object.keys(rater.answers).length;
  element("progress").max = total;
  element("progress").value = done;
  element("progress-label").textContent = `${done} of ${total} words rated`;
  const current = document.activeElement.closest("fieldset") || firstUnrated();
  for (const word of fieldsets()) word.classList.toggle("now", word === current);
}

function rate(item, rating) {
  rater.answers[item] = rating;
  unsaved.set(`${rater.name} ${item}`, { name: rater.name, item, rating });
  showMessage("problem", "");
  showProgress();
  send();
}

async function send() {
  if (sending) return;
  sending = true;
  while (unsaved.size) {
    const [key, answer] = unsaved.entries().next().value;
    element("saved").textContent = "Saving";
    try {
      await post("rate", answer);
      if (unsaved.get(key) === answer) unsaved.delete(key); // otherwise it was changed meanwhile
    } catch (error) {
      element("saved").textContent = "";
      if (error.final) {
        unsaved.delete(key);
        delete rater.answers[answer.item];
        go(rater.current);
      }
      const reason = error.final === undefined ? "cannot be reached" : "could not save it";
      showMessage("problem", error.final ? `Your last answer is not saved. ${error.message}`
        : `The server ${reason}; your answer stays on this page and is sent again.`);
      if (!error.final) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      continue;
    }
    if (!unsaved.size) {
      element("saved").textContent = "Saved";
      showMessage("problem", "");
    }
  }
  sending = false;
  if (!element("end").hidden) showEnd();
}

function next() {
  const unrated = firstUnrated();
  if (unrated) {
    showMessage("problem", `Please rate “${rater.words[unrated.dataset.item]}” first.`);
    unrated.querySelector("input").focus();
    return;
  }
  go(rater.current + 1);
}

function showEnd() {
  showSection("end");
  const count = Object.keys(rater.words).length;
  element("end-text").textContent = unsaved.size
    ? "Your last answers are being saved. Please leave this page open."
    : `${rater.name}, all ${count} words are rated and saved. You can close this page.`;
  element("end-title").focus();
}

// What the rater does.

element("who").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(element("name").value);
});
element("continue").addEventListener("click", () => begin(storedName(localStorage)));
element("leave").addEventListener("click", showStart);
element("other").addEventListener("click", showStart);
element("back").addEventListener("click", () => go(rater.current - 1));
element("change").addEventListener("click", () => go(rater.screens.length));
element("next").addEventListener("click", next);
element("words").addEventListener("submit", (event) => event.preventDefault());
element("words").addEventListener("change", (event) => rate(event.target.name, Number(event.target.value)));
element("words").addEventListener("focusin", showProgress);

document.addEventListener("keydown", (event) => {
  if (element("screen").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
  if (!"12345".includes(event.key)) return;
  const word = document.activeElement.closest("fieldset") || firstUnrated();
  if (!word) return;
  event.preventDefault();
  const choice = word.querySelector(`input[value="${event.key}"]`);
  choice.checked = true;
  choice.focus();
  rate(word.dataset.item, Number(event.key));
  const following = fieldsets()[fieldsets().indexOf(word) + 1];
  const target = following && !isRated(following.dataset.item) ? following : firstUnrated();
  (target ? target.querySelector("input") : element("next")).focus();
});

window.addEventListener("hashchange", () => {
  if (rater.name) go(Number(location.hash.slice(1)) || 1);
});
window.addEventListener("beforeunload", (event) => {
  if (unsaved.size) event.preventDefault();
});

const name = storedName(sessionStorage);
if (name) begin(name, Number(location.hash.slice(1)));
else showStart();
