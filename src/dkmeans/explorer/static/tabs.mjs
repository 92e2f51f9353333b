// Tabs of the right column, after the pattern of the ARIA practices.

import { h } from "./dom.mjs";

export function tabs(store, panels) {
  const prefix = `dkm-${Math.floor(performance.now())}`;
  const buttons = panels.map(({ id, title }) =>
    h(
      "button",
      { type: "button", role: "tab", id: `${prefix}-tab-${id}`, "aria-controls": `${prefix}-${id}`, onclick: () => store.showTab(id) },
      title,
    ),
  );
  const bodies = panels.map(({ id, element }) =>
    h("div", { role: "tabpanel", id: `${prefix}-${id}`, class: `dkm-panel dkm-panel-${id}`, "aria-labelledby": `${prefix}-tab-${id}`, tabindex: "0" }, element),
  );
  const list = h("div", { class: "dkm-tabs", role: "tablist", "aria-label": "Panels" }, buttons);

  list.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    const now = panels.findIndex(({ id }) => id === store.tab);
    let next = steps[event.key] && (now + steps[event.key] + panels.length) % panels.length;
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = panels.length - 1;
    if (next === undefined) return;
    event.preventDefault();
    store.showTab(panels[next].id);
    buttons[next].focus();
  });

  function update() {
    panels.forEach(({ id }, i) => {
      const isShown = id === store.tab;
      buttons[i].setAttribute("aria-selected", String(isShown));
      buttons[i].tabIndex = isShown ? 0 : -1;
      bodies[i].hidden = !isShown;
    });
  }

  store.on("tab", update);
  update();
  return h("section", { class: "dkm-right", "aria-label": "Details" }, list, ...bodies);
}
