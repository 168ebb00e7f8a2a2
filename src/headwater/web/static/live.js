// Live pages: times in the viewer's zone, and parts of the page that renew themselves when
// something happened. Everything works without this file; it only saves reloading.

const SECOND = 1000;
const WORDS_EVERY = 15 * SECOND;
const QUIET = 1.2 * SECOND; // at most one look per this long, however much happens

const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

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
  const seconds = (moment.getTime() - Date.now()) / SECOND;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

export function showTimes(root, which = "time[datetime]") {
  for (const element of root.querySelectorAll(which)) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    element.title = zoned.format(moment);
    if (element.hasAttribute("data-words")) element.textContent = inWords(moment);
    if (element.hasAttribute("data-due") && moment <= new Date()) element.textContent = "due now";
    if (element.hasAttribute("data-clock")) element.textContent = zoned.format(moment);
  }
}

// --- Parts that renew themselves: every element with an id and `data-live`.

let wanted = null;
let looking = false;

function lookSoon() {
  if (wanted === null) wanted = setTimeout(look, QUIET);
}

async function look() {
  wanted = null;
  if (document.hidden) return;
  if (looking) return lookSoon(); // what happened meanwhile may not be in that answer
  if (document.querySelector("[data-live] :focus:is(input:not([type=radio]), select, textarea)")) return lookSoon();
  looking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok && !answer.redirected) renew(await answer.text());
  } catch {
    // the stream says when the server is back
  } finally {
    looking = false;
  }
}

function renew(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const other = fresh.getElementById(part.id);
    if (!other) continue;
    showTimes(other);
    if (part.innerHTML === other.innerHTML) continue;
    const focused = document.activeElement?.id;
    part.replaceChildren(...other.childNodes);
    if (focused && !document.activeElement?.id) document.getElementById(focused)?.focus();
  }
}

function follow() {
  if (!document.querySelector("[data-live][id]") || !document.querySelector("nav.main")) return;
  const source = new EventSource("/api/events");
  const state = document.querySelector("[data-live-state]");
  const say = (text) => { if (state) { state.hidden = false; state.textContent = text; } };
  source.onopen = () => {
    say("live");
    lookSoon(); // what happened between the page and the stream was told to nobody
  };
  source.onerror = () => say("reconnecting…");
  for (const kind of ["poll.finished", "post.created", "source.disabled", "source.recovered",
    "poll.started", "tick", "outage", "reset"]) {
    source.addEventListener(kind, lookSoon);
  }
  document.addEventListener("visibilitychange", lookSoon);
}

// --- Small comforts.

function selectAll() {
  for (const box of document.querySelectorAll("input[data-all]")) {
    box.addEventListener("change", () => {
      for (const other of document.querySelectorAll(`input[name="${box.dataset.all}"]`)) {
        other.checked = box.checked;
      }
    });
  }
}

function confirmations() {
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
}

// A form with `data-answer` says what came of it in the element of that id, without leaving the
// page; the server answers {tone, text}.
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
      said.textContent = text;
    };
    said.setAttribute("aria-busy", "true");
    say("", form.dataset.waiting ?? "…");
    try {
      const body = new URLSearchParams(new FormData(form));
      const headers = { Accept: "application/json" };
      const answer = await fetch(form.action, { method: "POST", headers, body });
      if (!answer.ok) throw new Error(String(answer.status));
      const { tone, text } = await answer.json();
      say(tone, text);
    } catch {
      say("bad", "That did not work. Reload the page to see how things stand.");
    } finally {
      said.removeAttribute("aria-busy");
      lookSoon();
    }
  });
}

// A form with `data-check` says at each field what is wrong with it, as soon as one leaves it.
function checksFields() {
  const told = (input) => {
    const hint = document.getElementById(`h-${input.name}`);
    if (!hint || !input.validationMessage === !input.hasAttribute("data-told")) return;
    input.closest(".field")?.classList.toggle("wrong", !input.validity.valid);
    if (input.validity.valid) {
      hint.textContent = input.dataset.told;
      input.removeAttribute("data-told");
      input.removeAttribute("aria-invalid");
    } else {
      input.dataset.told = hint.classList.contains("hint") ? hint.textContent : "";
      input.setAttribute("aria-invalid", "true");
      hint.textContent = input.validationMessage;
    }
    hint.className = input.validity.valid ? "hint" : "error";
  };
  for (const form of document.querySelectorAll("form[data-check]")) {
    form.addEventListener("focusout", (event) => { if (event.target.name) told(event.target); });
    form.addEventListener("invalid", (event) => told(event.target), true);
  }
}

showTimes(document);
setInterval(() => showTimes(document), WORDS_EVERY);
setInterval(() => showTimes(document, "time[data-countdown]"), SECOND);
follow();
selectAll();
confirmations();
answersInPlace();
checksFields();
