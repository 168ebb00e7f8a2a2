// The filter page: shows the effect of filters while they are written. It works without this script.

const PAUSE_MS = 500;

function watch(form) {
  let timer = null;
  let request = null;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, PAUSE_MS);
  });

  async function show() {
    request?.abort();
    request = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    fields.set("do", "effect");
    try {
      const response = await fetch(form.action, { method: "POST", body: fields, signal: request.signal });
      if (response.ok || response.status === 422) update(await response.text());
    } catch (error) {
      if (error.name !== "AbortError") console.warn(error);
    }
  }

  function update(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const effect = page.getElementById("effect");
    if (effect) document.getElementById("effect").replaceChildren(...effect.childNodes);
    for (const field of form.querySelectorAll("textarea")) {
      const hint = document.getElementById(field.getAttribute("aria-describedby"));
      const answer = page.getElementById(hint.id);
      if (!answer) continue;
      hint.textContent = answer.textContent;
      hint.className = answer.className;
      const isWrong = answer.className === "error";
      field.toggleAttribute("aria-invalid", isWrong);
      if (isWrong) field.setAttribute("aria-invalid", "true");
      field.closest(".field").classList.toggle("wrong", isWrong);
    }
  }
}

const form = document.querySelector("[data-filters]");
if (form) watch(form);
