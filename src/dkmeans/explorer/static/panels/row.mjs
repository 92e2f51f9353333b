// Row panel: one row, why it is predicted as it is, and the rows like it; or the selected rows.

import { button, h, refill } from "../dom.mjs";
import { DROPPED, REJECTED, RELABELLED, SUSPECT, WRONG } from "../grid.mjs";
import {
  bar, classChoice, classLabel, facts, figure, note, picture, prototypeLink, rowLink, rowTable, section, tableHead,
} from "../parts.mjs";
import { count, cut, plural, short } from "../words.mjs";

const FLAGS = [
  [WRONG, "misclassified"], [SUSPECT, "suspect label"], [REJECTED, "rejected"],
  [DROPPED, "dropped"], [RELABELLED, "relabelled"],
];
const SHOWN_FEATURES = 12;
const SHOWN_SELECTED = 100;

/** The companions of a row that are shown beside it: answers of `prototype` and `row`. */
async function companions(store, row) {
  const { transport } = store;
  const isRow = (each) => each?.row !== null && each?.row !== undefined;
  const ask = (name, params, isThere) => (isThere ? transport.call(name, params).catch(() => null) : null);
  const hasRival = row.rival !== null && row.rival !== undefined;
  const [prototype, exemplar, rival, rivalExemplar] = await Promise.all([
    ask("prototype", { index: row.prototype }, true),
    ask("row", { row: row.exemplar?.row, layer: "training" }, isRow(row.exemplar)),
    ask("prototype", { index: row.rival }, hasRival),
    ask("row", { row: row.rival_exemplar?.row, layer: "training" }, isRow(row.rival_exemplar)),
  ]);
  return { prototype, exemplar, rival, rivalExemplar };
}

export function rowPanel(store) {
  const element = h("div", {});
  let ticket = 0;

  async function update() {
    const mine = ++ticket;
    const { row } = store;
    const selected = await selectedRows(store);
    const beside = row ? await companions(store, row) : null;
    if (mine !== ticket) return;
    refill(element, row ? rowContent(store, row, beside) : hint(store, selected), selected);
  }

  store.on("row selection", update);
  update();
  return { element, title: "Row", id: "row" };
}

function hint(store, selected) {
  if (selected) return null;
  return note(
    "Click a point on the map to see why it is predicted as it is. ",
    "Hold Shift and drag to select rows with a lasso. With the keyboard: focus the map and press Enter.",
  );
}

async function selectedRows(store) {
  const { selection, layer } = store;
  if (!selection.length) return null;
  const rows = selection.slice(0, SHOWN_SELECTED);
  const answer = await store.run(() => store.transport.call("table", { layer, rows }));
  if (!answer) return null;
  return section(
    `${plural(selection.length, "selected row")}`,
    selection.length > rows.length ? note(`The first ${count(rows.length)}:`) : null,
    rowTable(store, answer, layer),
  );
}

function rowContent(store, row, beside) {
  const { state } = store;
  const chips = FLAGS.filter(([flag]) => row.flags & flag).map(([, text]) => h("span", { class: "dkm-chip" }, text));
  const [best] = row.probabilities;
  const layer = row.layer === "training" ? "training" : "held-out";
  return [
    h("h2", {}, `Row ${count(row.row)}`),
    h("div", { class: "dkm-chips" }, h("span", { class: "dkm-chip dkm-quiet" }, `${layer} row`), chips),
    facts([
      ["Class", classLabel(store, row.class)],
      ["Predicted", classLabel(store, row.predicted), best ? ` with probability ${short(best[1])}` : ""],
      ["Margin", short(row.margin), " (0: on the border to the rival class; 1: at its prototype)"],
      row.radius !== null && row.radius !== undefined
        ? ["Certified radius", short(row.radius), " – no smaller change of the row changes its prediction"]
        : null,
      row.name ? ["In the input", String(row.name)] : null,
    ]),
    row.layer === "training" ? rowActions(store, row) : null,
    row.probabilities.length > 1 ? section("Probabilities", probabilities(store, row)) : null,
    state.image_shape ? sideBySide(store, row, beside) : null,
    section(
      "What decides",
      note("Parts of the margin: bars to the right speak for ", classLabel(store, row.predicted, 16), ", to the left for its rival."),
      decisive(store, row, beside),
    ),
    row.nearest.length ? section("Nearest rows", nearest(store, row)) : null,
  ];
}

