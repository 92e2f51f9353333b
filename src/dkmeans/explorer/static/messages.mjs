// One line that tells what happened; errors stay until they are closed.

import { button, h, icon } from "./dom.mjs";

const STAY_MS = 8000;

export function messages(store) {
  const text = h("span", {});
  const close = button(icon("close"), () => hide(), { class: "dkm-tool", "aria-label": "Close the message" });
  const element = h("div", { class: "dkm-message", role: "status", "aria-live": "polite", hidden: true }, text, close);
  let timer = null;

  function hide() {
    element.hidden = true;
  }

  store.on("message", () => {
    clearTimeout(timer);
    text.textContent = store.message.text;
    element.classList.toggle("dkm-failed", store.message.isError);
    element.setAttribute("role", store.message.isError ? "alert" : "status");
    element.hidden = false;
    if (!store.message.isError) timer = setTimeout(hide, STAY_MS);
  });
  return element;
}
