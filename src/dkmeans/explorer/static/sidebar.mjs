// Left column: plane, layer and emphasis of the map, and the legend that filters classes.

import { swatch } from "./colours.mjs";
import { button, choice, field, h, refill } from "./dom.mjs";
import { DROPPED, REJECTED, RELABELLED, SUSPECT, WRONG } from "./grid.mjs";
import { count, cut, percent } from "./words.mjs";

const EMPHASIS = [
  [0, "All rows"], [WRONG, "Misclassified"], [SUSPECT, "Suspect labels"],
  [REJECTED, "Rejected"], [RELABELLED, "Relabelled"], [DROPPED, "Dropped"],
];

export function sidebar(store) {
  const controls = h("div", { class: "dkm-controls" });
  const legend = h("div", { class: "dkm-legend" });
  const element = h("aside", { class: "dkm-side", "aria-label": "Map settings and legend" }, controls, legend);

  function update() {
    if (!store.state) return;
    refill(controls, planeControls(store), layerControls(store), toggles(store), cellControls(store));
    refill(legend, legendContent(store));
  }

  store.on("state look points", update);
  return element;
}

function planeControls(store) {
  const { planes, features } = store.state;
  const { plane } = store;
  const pairs = features.map((name, i) => [i, cut(name, 40)]);
  return [
    field("Plane", choice("Plane", planes.map(({ id, title }) => [id, title]), plane.id, (id) => store.setPlane({ ...plane, id }), { "data-key": "plane" })),
    plane.id === "features"
      ? [
          field("Across", choice("Feature across", pairs, plane.x, (x) => store.setPlane({ ...plane, x: Number(x) }), { "data-key": "x" })),
          field("Up", choice("Feature up", pairs, plane.y, (y) => store.setPlane({ ...plane, y: Number(y) }), { "data-key": "y" })),
        ]
      : null,
  ];
}

function layerControls(store) {
  const { layers } = store.state;
  const pairs = [["training", `Training (${count(layers.training)})`]];
  if (layers.held_out) pairs.push(["held_out", `Held-out (${count(layers.held_out)})`]);
  return [
    field("Rows", choice("Rows", pairs, store.layer, (layer) => store.setLayer(layer, store.backdrop), { "data-key": "layer" })),
    field("Emphasise", choice("Emphasise", EMPHASIS, store.shown, (shown) => store.look({ shown: Number(shown) }), { "data-key": "shown" })),
  ];
}

function toggles(store) {
  const box = (text, name, value, onchange) =>
    h("label", { class: "dkm-check" }, h("input", { type: "checkbox", checked: value, "data-key": name, onchange: (event) => onchange(event.target.checked) }), text);
  const look = (text, name) => box(text, name, store[name], (value) => store.look({ [name]: value }));
  return h(
    "div",
    { class: "dkm-checks" },
    look("Prototypes", "prototypes"), look("Cells", "cellsShown"), look("Borders", "borders"),
    store.state.layers.held_out
      ? box(store.layer === "training" ? "Held-out rows behind" : "Training rows behind", "backdrop", store.backdrop, (value) => store.setLayer(store.layer, value))
      : null,
  );
}

const CELLS = [["map", "nearest on the map"], ["cut", "cut through the model"]];

/** How cells are found; only with more than two features there is a choice. */
function cellControls(store) {
  if (store.state.features.length <= 2 || !(store.cellsShown || store.borders)) return null;
  return field("Cells", choice("Cells", CELLS, store.cells, (cells) => store.look({ cells }), { "data-key": "cells" }));
}

function legendContent(store) {
  const { classes } = store.state;
  const isHeldOut = store.layer === "held_out";
  const flip = (i) => {
    const hidden = new Set(store.hidden);
    if (!hidden.delete(i)) hidden.add(i);
    store.look({ hidden });
  };
  const only = (i) => store.look({ hidden: new Set(classes.map((_, j) => j).filter((j) => j !== i)) });
  return [
    h(
      "div",
      { class: "dkm-heading" },
      h("h2", {}, "Classes"),
      store.hidden.size ? button("Show all", () => store.look({ hidden: new Set() }), { class: "dkm-link", "data-key": "show-all" }) : null,
    ),
    h(
      "ul",
      { class: "dkm-classes" },
      store.classNumbers.map((i) => {
        const each = classes[i];
        const n = isHeldOut ? each.held_out_count : each.count;
        const wrong = isHeldOut ? each.held_out_wrong : each.wrong;
        const isHidden = store.hidden.has(i);
        const words = `${each.name}: ${count(n)} rows, ${count(wrong)} misclassified`;
        return h(
          "li",
          { class: isHidden ? "dkm-off-class" : "" },
          h(
            "button",
            { type: "button", class: "dkm-legend-class", "aria-pressed": String(!isHidden), "aria-label": `${words}; show or hide`, title: words, "data-key": `class-${i}`, onclick: () => flip(i) },
            swatch(i),
            h("span", { class: "dkm-name" }, cut(each.name, 26)),
            h("span", { class: "dkm-number" }, count(n)),
            h("span", { class: "dkm-number dkm-error" }, percent(wrong, n)),
          ),
          button("only", () => only(i), { class: "dkm-link dkm-only", "aria-label": `Show only ${each.name}`, "data-key": `only-${i}` }),
        );
      }),
    ),
    h("p", { class: "dkm-note" }, "Rows and share misclassified. Outlined: misclassified. Large symbol: prototype."),
  ];
}
