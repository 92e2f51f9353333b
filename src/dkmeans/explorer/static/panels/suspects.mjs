// Suspects queue: rows whose label is doubtful, kept, relabelled or dropped by keyboard, one or many.

import { button, h, refill } from "../dom.mjs";
import { classLabel, note, picture, rowLink } from "../parts.mjs";
import { count, plural, short } from "../words.mjs";

const LIMIT = 200;

export function suspectsPanel(store) {
  return new Queue(store);
}

/** Owner of the queue: its rows, the current place and the ticked rows. */
class Queue {
  id = "suspects";
  title = "Suspects";
  #store;
  #rows = [];
  #total = 0;
  #at = 0;
  #ticked = new Set();
  #images = null;
  #version = null;

  constructor(store) {
    this.#store = store;
    this.element = h("div", { onkeydown: (event) => this.#key(event) });
    store.on("tab points", () => this.#load());
  }

  async #load() {
    const store = this.#store;
    if (store.tab !== "suspects" || !store.state || this.#version === store.state.version) return;
    const { version } = store.state;
    const answer = await store.run(() => store.transport.call("suspects", { limit: LIMIT }));
    if (!answer) return;
    this.#version = version;
    this.#rows = answer.rows;
    this.#total = answer.total;
    this.#at = Math.min(this.#at, Math.max(0, answer.rows.length - 1));
    const still = new Set(answer.rows.map((each) => each.row));
    this.#ticked = new Set([...this.#ticked].filter((row) => still.has(row)));
    await this.#loadImages();
    this.#draw();
  }

  async #loadImages() {
    const { state, transport } = this.#store;
    this.#images = null;
    if (!state.image_shape || !this.#rows.length) return;
    const rows = this.#rows.map((each) => each.row);
    const buffer = await this.#store.run(() => transport.bytes("images", { rows, layer: "training" }));
    if (buffer) this.#images = new Uint8Array(buffer);
  }

  /** The rows that an action applies to: the ticked ones, else the current one. */
  #targets() {
    const ticked = this.#rows.filter((each) => this.#ticked.has(each.row));
    return ticked.length ? ticked : this.#rows.slice(this.#at, this.#at + 1);
  }

  async #act(kind) {
    const targets = this.#targets();
    if (!targets.length) return;
    const rows = targets.map((each) => each.row);
    const words = plural(rows.length, "row");
    const edits = {
      keep: [{ kind: "keep", rows }, `${words} kept.`],
      relabel: [{ kind: "relabel", rows, classes: targets.map((each) => each.suggested) }, `${words} relabelled as suggested.`],
      drop: [{ kind: "drop_rows", rows }, `${words} dropped.`],
    };
    const [edit, done] = edits[kind];
    this.#forget(rows);
    if (!(await this.#store.edit(edit, done))) {
      this.#version = null; // the rows are back in the queue
      await this.#load();
    }
  }

  /** Go on with the next row at once, so that keys may be faster than the session. */
  #forget(rows) {
    const decided = new Set(rows);
    const kept = this.#rows.map((each, i) => [each, i]).filter(([each]) => !decided.has(each.row));
    if (this.#images) {
      const size = this.#images.length / this.#rows.length;
      const images = new Uint8Array(size * kept.length);
      kept.forEach(([, i], j) => images.set(this.#images.subarray(i * size, (i + 1) * size), j * size));
      this.#images = images;
    }
    this.#at = Math.max(0, Math.min(kept.length - 1, this.#at - this.#rows.slice(0, this.#at).filter((each) => decided.has(each.row)).length));
    this.#rows = kept.map(([each]) => each);
    this.#total -= decided.size;
    this.#ticked.clear();
    this.#draw();
    this.element.querySelector(".dkm-queue")?.focus({ preventScroll: true });
  }

  #move(step) {
    this.#at = Math.max(0, Math.min(this.#rows.length - 1, this.#at + step));
    this.#draw();
    this.element.querySelector(".dkm-current")?.scrollIntoView({ block: "nearest" });
  }

  #tick(row) {
    if (!this.#ticked.delete(row)) this.#ticked.add(row);
    this.#draw();
  }

  #tickAll() {
    const all = this.#rows.map((each) => each.row);
    this.#ticked = new Set(this.#ticked.size === all.length ? [] : all);
    this.#draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input[type=text]")) return;
    const current = this.#rows[this.#at];
    const actions = {
      ArrowDown: () => this.#move(1),
      ArrowUp: () => this.#move(-1),
      Home: () => this.#move(-Infinity),
      End: () => this.#move(Infinity),
      k: () => this.#act("keep"),
      r: () => this.#act("relabel"),
      d: () => this.#act("drop"),
      x: () => current && this.#tick(current.row),
      a: () => this.#tickAll(),
      o: () => current && this.#store.chooseRow(current.row, "training"),
      m: () => current && this.#showOnMap(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #showOnMap() {
    const store = this.#store;
    store.select(this.#targets().map((each) => each.row));
  }

  #draw() {
    const store = this.#store;
    if (!this.#rows.length) {
      refill(this.element, h("h2", {}, "No suspects"), note("No training row has a label that its neighbourhood contradicts."));
      return;
    }
    const targets = this.#targets();
    const what = this.#ticked.size ? plural(targets.length, "ticked row") : `row ${count(targets[0].row)}`;
    refill(
      this.element,
      h("h2", {}, `${plural(this.#total, "suspect label")}`),
      note(
        "Rows whose neighbourhood contradicts their label, most doubtful first. Keys: arrows move, ",
        h("kbd", {}, "K"), " keep, ", h("kbd", {}, "R"), " relabel, ", h("kbd", {}, "D"), " drop, ",
        h("kbd", {}, "X"), " tick, ", h("kbd", {}, "A"), " tick all, ", h("kbd", {}, "O"), " open, ",
        h("kbd", {}, "M"), " on the map.",
      ),
      h(
        "div",
        { class: "dkm-buttons dkm-sticky", role: "group", "aria-label": `Decide about ${what}` },
        button("Keep", () => this.#act("keep"), { "data-key": "keep" }),
        button("Relabel", () => this.#act("relabel"), { "data-key": "relabel", class: "dkm-primary" }),
        button("Drop", () => this.#act("drop"), { "data-key": "drop" }),
        h("span", { class: "dkm-quiet" }, what),
        button(this.#ticked.size === this.#rows.length ? "Untick all" : "Tick all", () => this.#tickAll(), {
          class: "dkm-link", "data-key": "all",
        }),
      ),
      this.#list(store),
      this.#total > this.#rows.length ? note(`The first ${count(this.#rows.length)} of ${count(this.#total)}.`) : null,
    );
  }

  #list(store) {
    return h(
      "ul",
      {
        class: "dkm-queue", tabindex: "0", role: "listbox", "aria-label": "Suspect rows", "data-key": "queue",
        "aria-activedescendant": `dkm-suspect-${this.#rows[this.#at].row}`,
      },
      this.#rows.map((each, i) => this.#item(store, each, i)),
    );
  }

  #item(store, each, i) {
    const shape = store.state.image_shape;
    const size = shape ? shape[0] * shape[1] : 0;
    const isTicked = this.#ticked.has(each.row);
    const choose = () => {
      this.#at = i;
      this.#draw();
    };
    return h(
      "li",
      {
        class: i === this.#at ? "dkm-suspect dkm-current" : "dkm-suspect", role: "option", id: `dkm-suspect-${each.row}`,
        "aria-selected": String(i === this.#at), onclick: choose,
      },
      h("input", {
        type: "checkbox", checked: isTicked, tabindex: "-1", "aria-label": `Tick row ${each.row}`,
        onclick: (event) => {
          event.stopPropagation();
          this.#tick(each.row);
        },
      }),
      this.#images ? picture(this.#images.subarray(i * size, (i + 1) * size), shape, `Row ${each.row}`) : null,
      h(
        "div",
        {},
        rowLink(store, each.row, "training", { tabindex: "-1" }),
        h("div", { class: "dkm-arrow" }, classLabel(store, each.class, 16), " → ", classLabel(store, each.suggested, 16)),
      ),
      h("span", { class: "dkm-number dkm-quiet", title: "Score: how strongly the neighbourhood contradicts the label" }, short(each.score)),
    );
  }
}
