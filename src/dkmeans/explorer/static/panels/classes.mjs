// Classes panel: confusion matrix whose cells select rows, borders between classes, edits of classes.

import { button, field, h, refill } from "../dom.mjs";
import { classChoice, classLabel, note, previewEdit, section, tableHead } from "../parts.mjs";
import { count, cut, plural, short } from "../words.mjs";

const MAX_MATRIX = 50; // classes
const MAX_PAIRS = 200;

export function classesPanel(store) {
  const element = h("div", {});
  let ticket = 0;

  async function update() {
    if (store.tab !== "classes" || !store.state) return;
    const mine = ++ticket;
    const { layer } = store;
    const answers = await store.run(() =>
      Promise.all([store.transport.call("confusion", { layer }), store.transport.call("borders")]),
    );
    if (mine !== ticket || !answers) return;
    const [confusion, borders] = answers;
    refill(
      element,
      h("h2", {}, plural(store.classNumbers.length, "class", "classes")),
      section(
        layer === "training" ? "Confusion, training rows" : "Confusion, held-out rows",
        store.classNumbers.length > MAX_MATRIX ? worstPairs(store, confusion.counts) : matrix(store, confusion.counts),
      ),
      section("Borders, worst first", borderTable(store, borders.borders)),
      section("Edit classes", edits(store)),
    );
  }

  store.on("tab points", update);
  return { element, title: "Classes", id: "classes" };
}

/** Select the rows of the shown layer with this class and prediction. */
function selectCell(store, actual, predicted) {
  const { grid } = store;
  const rows = [];
  for (let i = 0; i < grid.n; i++) {
    if (grid.classes[i] === actual && grid.predicted[i] === predicted && !(grid.flags[i] & 8)) rows.push(grid.row[i]);
  }
  store.select(rows.sort((a, b) => a - b));
  store.say(`${plural(rows.length, "row")} of ${store.className(actual)} predicted as ${store.className(predicted)} selected.`);
}

/** Classes that are confused most often, where a matrix would be too large. */
function worstPairs(store, counts) {
  const pairs = counts
    .flatMap((line, i) => line.map((n, j) => ({ n, i, j })))
    .filter(({ n, i, j }) => n > 0 && i !== j)
    .sort((a, b) => b.n - a.n || a.i - b.i || a.j - b.j);
  if (!pairs.length) return note("No row is misclassified.");
  return [
    note(`The ${plural(Math.min(pairs.length, MAX_PAIRS), "most frequent confusion")}; a number selects its rows on the map.`),
    h(
      "div",
      { class: "dkm-scroll dkm-tall" },
      h(
        "table",
        { class: "dkm-table" },
        tableHead(["Class", "Predicted", "Rows"], ["Rows"]),
        h(
          "tbody",
          {},
          pairs.slice(0, MAX_PAIRS).map(({ n, i, j }) =>
            h(
              "tr",
              {},
              h("td", {}, classLabel(store, i, 18)),
              h("td", {}, classLabel(store, j, 18)),
              h("td", { class: "dkm-number" }, button(count(n), () => selectCell(store, i, j), { class: "dkm-link", "data-key": `cell-${i}-${j}` })),
            ),
          ),
        ),
      ),
    ),
  ];
}

function matrix(store, counts) {
  const { classes } = store.state;
  const numbers = store.classNumbers;
  const wrong = numbers.reduce((most, i) => numbers.reduce((so, j) => (i === j ? so : Math.max(so, counts[i][j])), most), 1);
  const cell = (n, i, j) => {
    if (n === 0) return h("td", { class: "dkm-zero" }, "·");
    const label = `${count(n)} rows of ${classes[i].name} predicted as ${classes[j].name}`;
    const element = h(
      "td",
      { class: i === j ? "dkm-hit" : "dkm-miss" },
      button(count(n), () => selectCell(store, i, j), { "aria-label": label, title: label, "data-key": `cell-${i}-${j}` }),
    );
    if (i !== j) element.style.setProperty("--heat", String(0.15 + (0.65 * n) / wrong));
    return element;
  };
  const most = numbers.length > 12 ? 6 : 10;
  const table = h(
    "div",
    { class: "dkm-scroll dkm-tall" },
    h(
      "table",
      { class: "dkm-matrix" },
      h(
        "thead",
        {},
        h("tr", {}, h("td", {}), numbers.map((j) => h("th", { scope: "col" }, classLabel(store, j, most)))),
      ),
      h(
        "tbody",
        {},
        numbers.map((i) =>
          h("tr", {}, h("th", { scope: "row" }, classLabel(store, i, 12)), numbers.map((j) => cell(counts[i][j], i, j))),
        ),
      ),
    ),
  );
  return [note("A cell selects its rows on the map. Rows: class; columns: prediction."), table];
}

/** Select the rows whose class and prediction are the two classes of a border, and show only those. */
function selectBorder(store, [a, b]) {
  const { grid } = store;
  const rows = [];
  for (let i = 0; i < grid.n; i++) {
    const pair = [grid.classes[i], grid.predicted[i]];
    if (pair[0] !== pair[1] && pair.includes(a) && pair.includes(b)) rows.push(grid.row[i]);
  }
  store.select(rows.sort((x, y) => x - y));
  store.say(`${plural(rows.length, "row")} on the wrong side of this border selected.`);
}

function borderTable(store, borders) {
  if (!borders.length) return note("No two classes meet.");
  return h(
    "div",
    { class: "dkm-scroll" },
    h(
      "table",
      { class: "dkm-table" },
      tableHead(["Classes", "Rows", "Wrong", "Margin"], ["Rows", "Wrong", "Margin"]),
      h(
        "tbody",
        {},
        borders.slice(0, 100).map((each) =>
          h(
            "tr",
            {},
            h("td", {}, classLabel(store, each.classes[0], 14), " – ", classLabel(store, each.classes[1], 14)),
            h("td", { class: "dkm-number" }, count(each.rows)),
            h(
              "td",
              { class: "dkm-number" },
              each.wrong
                ? button(count(each.wrong), () => selectBorder(store, each.classes), {
                    class: "dkm-link", "data-key": `border-${each.classes.join("-")}`,
                    "aria-label": `Select the ${each.wrong} wrong rows of this border`,
                  })
                : "0",
            ),
            h("td", { class: "dkm-number" }, short(each.margin)),
          ),
        ),
      ),
    ),
  );
}

function edits(store) {
  const place = h("div", { class: "dkm-effect", "aria-live": "polite" });
  const name = h("input", { type: "text", maxlength: "80", required: true, "data-key": "new-class" });
  const add = (event) => {
    event.preventDefault();
    store.edit({ kind: "add_class", name: name.value }, `Class ${cut(name.value)} added; relabel rows to fill it.`);
  };
  let [from, into] = store.classNumbers;
  return [
    h("form", { class: "dkm-line", onsubmit: add }, field("New class", name), h("button", { "data-key": "add-class" }, "Add")),
    store.classNumbers.length > 1
      ? h(
          "div",
          { class: "dkm-line" },
          field("Merge", classChoice(store, "Merge this class", from, (value) => (from = value), { "data-key": "merge-from" })),
          field("into", classChoice(store, "into this class", into, (value) => (into = value), { "data-key": "merge-into" })),
          button(
            "Merge …",
            () =>
              previewEdit(
                store, place, `Merge ${store.className(from)} into ${store.className(into)}`,
                { kind: "merge_classes", from, into }, "Classes merged.",
              ),
            { "data-key": "merge-classes" },
          ),
        )
      : null,
    place,
  ];
}
