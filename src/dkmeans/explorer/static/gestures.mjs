// What pointer, wheel and keys do on the map: pan, zoom, click, lasso.

import { count, plural } from "./words.mjs";

const CLICK_PX = 4; // a press that moves less is a click
const PICK_PX = 14;
const PROTOTYPE_PX = 11;
const LASSO_STEP_PX = 3;

/** Listeners on the map's surface. */
export class Gestures {
  #map;
  #store;

  constructor(map, store) {
    this.#map = map;
    this.#store = store;
    const { surface } = map;
    surface.addEventListener("pointerdown", (event) => this.#press(event));
    surface.addEventListener("pointermove", (event) => this.#hover(event));
    surface.addEventListener("pointerleave", () => this.#leave());
    surface.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    surface.addEventListener("dblclick", (event) => map.zoom(2, ...this.#pixel(event)));
    surface.addEventListener("keydown", (event) => this.#key(event));
  }

  // Pointer

  #pixel(event) {
    const box = this.#map.surface.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  #prototypeAt(x, y) {
    const { onPlane, prototypes, hidden, film } = this.#store;
    if (!onPlane || !prototypes || film) return -1;
    let best = -1;
    let least = PROTOTYPE_PX ** 2;
    onPlane.prototypes.forEach(([dataX, dataY], i) => {
      if (hidden.has(onPlane.classes[i])) return;
      const distance = (this.#map.view.pixelX(dataX) - x) ** 2 + (this.#map.view.pixelY(dataY) - y) ** 2;
      if (distance <= least) [best, least] = [i, distance];
    });
    return best;
  }

  #press(event) {
    if (event.button !== 0) return;
    const from = this.#pixel(event);
    const isLasso = this.#map.mode === "lasso" || event.shiftKey;
    let last = from;
    let isMoved = false;
    const data = ([x, y]) => [this.#map.view.dataX(x), this.#map.view.dataY(y)];
    this.#map.surface.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const at = this.#pixel(moved);
      if (!isMoved && Math.hypot(at[0] - from[0], at[1] - from[1]) < CLICK_PX) return;
      isMoved = true;
      if (isLasso) {
        this.#map.lasso ??= [data(from)];
        if (Math.hypot(at[0] - last[0], at[1] - last[1]) >= LASSO_STEP_PX) {
          this.#map.lasso.push(data(at));
          last = at;
        }
      } else {
        this.#map.view.pan(at[0] - last[0], at[1] - last[1]);
        last = at;
        this.#map.later();
      }
      this.#map.redraw();
    };
    const end = (ended) => {
      this.#map.surface.removeEventListener("pointermove", move);
      this.#map.surface.removeEventListener("pointerup", end);
      this.#map.surface.removeEventListener("pointercancel", end);
      if (!isMoved && ended.type === "pointerup") this.#click(from);
      else if (this.#map.lasso) this.#finishLasso(this.#map.lasso);
      this.#map.lasso = null;
      this.#map.redraw();
    };
    this.#map.surface.addEventListener("pointermove", move);
    this.#map.surface.addEventListener("pointerup", end);
    this.#map.surface.addEventListener("pointercancel", end);
  }

  #finishLasso(polygon) {
    const store = this.#store;
    if (polygon.length < 3 || !store.grid) return;
    const rows = store.grid.inside(polygon, store.visible);
    store.select(rows);
    store.say(`${plural(rows.length, "row")} selected.`);
  }

  #click([x, y]) {
    const store = this.#store;
    const prototype = this.#prototypeAt(x, y);
    if (prototype >= 0) return store.choosePrototype(prototype);
    const found = store.grid?.nearest(this.#map.view, x, y, PICK_PX, store.visible) ?? -1;
    if (found >= 0) return store.chooseRow(store.grid.row[found]);
    return store.clearRow();
  }

  #hover(event) {
    if (event.buttons) return this.#leave();
    const [x, y] = this.#pixel(event);
    const store = this.#store;
    const prototype = this.#prototypeAt(x, y);
    const row = prototype < 0 && store.grid ? store.grid.nearest(this.#map.view, x, y, PICK_PX, store.visible) : -1;
    if (prototype !== this.#map.hovered) {
      this.#map.hovered = prototype;
      this.#map.redraw();
    }
    this.#map.surface.classList.toggle("dkm-over", prototype >= 0 || row >= 0);
    this.#map.tip.hidden = row < 0;
    if (row < 0) return undefined;
    const { classes, predicted, row: rows } = store.grid;
    const isSame = classes[row] === predicted[row];
    const verdict = isSame ? "" : `, predicted ${store.className(predicted[row])}`;
    this.#map.tip.textContent = `Row ${count(rows[row])}: ${store.className(classes[row])}${verdict}`;
    this.#map.tip.style.left = `${Math.min(x + 14, this.#map.view.width - 180)}px`;
    this.#map.tip.style.top = `${Math.max(4, y - 30)}px`;
    return undefined;
  }

  #leave() {
    this.#map.tip.hidden = true;
    if (this.#map.hovered >= 0) {
      this.#map.hovered = -1;
      this.#map.redraw();
    }
  }

  #wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 24 : 1;
    this.#map.zoom(Math.exp(-event.deltaY * lines * 0.0016), ...this.#pixel(event));
  }

  // Keys

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const store = this.#store;
    const step = event.shiftKey ? 160 : 40;
    const actions = {
      ArrowLeft: () => this.#map.view.pan(step, 0),
      ArrowRight: () => this.#map.view.pan(-step, 0),
      ArrowUp: () => this.#map.view.pan(0, step),
      ArrowDown: () => this.#map.view.pan(0, -step),
      "+": () => this.#map.zoom(1.3),
      "=": () => this.#map.zoom(1.3),
      "-": () => this.#map.zoom(1 / 1.3),
      0: () => this.#map.fit(),
      "[": () => (this.#map.radius = Math.max(8, this.#map.radius / 1.25)),
      "]": () => (this.#map.radius = Math.min(400, this.#map.radius * 1.25)),
      Enter: () => this.#openCentre(),
      p: () => this.#openPrototype(),
      P: () => this.#openPrototype(),
      s: () => this.#selectRing(),
      S: () => this.#selectRing(),
      Escape: () => store.select([]),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    this.#map.redraw();
    this.#map.later();
  }

  #openCentre() {
    const { width, height } = this.#map.view;
    const store = this.#store;
    const reach = Math.hypot(width, height);
    const found = store.grid?.nearest(this.#map.view, width / 2, height / 2, reach, store.visible) ?? -1;
    if (found >= 0) store.chooseRow(store.grid.row[found]);
  }

  #openPrototype() {
    const { onPlane } = this.#store;
    const [x, y] = [this.#map.view.width / 2, this.#map.view.height / 2];
    const distances = onPlane.prototypes.map(
      ([dataX, dataY]) => (this.#map.view.pixelX(dataX) - x) ** 2 + (this.#map.view.pixelY(dataY) - y) ** 2,
    );
    const best = distances.indexOf(Math.min(...distances));
    if (best >= 0) this.#store.choosePrototype(best);
  }

  #selectRing() {
    const [x, y] = [this.#map.view.width / 2, this.#map.view.height / 2];
    const ring = Array.from({ length: 48 }, (_, i) => {
      const angle = (2 * Math.PI * i) / 48;
      return [
        this.#map.view.dataX(x + this.#map.radius * Math.cos(angle)),
        this.#map.view.dataY(y + this.#map.radius * Math.sin(angle)),
      ];
    });
    this.#finishLasso(ring);
  }
}