function rowActions(store, row) {
  const rows = [row.row];
  return h(
    "div",
    { class: "dkm-buttons" },
    classChoice(store, "Relabel this row as", row.class, (category) =>
      store.edit({ kind: "relabel", rows, class: category }, `Row ${count(row.row)} relabelled as ${store.className(category)}.`),
    { "data-key": "relabel-row" }),
    row.flags & SUSPECT
      ? button("Keep label", () => store.edit({ kind: "keep", rows }, `Row ${count(row.row)} keeps its label.`), { "data-key": "keep-row" })
      : null,
    row.flags & DROPPED
      ? button("Restore row", () => store.edit({ kind: "restore_rows", rows }, `Row ${count(row.row)} restored.`), { "data-key": "drop-row" })
      : button("Drop row", () => store.edit({ kind: "drop_rows", rows }, `Row ${count(row.row)} dropped.`), { "data-key": "drop-row" }),
  );
}

function probabilities(store, row) {
  return h(
    "ul",
    { class: "dkm-bars" },
    row.probabilities.map(([category, p]) =>
      h("li", {}, classLabel(store, category, 18), bar(p), h("span", { class: "dkm-number" }, `${(100 * p).toFixed(1)} %`)),
    ),
  );
}

/** This row, its prototype and exemplar, and the rival's, as pictures. */
function sideBySide(store, row, { prototype, exemplar, rival, rivalExemplar }) {
  const shape = store.state.image_shape;
  const show = (answer, label, ...caption) =>
    answer?.image ? figure(picture(answer.image, shape, label), h("strong", {}, label), ...caption) : null;
  return section(
    "Side by side",
    h(
      "div",
      { class: "dkm-figures" },
      show(row, "This row", classLabel(store, row.class, 12)),
      prototype && show(prototype, "Its prototype", prototypeLink(store, row.prototype)),
      exemplar && show(exemplar, "Exemplar", rowLink(store, exemplar.row)),
      rival && show(rival, "Rival", prototypeLink(store, row.rival), " ", classLabel(store, rival.class, 12)),
      rivalExemplar && show(rivalExemplar, "Rival's exemplar", rowLink(store, rivalExemplar.row)),
    ),
  );
}

function decisive(store, row, { prototype, exemplar, rival }) {
  const most = Math.max(...row.features.map(([, part]) => Math.abs(part)), 1e-300);
  const lookUp = (answer) => new Map(answer?.values ?? []);
  const columns = store.state.image_shape
    ? [["Row", lookUp(row)]]
    : [["Row", lookUp(row)], ["Prototype", lookUp(prototype)], ["Exemplar", lookUp(exemplar)], ["Rival", lookUp(rival)]];
  const used = columns.filter(([, values]) => values.size);
  const names = used.map(([name]) => name);
  return h(
    "div",
    { class: "dkm-scroll" },
    h(
      "table",
      { class: "dkm-table dkm-decisive" },
      tableHead(["Feature", "Part", ...names], names),
      h(
        "tbody",
        {},
        row.features.slice(0, SHOWN_FEATURES).map(([name, part]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", title: name }, cut(name, 22)),
            h("td", { title: short(part) }, bar(part / most, true), h("span", { class: "dkm-hidden" }, short(part))),
            used.map(([, values]) => h("td", { class: "dkm-number" }, cut(values.get(name) ?? "–", 14))),
          ),
        ),
      ),
    ),
  );
}

function nearest(store, row) {
  const shape = store.state.image_shape;
  const list = h(
    "ul",
    { class: shape ? "dkm-figures" : "dkm-list" },
    row.nearest.map((each) =>
      h("li", {}, rowLink(store, each.row), classLabel(store, each.class, 14), h("span", { class: "dkm-quiet" }, short(each.distance))),
    ),
  );
  if (shape) addImages(store, list, row.nearest.map((each) => each.row), "training");
  return list;
}

/** Put the picture of each row before its list item's text, when they arrive. */
export async function addImages(store, list, rows, layer) {
  const shape = store.state.image_shape;
  const size = shape[0] * shape[1];
  const buffer = await store.run(() => store.transport.bytes("images", { rows, layer }));
  if (!buffer) return;
  const pixels = new Uint8Array(buffer);
  [...list.children].forEach((item, i) => {
    item.prepend(picture(pixels.subarray(i * size, (i + 1) * size), shape, `Row ${rows[i]}`));
  });
}
