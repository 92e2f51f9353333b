// The bar over the map that acts on the selected rows.

import { button, h, refill } from "./dom.mjs";
import { classChoice } from "./parts.mjs";
import { plural } from "./words.mjs";

export function selectionBar(store) {
  const element = h("div", { class: "dkm-selection", role: "region", "aria-label": "Selected rows", hidden: true });
  let category = 0;

  function update() {
    const { selection, layer } = store;
    element.hidden = selection.length === 0;
    if (!selection.length) return refill(element);
    if (!store.classNumbers.includes(category)) [category] = store.classNumbers;
    const isTraining = layer === "training";
    return refill(
      element,
      h("strong", {}, plural(selection.length, "row")),
      isTraining
        ? [
            classChoice(store, "Relabel the selected rows as", category, (value) => (category = value), { "data-key": "as" }),
            button("Relabel", () => store.relabelSelection(category), { class: "dkm-primary", "data-key": "relabel" }),
            button("Drop", () => drop(), { "data-key": "drop" }),
          ]
        : h("span", { class: "dkm-quiet" }, "held-out rows are not edited"),
      button("List", () => (store.clearRow(), store.showTab("row")), { "data-key": "list" }),
      button("Clear", () => store.select([]), { "data-key": "clear" }),
    );
  }

  async function drop() {
    const rows = store.selection;
    if (await store.edit({ kind: "drop_rows", rows }, `${plural(rows.length, "row")} dropped.`)) store.select([]);
  }

  store.on("selection state", update);
  return element;
}
