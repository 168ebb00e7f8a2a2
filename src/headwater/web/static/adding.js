// Comforts of the screens that add sources: a button that says what it is doing, and files that
// can be dropped. The forms work without this file.

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
  // a second press while the first is under way would ask twice
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
  // the whole page takes the file: beside the zone a browser would leave the page and open it
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

sayBusy();
takeFiles();
