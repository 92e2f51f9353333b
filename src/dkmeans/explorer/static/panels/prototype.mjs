// Prototype panel: what a prototype is, and edits of it whose effect is shown before they are accepted.

import { button, choice, field, h, refill } from "../dom.mjs";
import { bar, classLabel, facts, note, picture, previewEdit, prototypeLink, rowLink, section, tableHead } from "../parts.mjs";
import { count, cut, percent, plural, short } from "../words.mjs";

const SHOWN_VALUES = 60;

export function prototypePanel(store) {
  const element = h("div", {});
  let ticket = 0;

  async function update() {
    const mine = ++ticket;
    const index = store.prototype;
    if (index === null) {
      refill(element, overview(store));
      return;
    }
    const answer = await store.run(() => store.transport.call("prototype", { index }));
    if (mine === ticket && answer) refill(element, content(store, answer));
  }

  store.on("prototype row", update);
  update();
  return { element, title: "Prototype", id: "prototype" };
}

/** All prototypes, largest first, when none is chosen. */
function overview(store) {
  const prototypes = [...(store.state?.prototypes ?? [])].sort((a, b) => b.members - a.members);
  return [
    h("h2", {}, plural(prototypes.length, "prototype")),
    note("Choose one here or on the map, where they are the large symbols."),
    h(
      "div",
      { class: "dkm-scroll dkm-tall" },
      h(
        "table",
        { class: "dkm-table" },
        tableHead(["Prototype", "Class", "Members", "Purity"], ["Members", "Purity"]),
        h(
          "tbody",
          {},
          prototypes.slice(0, 500).map((each) =>
            h(
              "tr",
              {},
              h("td", {}, prototypeLink(store, each.index)),
              h("td", {}, classLabel(store, each.class, 16)),
              h("td", { class: "dkm-number" }, short(each.members)),
              h("td", { class: "dkm-number" }, percent(each.purity, 1)),
            ),
          ),
        ),
      ),
    ),
  ];
}

function content(store, prototype) {
  const { state } = store;
  const shape = state.image_shape;
  return [
    h(
      "div",
      { class: "dkm-heading" },
      h("h2", {}, cut(prototype.name || `Prototype ${prototype.id}`, 40)),
      button("All prototypes", () => store.choosePrototype(null), { class: "dkm-link", "data-key": "all" }),
    ),
    shape && prototype.image ? picture(prototype.image, shape, `Prototype ${prototype.id}`) : null,
    facts([
      ["Class", classLabel(store, prototype.class)],
      ["Members", short(prototype.members)],
      ["Purity", percent(prototype.purity, 1)],
      ["Exemplar", prototype.exemplar ? rowLink(store, prototype.exemplar.row) : "–"],
      ["Id", String(prototype.id)],
    ]),
    section("Members by class", classCounts(store, prototype)),
    section("Place in the tree", tree(store, prototype)),
    section("Neighbours", neighbours(store, prototype)),
    section("Edit", edits(store, prototype)),
    shape ? null : section("Profile", profile(prototype)),
  ];
}

function classCounts(store, prototype) {
  const total = prototype.class_counts.reduce((sum, [, n]) => sum + n, 0);
  return h(
    "ul",
    { class: "dkm-bars" },
    prototype.class_counts.map(([category, n]) =>
      h("li", {}, classLabel(store, category, 18), bar(n / total), h("span", { class: "dkm-number" }, short(n))),
    ),
  );
}

function tree(store, prototype) {
  const byId = new Map(store.state.prototypes.map((each) => [each.id, each.index]));
  const node = (id) => (byId.has(id) ? prototypeLink(store, byId.get(id)) : h("span", { class: "dkm-quiet" }, `id ${id} (no longer there)`));
  const isRoot = prototype.parent === null || prototype.parent === undefined || prototype.parent < 0;
  return facts([
    ["Split from", isRoot ? "nothing: a root" : node(prototype.parent)],
    ["Children", prototype.children.length ? prototype.children.map((id) => [node(id), " "]) : "none"],
  ]);
}

function neighbours(store, prototype) {
  return h(
    "ul",
    { class: "dkm-list" },
    prototype.neighbours.map(({ index, distance }) =>
      h(
        "li",
        {},
        prototypeLink(store, index),
        classLabel(store, store.state.prototypes[index].class, 16),
        h("span", { class: "dkm-quiet" }, `distance ${short(distance)}`),
      ),
    ),
  );
}

function edits(store, prototype) {
  const { index } = prototype;
  const place = h("div", { class: "dkm-effect", "aria-live": "polite" });
  const name = h("input", { type: "text", value: prototype.name ?? "", maxlength: "80", "data-key": "name" });
  const own = `prototype ${prototype.id}`;
  const rename = (event) => {
    event.preventDefault();
    store.edit({ kind: "rename_prototype", index, name: name.value }, "Prototype renamed.");
  };
  const others = mergeable(store, prototype).map((each) => [each, cut(store.prototypeName(each), 30)]);
  const partner = choice("Merge with", others, others[0]?.[0] ?? "", () => {}, { "data-key": "partner" });
  const { row } = store;
  const canMove = row && row.layer === "training";
  return [
    h("form", { class: "dkm-line", onsubmit: rename }, field("Name", name), h("button", { "data-key": "rename" }, "Rename")),
    h(
      "div",
      { class: "dkm-line" },
      button(
        canMove ? `Move to row ${count(row.row)} …` : "Move to a row …",
        () => previewEdit(store, place, `Move ${own} to row ${count(row.row)}`, { kind: "move", index, row: row.row }, "Prototype moved."),
        { disabled: !canMove, "data-key": "move" },
      ),
      canMove ? null : h("span", { class: "dkm-quiet" }, "choose a training row first"),
    ),
    others.length
      ? h(
          "div",
          { class: "dkm-line" },
          field("Merge with", partner),
          button(
            "Merge …",
            () => {
              const other = Number(partner.value);
              previewEdit(
                store, place, `Merge ${own} and ${store.prototypeName(other)}`,
                { kind: "merge_prototypes", indices: [index, other] }, "Prototypes merged.",
              );
            },
            { "data-key": "merge" },
          ),
        )
      : null,
    h(
      "div",
      { class: "dkm-line" },
      button(
        "Drop …",
        () => previewEdit(store, place, `Drop ${own}`, { kind: "drop_prototype", index }, "Prototype dropped."),
        { "data-key": "drop" },
      ),
    ),
    place,
  ];
}

/** Other prototypes of the class, nearest first where that is known. */
function mergeable(store, { index, class: category, neighbours }) {
  const near = neighbours.map((each) => each.index);
  const rank = (each) => (near.includes(each) ? near.indexOf(each) : near.length);
  return store.state.prototypes
    .filter((each) => each.class === category && each.index !== index)
    .map((each) => each.index)
    .sort((a, b) => rank(a) - rank(b) || a - b);
}

function profile(prototype) {
  return h(
    "div",
    { class: "dkm-scroll" },
    h(
      "table",
      { class: "dkm-table" },
      tableHead(["Feature", "Value"], ["Value"]),
      h(
        "tbody",
        {},
        prototype.values.slice(0, SHOWN_VALUES).map(([name, text]) =>
          h("tr", {}, h("th", { scope: "row", title: name }, cut(name, 30)), h("td", { class: "dkm-number" }, cut(text, 24))),
        ),
      ),
    ),
    prototype.values.length > SHOWN_VALUES ? note(`The first ${SHOWN_VALUES} of ${prototype.values.length} features.`) : null,
  );
}
