// Live pages: times in the viewer's time zone, and parts of the page that are updated after
// events. Every page works without this script.

const SECOND = 1000;
const QUIET = 1.2 * SECOND; // least time between two updates
// a time in a text, as the server writes it
const MOMENT = /(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:Z| UTC)/g;

const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const numbers = new Intl.NumberFormat("en");
// error of the viewer's clock, if larger than the time a page takes to load
const off = Date.parse(document.documentElement.dataset.now) - Date.now();
const skew = Math.abs(off) > 10 * SECOND ? off : 0;

function now() {
  return Date.now() + skew;
}

function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  for (const [index, [size, unit]] of units.entries()) {
    if (seconds >= size || size === 1) {
      const count = Math.floor(seconds / size);
      const next = units[index + 1];
      const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
      return count < 10 && rest ? `${count} ${unit} ${rest} ${next[1]}` : `${count} ${unit}`;
    }
  }
  return "0 s";
}

function inWords(moment) {
  const seconds = (moment.getTime() - now()) / SECOND;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

function inZone(text) {
  return text.replaceAll(MOMENT, (_, day, time) => zoned.format(new Date(`${day}T${time}Z`)));
}

function timeText(element, moment) {
  const isOver = moment.getTime() <= now();
  if (element.hasAttribute("data-clock")) return zoned.format(moment);
  if (element.hasAttribute("data-due") && isOver) return "due now";
  if (element.hasAttribute("data-until") && isOver) return "now";
  return element.hasAttribute("data-words") ? inWords(moment) : element.textContent;
}

// write only what has changed, so that the browser does not repaint the page every second
function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const title = zoned.format(moment);
    const text = timeText(element, moment);
    if (element.title !== title) element.title = title;
    if (element.textContent !== text) element.textContent = text;
  }
}

function showMoments(root) {
  for (const element of root.querySelectorAll("[data-moments]")) {
    const label = element.getAttribute("aria-label");
    if (label) element.setAttribute("aria-label", inZone(label));
    else element.textContent = inZone(element.textContent);
  }
}

// --- Updated parts: every element with an id and `data-live`.

let wanted = null;
let looking = false;

function updateSoon() {
  if (wanted === null) wanted = setTimeout(look, QUIET);
}

async function look() {
  wanted = null;
  if (document.hidden) return;
  if (looking) return updateSoon(); // the running update may not include the new event
  if (document.querySelector("[data-live] :focus:is(input:not([type=radio]), select, textarea)")) return updateSoon();
  looking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok && !answer.redirected) renew(await answer.text());
  } catch {
    // the event stream reconnects when the server is back
  } finally {
    looking = false;
  }
}

function renew(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  showTimes(fresh);
  showMoments(fresh);
  // lists keep their height, so that the content below does not jump
  for (const list of document.querySelectorAll("[data-steady]")) {
    list.style.minHeight = `${list.offsetHeight}px`;
  }
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const other = fresh.getElementById(part.id);
    if (!other) continue;
    const focused = document.activeElement?.id;
    patch(part, other);
    if (focused && !document.activeElement?.id) document.getElementById(focused)?.focus();
  }
}

// Update an element from a new version with as few changes as possible: focus, choices, opened
// details and scroll positions stay.
function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-kept")) return;
  patchAttributes(old, fresh);
  const named = new Map([...old.children].filter(nameOf).map((child) => [nameOf(child), child]));
  const wanted = new Set([...fresh.children].map(nameOf));
  for (const [name, child] of named) if (!wanted.has(name)) child.remove();
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const match = named.get(nameOf(next)) ?? (at && areAlike(at, next) ? at : null);
    if (!match) {
      old.insertBefore(next, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    patch(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function nameOf(node) {
  return node.id || node.dataset?.key || "";
}

function areAlike(one, other) {
  return one.nodeName === other.nodeName && !nameOf(one) && !nameOf(other);
}

const OURS = new Set(["open", "style"]); // set by the user or this script

function patchAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!OURS.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!OURS.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

function follow() {
  if (!document.querySelector("[data-live][id]") || !document.querySelector("nav.main")) return;
  const source = new EventSource("/api/events");
  const state = document.querySelector("[data-live-state]");
  const say = (text, isLive) => {
    if (!state) return;
    state.textContent = text;
    state.classList.toggle("on", isLive);
  };
  source.onopen = () => {
    say("live", true);
    updateSoon(); // events between page load and stream start were not received
  };
  source.onerror = () => say("reconnecting…", false);
  for (const kind of ["poll.finished", "post.created", "source.disabled", "source.recovered",
    "poll.started", "tick", "outage", "reset"]) {
    source.addEventListener(kind, updateSoon);
  }
  source.addEventListener("post.created", (event) => {
    document.dispatchEvent(new CustomEvent("newpost", { detail: JSON.parse(event.data) }));
  });
  document.addEventListener("visibilitychange", updateSoon);
}

// --- Menus, forms and validation.

function selectAll() {
  for (const box of document.querySelectorAll("input[data-all]")) {
    const others = [...document.querySelectorAll(`input[name="${box.dataset.all}"]`)];
    const follow = () => {
      const chosen = others.filter((other) => other.checked).length;
      box.checked = chosen > 0 && chosen === others.length;
      box.indeterminate = chosen > 0 && chosen < others.length;
    };
    box.addEventListener("change", () => {
      for (const other of others) other.checked = box.checked;
    });
    for (const other of others) other.addEventListener("change", follow);
    follow();
  }
}

function closesMenus() {
  const close = (menu) => { menu.open = false; };
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) close(menu);
    }
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    close(menu);
    menu.querySelector("summary").focus();
  });
}

