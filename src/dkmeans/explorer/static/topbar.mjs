// Top bar: title, errors, undo and redo, refit with progress, export, help.

import { button, h, icon, refill } from "./dom.mjs";
import { exportFile, exportPicture } from "./exports.mjs";
import { count, percent } from "./words.mjs";

export function topbar(store, map) {
  const title = h("h1", {});
  const errors = h("div", { class: "dkm-errors" });
  const job = h("div", { class: "dkm-job", role: "status" });
  const actions = h("div", { class: "dkm-actions" });
  const element = h("header", { class: "dkm-top" }, title, errors, job, actions);
  const menu = exportMenu(store, map);
  const help = helpDialog();

  function update() {
    const { state } = store;
    if (!state) return;
    title.textContent = state.title;
    title.title = state.journal ? `Journal of edits: ${state.journal}` : "";
    refill(errors, error("Training", state.error.training), error("Held-out", state.error.held_out), past(store));
    refill(job, store.running ? progress(store) : null);
    const edit = (name, text) =>
      button(icon(name), () => store[name](), {
        class: "dkm-tool", disabled: !text || store.running, "data-key": name,
        "aria-label": text ? `${name === "undo" ? "Undo" : "Redo"}: ${text}` : name === "undo" ? "Undo" : "Redo",
        title: text ? `${name === "undo" ? "Undo" : "Redo"}: ${text}` : `Nothing to ${name}`,
      });
    refill(
      actions,
      edit("undo", state.undo), edit("redo", state.redo),
      button("Refit", () => store.refit(), { class: "dkm-primary", disabled: store.running, "data-key": "refit", title: "Fit the model again on the corrected rows" }),
      menu,
      button("?", () => help.showModal(), { class: "dkm-tool", "aria-label": "Help: keys and symbols", title: "Help", "data-key": "help" }),
      help,
    );
  }

  store.on("state", update);
  return element;
}

function error(name, counts) {
  if (!counts) return null;
  const words = `${name} error: ${count(counts.wrong)} of ${count(counts.n)} rows are misclassified`;
  return h(
    "div",
    { class: "dkm-rate-box", title: words },
    h("span", {}, `${name} error`), h("strong", {}, percent(counts.wrong, counts.n)),
    h("span", { class: "dkm-quiet" }, `${count(counts.wrong)} of ${count(counts.n)}`),
  );
}

function past(store) {
  const { path_at: k } = store.state;
  if (k === null || k === undefined) return null;
  return h("div", { class: "dkm-past" }, `shown: ${k} prototypes`, button("back", () => store.at(null), { class: "dkm-link", "data-key": "back" }));
}

function progress(store) {
  const { text, name, done, total } = store.state.job;
  return [
    h("span", {}, text || name),
    total ? h("progress", { max: String(total), value: String(done ?? 0), "aria-label": "Progress of the refit" }) : h("progress", { "aria-label": "Progress of the refit" }),
    button("Stop", () => store.stop(), { "data-key": "stop" }),
  ];
}

function exportMenu(store, map) {
  const menu = h("details", { class: "dkm-menu" });
  const item = (label, action) =>
    button(label, async () => {
      menu.open = false;
      await store.run(action);
    }, { "data-key": `export-${label}` });
  menu.append(
    h("summary", { "aria-label": "Export" }, "Export"),
    h(
      "div",
      { class: "dkm-menu-list" },
      item("Corrected table", () => exportFile(store, "table")),
      item("Model", () => exportFile(store, "model")),
      item("Python script", () => exportFile(store, "script")),
      item("Picture (PNG)", () => exportPicture(store, map, "png")),
      item("Picture (SVG)", () => exportPicture(store, map, "svg")),
    ),
  );
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  return menu;
}

function helpDialog() {
  const keys = [
    ["Map", "arrow keys pan (Shift: faster), + and − zoom, 0 shows all rows"],
    ["", "Enter opens the row at the crosshair, P the prototype"],
    ["", "S selects the rows in the ring, [ and ] resize it, Escape clears"],
    ["Pointer", "click opens, drag pans, wheel zooms, Shift and drag draws a lasso"],
    ["Suspects", "arrows move; K keep, R relabel, D drop; X tick, A tick all; O open, M on the map"],
    ["Everywhere", "Ctrl+Z undoes, Ctrl+Shift+Z does it again"],
  ];
  const dialog = h("dialog", { class: "dkm-help", "aria-label": "Help" });
  dialog.append(
    h("h2", {}, "Keys"),
    h("dl", { class: "dkm-facts" }, keys.map(([place, text]) => [h("dt", {}, place), h("dd", {}, text)])),
    h("p", {}, "Every change can be undone and is kept in a journal on disk. The table and the model that you opened are never written."),
    h("div", { class: "dkm-buttons" }, button("Close", () => dialog.close(), { class: "dkm-primary" })),
  );
  return dialog;
}
