// Pages that add sources: a busy button, file drop, and choosing parts of a page in place. The forms
// work without this script.

const MIB = 1024 * 1024;

function sayBusy() {
  const words = new Map();
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.defaultPrevented || !button?.dataset.busy) return;
    words.set(button, [...button.childNodes]);
    button.replaceChildren(button.dataset.busy);
    button.setAttribute("aria-disabled", "true");
  });
  // a second click would send the form twice
  document.addEventListener("click", (event) => {
    if (event.target.closest("button[aria-disabled]")) event.preventDefault();
  });
  addEventListener("pageshow", () => {
    for (const [button, nodes] of words) {
      button.replaceChildren(...nodes);
      button.removeAttribute("aria-disabled");
    }
    words.clear();
  });
}

function takeFiles() {
  const input = document.querySelector("[data-drop] input[type=file]");
  if (!input) return;
  const zone = input.closest("[data-drop]");
  zone.classList.add("scripted");
  zone.querySelector("[data-file-hint]").hidden = false;
  input.addEventListener("change", () => tell(zone, input));
  tell(zone, input);
  // accept the file on the whole page: outside the zone the browser would open it
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") take(zone, input, event.dataTransfer.files[0]);
    });
  }
}

function take(zone, input, file) {
  if (!file) return;
  const list = new DataTransfer();
  list.items.add(file);
  input.files = list.files;
  tell(zone, input);
}

function tell(zone, input) {
  const file = input.files[0];
  const most = Number(input.dataset.most);
  const tooLarge = Boolean(file) && file.size > most;
  if (file) {
    document.querySelector("[data-file-error]").textContent = tooLarge
      ? `${file.name} has ${(file.size / MIB).toFixed(1)} MB; a list may have ${(most / MIB).toFixed(1)} MB.`
      : "";
  }
  if (tooLarge) input.value = "";
  const chosen = Boolean(file) && !tooLarge;
  zone.querySelector("[data-file-name]").textContent = chosen ? file.name : "Choose an OPML file";
  zone.querySelector("[data-file-hint]").textContent =
    chosen ? "ready to import; choose or drop another to replace it" : "or drop it here";
}

// A click on a part of a page: show the new state without loading the whole page again.
function swapParts() {
  document.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (!button?.hasAttribute("data-swap")) return;
    event.preventDefault();
    if (document.body.hasAttribute("data-swapping")) return; // one click at a time
    document.body.setAttribute("data-swapping", "");
    const form = event.target;
    try {
      const body = new URLSearchParams(new FormData(form, button));
      const answer = await fetch(button.formAction, { method: "POST", body });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!fresh.getElementById("parts")) throw new Error("the page cannot be shown");
      swap(fresh, `[data-swap][name="${button.name}"][value="${CSS.escape(button.value)}"]`);
    } catch { // load the page, which shows what is wrong
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name: button.name, value: button.value }));
      form.action = button.formAction;
      form.submit();
    } finally {
      document.body.removeAttribute("data-swapping");
    }
  });
}

function swap(fresh, clicked) {
  for (const old of document.querySelectorAll("[data-swapped][id]")) {
    const other = fresh.getElementById(old.id);
    if (!other) continue;
    if (old.role === "status") old.textContent = other.textContent; // the same element is read out
    else old.replaceWith(other);
  }
  document.querySelector(clicked)?.focus({ preventScroll: true });
}

sayBusy();
takeFiles();
swapParts();
