// Parts that several panels share: class labels, links to rows and prototypes, pictures, bars, previews.

import { swatch } from "./colours.mjs";
import { button, choice, h } from "./dom.mjs";
import { count, cut, effect, short } from "./words.mjs";

/** Symbol and name of a class. */
export function classLabel(store, category, most = 28) {
  const name = store.className(category);
  return h("span", { class: "dkm-class", title: name }, swatch(category), h("span", {}, cut(name, most)));
}

export function classChoice(store, label, value, onchange, properties = {}) {
  const pairs = store.classNumbers.map((i) => [i, cut(store.className(i), 40)]);
  return choice(label, pairs, value, (text) => onchange(Number(text)), properties);
}

export function rowLink(store, row, layer = "training", properties = {}) {
  return button(`Row ${count(row)}`, () => store.chooseRow(row, layer), {
    class: "dkm-link", "data-key": `row-${layer}-${row}`, ...properties,
  });
}

export function prototypeLink(store, index) {
  return button(store.prototypeName(index), () => store.choosePrototype(index), {
    class: "dkm-link", "data-key": `prototype-${index}`,
  });
}

/** A grey picture from bytes 0..255, enlarged without smoothing. */
export function picture(pixels, [height, width], label) {
  const canvas = h("canvas", { class: "dkm-picture", role: "img", "aria-label": label });
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    image.data.set([pixels[i], pixels[i], pixels[i], 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function figure(content, ...caption) {
  return h("figure", { class: "dkm-figure" }, content, h("figcaption", {}, ...caption));
}

/** A horizontal bar; negative parts point to the left of the middle. */
export function bar(share, isSigned = false) {
  const fill = h("span", { class: share < 0 ? "dkm-bar-fill dkm-negative" : "dkm-bar-fill" });
  const width = 100 * Math.min(1, Math.abs(share));
  fill.style.width = `${isSigned ? width / 2 : width}%`;
  if (isSigned) fill.style.left = share < 0 ? `${50 - width / 2}%` : "50%";
  return h("span", { class: isSigned ? "dkm-bar dkm-signed" : "dkm-bar", "aria-hidden": "true" }, fill);
}

export function section(title, ...content) {
  return h("section", { class: "dkm-section" }, h("h3", {}, title), ...content);
}

export function note(...text) {
  return h("p", { class: "dkm-note" }, ...text);
}

/** Terms and values in two columns. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "dkm-facts" },
    pairs.filter(Boolean).map(([term, ...value]) => [h("dt", {}, term), h("dd", {}, ...value)]),
  );
}

/** Head of a table; `numeric` names the columns of numbers. */
export function tableHead(names, numeric = []) {
  return h("thead", {}, h("tr", {}, names.map((each) => h("th", { scope: "col", class: numeric.includes(each) ? "dkm-number" : null }, each))));
}

/** Rows as a table that opens them; `rows` and `columns` as the request `table` answers them. */
export function rowTable(store, { rows, columns = [] }, layer) {
  const names = store.state.image_shape ? [] : columns; // pixels say nothing one by one
  return h(
    "div",
    { class: "dkm-scroll" },
    h(
      "table",
      { class: "dkm-table" },
      tableHead(["Row", "Class", "Predicted", "Margin", ...names.map((each) => cut(each, 18))], ["Margin"]),
      h(
        "tbody",
        {},
        rows.map((each) =>
          h(
            "tr",
            { class: each.class === each.predicted ? "" : "dkm-wrong" },
            h("td", {}, rowLink(store, each.row, layer)),
            h("td", {}, classLabel(store, each.class, 16)),
            h("td", {}, classLabel(store, each.predicted, 16)),
            h("td", { class: "dkm-number" }, short(each.margin)),
            names.map((_, i) => h("td", {}, cut(each.values[i] ?? "", 18))),
          ),
        ),
      ),
    ),
  );
}

/** Ask for the effect of an edit and show it with buttons that accept or cancel it. */
export async function previewEdit(store, place, title, edit, done) {
  place.replaceChildren(note("Computing the effect …"));
  const answer = await store.run(() => store.transport.call("preview", { edit }));
  if (!answer) return place.replaceChildren();
  const accept = button("Accept", async () => {
    accept.disabled = true;
    if (await store.edit(edit, done)) place.replaceChildren();
    else accept.disabled = false;
  }, { class: "dkm-primary", "data-key": "accept" });
  place.replaceChildren(
    h(
      "div",
      { class: "dkm-preview", role: "group", "aria-label": `Effect: ${title}` },
      h("strong", {}, title),
      h("ul", {}, effect(answer).map((line) => h("li", {}, line))),
      h("div", { class: "dkm-buttons" }, accept, button("Cancel", () => place.replaceChildren(), { "data-key": "cancel" })),
    ),
  );
  accept.focus();
  return undefined;
}