// A form with `data-answer` shows its result in the element of that id, without a page load; the
// server returns {tone, text}.
function answersInPlace() {
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const said = document.getElementById(form.dataset.answer ?? "");
    if (!said || event.defaultPrevented) return;
    event.preventDefault();
    if (said.hasAttribute("aria-busy")) return;
    const say = (tone, text) => {
      said.classList.remove("good", "warn", "bad");
      if (tone) said.classList.add(tone);
      said.textContent = inZone(text);
    };
    said.setAttribute("aria-busy", "true");
    say("", form.dataset.waiting ?? "…");
    try {
      const body = new URLSearchParams(new FormData(form));
      const headers = { Accept: "application/json" };
      const answer = await fetch(form.action, { method: "POST", headers, body });
      if (!answer.ok && answer.status !== 429) throw new Error(String(answer.status));
      const { tone, text } = await answer.json();
      say(tone, text);
    } catch {
      say("bad", "That did not work. Reload the page to see how things stand.");
    } finally {
      said.removeAttribute("aria-busy");
      updateSoon();
    }
  });
}

// A form with `data-check` shows the error of a field when it loses focus.
function checksFields() {
  const check = (input) => {
    const hint = document.getElementById(`h-${input.name}`);
    if (!hint || !input.validationMessage === !input.hasAttribute("data-hint")) return;
    input.closest(".field")?.classList.toggle("wrong", !input.validity.valid);
    if (input.validity.valid) {
      hint.textContent = input.dataset.hint;
      input.removeAttribute("data-hint");
      input.removeAttribute("aria-invalid");
    } else {
      input.dataset.hint = hint.classList.contains("hint") ? hint.textContent : "";
      input.setAttribute("aria-invalid", "true");
      hint.textContent = wrongWith(input);
    }
    hint.className = input.validity.valid ? "hint" : "error";
  };
  for (const form of document.querySelectorAll("form[data-check]")) {
    form.addEventListener("focusout", (event) => { if (event.target.name) check(event.target); });
    form.addEventListener("invalid", (event) => {
      // the browser shows no message for a hidden field
      event.target.closest("details")?.setAttribute("open", "");
      check(event.target);
    }, true);
  }
}

function wrongWith(input) {
  const { valueMissing, typeMismatch } = input.validity;
  if (input.type === "number") {
    const [least, most] = [input.min, input.max].map((text) => numbers.format(Number(text)));
    return `Write a whole number from ${least} to ${most}.`;
  }
  return valueMissing && !typeMismatch ? "This cannot be empty." : input.validationMessage;
}

// the cookie lets the server render the next page in these colours
function choosesTheme() {
  const choice = document.querySelector("[data-theme-choice]");
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    const theme = event.target.value;
    document.documentElement.dataset.theme = theme;
    document.cookie = `headwater-theme=${theme}; path=/; max-age=31536000; samesite=strict`;
  });
}

showTimes(document);
showMoments(document);
setInterval(() => showTimes(document), SECOND);
addEventListener("resize", () => {
  for (const list of document.querySelectorAll("[data-steady]")) list.style.minHeight = "";
});
follow();
selectAll();
closesMenus();
answersInPlace();
checksFields();
choosesTheme();
