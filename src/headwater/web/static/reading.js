// The list of posts: a reading pane beside it, keyboard shortcuts, marks of what was read, and an
// announcement of new posts. Without this script every post opens on a page of its own.

const READ_KEY = "headwater-read"; // ids of posts that were read in this browser
const MOST_READ = 2000;
const SOON = 500; // after a new post: others often follow
const INDEXED = 10_000; // by then searches find it, and copies are grouped
const wide = matchMedia("(min-width: 64rem)");
const items = [...document.querySelectorAll(".posts > li")];
const pane = document.getElementById("reading");
const help = document.getElementById("keys");
let current = -1;
let loading = null;

// --- What was read, in this browser only.

function readIds() {
  try {
    return new Set(JSON.parse(localStorage.getItem(READ_KEY)));
  } catch {
    return new Set();
  }
}

function mark(item, isRead) {
  const ids = readIds();
  ids.delete(item.dataset.post);
  if (isRead) ids.add(item.dataset.post);
  try {
    localStorage.setItem(READ_KEY, JSON.stringify([...ids].slice(-MOST_READ)));
  } catch {
    // no storage: marks last as long as the page
  }
  item.classList.toggle("read", isRead);
}

// --- The reading pane of a wide window.

const linkOf = (item) => item.querySelector(".title a");

async function show(index) {
  const item = items[index];
  current = index;
  for (const other of items) other.classList.toggle("current", other === item);
  loading?.abort();
  loading = new AbortController();
  pane.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(linkOf(item).href, { signal: loading.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    pane.replaceChildren(...fresh.getElementById("reading").childNodes);
    pane.scrollTop = 0;
    mark(item, true);
  } catch (error) {
    if (error.name === "AbortError") return;
    location.assign(linkOf(item).href); // its page says what is wrong
  }
  pane.removeAttribute("aria-busy");
}

function go(step) {
  if (!items.length) return;
  const index = Math.min(Math.max(current + step, 0), items.length - 1);
  if (index === current) return;
  linkOf(items[index]).focus({ preventScroll: true });
  items[index].scrollIntoView({ block: "nearest" });
  if (wide.matches) show(index);
  else current = index;
}

function openOriginal() {
  const url = items[current]?.dataset.original;
  if (url) window.open(url, "_blank", "noopener,noreferrer");
}

// --- Keys.

const KEYS = {
  j: () => go(1),
  k: () => go(-1),
  o: openOriginal,
  m: () => current >= 0 && mark(items[current], !items[current].classList.contains("read")),
  "/": () => document.querySelector(".for-posts :is(input, select):not([type=hidden])").focus(),
  "?": () => help.showModal(),
};

function onKey(event) {
  const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping || help.open) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

// --- New posts of this list are announced, the list stays as it is.

function announce(place) {
  const { podcast, source, url, countUrl } = place.dataset;
  let soon = null;
  let later = null;

  async function count() {
    soon = null;
    const answer = await fetch(countUrl).catch(() => null); // the next post asks again
    if (!answer?.ok) return;
    const { count, more } = await answer.json();
    if (!count) return place.replaceChildren();
    const link = document.createElement("a");
    link.href = url;
    link.textContent = count === 1 && !more ? "1 new post" : `${count}${more ? "+" : ""} new posts`;
    place.replaceChildren(link);
  }

  document.addEventListener("newpost", ({ detail }) => {
    if (detail.podcastId !== podcast || (source && detail.sourceId !== source)) return;
    soon ??= setTimeout(count, SOON);
    clearTimeout(later);
    later = setTimeout(count, INDEXED);
  });
}

const ids = readIds();
for (const [index, item] of items.entries()) {
  item.classList.toggle("read", ids.has(item.dataset.post));
  linkOf(item).addEventListener("click", (event) => {
    if (!wide.matches) return mark(item, true);
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(index);
  });
  linkOf(item).addEventListener("focus", () => { if (!wide.matches) current = index; });
}
document.addEventListener("keydown", onKey);
const place = document.querySelector("[data-arrivals]");
if (place) announce(place);
