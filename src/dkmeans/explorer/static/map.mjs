// The map: canvases over each other that show one view of the plane.

import { cellImage, nearestOnMap, sampleSize } from "./cells.mjs";
import { drawDensity } from "./density.mjs";
import { button, h, icon } from "./dom.mjs";
import { Gestures } from "./gestures.mjs";
import { drawOverlay } from "./overlay.mjs";
import { PointRenderer } from "./points.mjs";
import { readTheme } from "./theme.mjs";
import { View } from "./view.mjs";
import { plural } from "./words.mjs";

const FRAME_BUDGET_MS = 100;
const SETTLE_MS = 160; // pause after which cells are asked for again

/** Owner of the view; draws at most once per frame. */
export class PlaneMap {
  #store;
  view = new View();
  #fitted = null; // key of the plane that the view was fitted to
  #cells = null; // {image, extent}
  #cellTicket = 0;
  #settle = null;
  #frame = null;
  lasso = null;
  radius = 40; // of the ring that selects by keyboard
  hovered = -1; // prototype under the pointer
  mode = "pan";

  constructor(store) {
    this.#store = store;
    this.#build();
    this.points = new PointRenderer(this.pointCanvas, () => this.redraw());
    this.#listen();
    new Gestures(this, store);
    new ResizeObserver(() => this.#resize()).observe(this.surface);
  }

  #build() {
    const canvas = (name) => h("canvas", { class: `dkm-canvas dkm-${name}`, "aria-hidden": "true" });
    this.cellCanvas = canvas("cells");
    this.densityCanvas = canvas("density");
    this.pointCanvas = canvas("points");
    this.overlayCanvas = canvas("overlay");
    this.printCanvas = canvas("print");
    this.tip = h("div", { class: "dkm-tip", hidden: true });
    this.note = h("div", { class: "dkm-note-on-map", role: "status" });
    this.surface = h(
      "div",
      {
        class: "dkm-surface",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "map",
        "aria-label":
          "Map of rows and prototypes. Arrow keys pan, plus and minus zoom, 0 fits all. Enter opens the row at the crosshair, " +
          "P the prototype, S selects the rows in the ring, brackets resize the ring, Escape clears the selection.",
      },
      this.cellCanvas, this.densityCanvas, this.pointCanvas, this.overlayCanvas, this.printCanvas, this.tip, this.note,
    );
    const tool = (name, label, action, extra = {}) =>
      button(icon(name), action, { class: "dkm-tool", "aria-label": label, title: label, ...extra });
    this.tools = {
      pan: tool("pan", "Pan by dragging", () => this.setMode("pan")),
      lasso: tool("lasso", "Lasso: select rows by dragging (or hold Shift)", () => this.setMode("lasso")),
    };
    this.element = h(
      "div",
      { class: "dkm-map", "aria-busy": "true" },
      this.surface,
      h(
        "div",
        { class: "dkm-tools", role: "toolbar", "aria-label": "Map tools" },
        this.tools.pan, this.tools.lasso,
        tool("plus", "Zoom in", () => this.zoom(1.5)),
        tool("minus", "Zoom out", () => this.zoom(1 / 1.5)),
        tool("fit", "Show all rows", () => this.fit()),
      ),
    );
    this.setMode("pan");
  }

  #listen() {
    const { surface } = this;
    const store = this.#store;
    surface.addEventListener("focus", () => this.redraw());
    surface.addEventListener("blur", () => this.redraw());
    store.on("points", () => this.#newPoints());
    store.on("look", () => this.#lookChanged());
    store.on("row prototype film", () => this.redraw());
    store.on("selection", () => {
      if (store.grid) this.points.refresh(store.grid);
      this.redraw();
    });
  }

  setMode(mode) {
    this.mode = mode;
    for (const [name, each] of Object.entries(this.tools)) {
      each.setAttribute("aria-pressed", String(name === mode));
    }
    this.surface.classList.toggle("dkm-lassoing", mode === "lasso");
  }

  // View

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.surface;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.cellCanvas, this.pointCanvas, this.overlayCanvas]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.densityCanvas.width = width;
    this.densityCanvas.height = height;
    this.ratio = ratio;
    const isFirst = this.view.width === 1;
    this.view.width = width;
    this.view.height = height;
    if (isFirst) this.fit();
    this.#drawNow(); // setting the size has cleared the canvases
    this.later();
  }

  fit() {
    const { onPlane, plane } = this.#store;
    if (!onPlane || this.view.width === 1) return;
    this.view.fit(onPlane.extent, plane.id !== "features");
    this.redraw();
    this.later();
  }

  zoom(factor, x = this.view.width / 2, y = this.view.height / 2) {
    this.view.zoom(factor, x, y);
    this.redraw();
    this.later();
  }

  #newPoints() {
    const store = this.#store;
    this.points.setClasses(store.state.classes.length, store.hidden, store.dark);
    this.points.pointsPerMs = null; // measured anew
    const key = JSON.stringify(store.plane);
    this.#cells = this.#fitted === key ? this.#cells : null;
    if (this.#fitted !== key) {
      this.#fitted = key;
      this.fit();
    }
    this.redraw();
    this.#askForCells();
  }

  #lookChanged() {
    const store = this.#store;
    if (!store.state) return;
    this.points.setClasses(store.state.classes.length, store.hidden, store.dark);
    this.#paintCells();
    if (this.#cells?.kind !== store.cells) this.#askForCells();
    this.#drawNow(); // a print does not wait for the next frame
    if (store.printing) this.#copyForPrint();
  }

  // Cells

  later() {
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => this.#askForCells(), SETTLE_MS);
  }

  async #askForCells() {
    const store = this.#store;
    if (!store.onPlane || this.view.width === 1 || !(store.cellsShown || store.borders)) return;
    const ticket = ++this.#cellTicket;
    const extent = this.view.extent();
    const [width, height] = sampleSize(this.view, store.onPlane.prototypes.length);
    const { id, x, y } = store.plane;
    await store.run(async () => {
      const regions =
        store.cells === "map"
          ? nearestOnMap(store.onPlane.prototypes, extent, width, height)
          : new Uint16Array(await store.transport.bytes("regions", { plane: id, x, y, extent, width, height }));
      if (ticket !== this.#cellTicket) return;
      this.#cells = { regions, width, height, extent, kind: store.cells, image: null };
      this.#paintCells();
      this.redraw();
    });
  }

  #paintCells() {
    const found = this.#cells;
    const store = this.#store;
    if (!found) return;
    const most = found.regions.reduce((so, each) => Math.max(so, each), 0);
    if (most >= store.onPlane.classes.length) return; // of another model: new ones are on their way
    const classOf = store.onPlane.classes;
    found.image = cellImage(found.regions, found.width, found.height, classOf, store);
  }

  // Drawing

  redraw() {
    this.#frame ??= requestAnimationFrame(() => this.#drawNow());
  }

  #drawNow() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const store = this.#store;
    if (!store.state || !store.onPlane || this.view.width === 1) return;
    this.theme = readTheme(store.dark);
    this.#drawCells();
    this.#drawPoints();
    const context = this.overlayCanvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    drawOverlay(context, this.view, this.scene());
    if (this.element.getAttribute("aria-busy") === "true") performance.mark("dkmeans-first-frame");
    this.element.setAttribute("aria-busy", "false");
  }

  /** Printers do not get what WebGL has drawn: give them a copy of all layers. */
  #copyForPrint() {
    const { width, height } = this.overlayCanvas;
    Object.assign(this.printCanvas, { width, height });
    const context = this.printCanvas.getContext("2d");
    for (const layer of this.layers()) context.drawImage(layer, 0, 0, width, height);
  }

  #drawCells() {
    const context = this.cellCanvas.getContext("2d");
    const { ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.view.width, this.view.height);
    const { cellsShown, borders, film } = this.#store;
    if (!this.#cells?.image || !(cellsShown || borders) || film) return;
    const [x0, x1, y0, y1] = this.#cells.extent;
    const [left, top] = [this.view.pixelX(x0), this.view.pixelY(y1)];
    context.imageSmoothingEnabled = true;
    context.drawImage(
      this.#cells.image, left, top, this.view.pixelX(x1) - left, this.view.pixelY(y0) - top,
    );
  }

  #look(grid, isBackdrop) {
    const store = this.#store;
    const room = Math.max(0.65, Math.min(1, Math.sqrt(Math.min(this.view.width, this.view.height) / 700)));
    const base = Math.max(2, room * Math.min(10, 10 - 2.8 * (Math.log10(grid.n + 1) - 3)));
    const zoomed = this.view.scaleX / this.#baseScale(grid);
    return {
      ratio: this.ratio,
      size: Math.min(16, base * Math.max(1, zoomed) ** 0.3),
      opacity: isBackdrop ? 0.7 : grid.n > 20_000 ? 0.7 : 0.9,
      shown: isBackdrop ? 0 : store.shown,
      choosing: !isBackdrop && store.selection.length > 0,
      backdrop: isBackdrop,
      ink: this.theme.inkRgb,
    };
  }

  #baseScale(grid) {
    const [x0, x1] = grid.extent;
    return (0.94 * this.view.width) / (x1 - x0 || 1);
  }

  #drawPoints() {
    const store = this.#store;
    const main = store.grid;
    const density = this.densityCanvas.getContext("2d");
    density.clearRect(0, 0, this.densityCanvas.width, this.densityCanvas.height);
    this.points.clear();
    if (!main) return;
    const extent = this.view.extent();
    const inView = main.countIn(extent);
    const expected = this.points.expected(main, inView, this.view, this.#look(main, false));
    this.isDensity = expected > FRAME_BUDGET_MS;
    this.note.textContent = this.isDensity ? `Density of ${plural(inView, "row")}: zoom in for points` : "";
    const other = store.backdrop && store.grids[store.layer === "training" ? "held_out" : "training"];
    if (other && this.points.expected(other, other.countIn(extent), this.view, this.#look(other, true)) <= FRAME_BUDGET_MS) {
      this.points.draw(other, this.view, this.#look(other, true), other.ranges(extent));
    }
    if (this.isDensity) {
      const { width, height } = this.densityCanvas;
      const { hidden, shown, dark } = store;
      const choosing = store.selection.length > 0;
      drawDensity(density, main, this.view, width, height, {
        classes: store.state.classes.length, hidden, shown, choosing, dark,
      });
    } else {
      this.points.drawTimed(main, this.view, this.#look(main, false), main.ranges(extent));
    }
  }

  /** What the overlay and the exported picture show. */
  scene() {
    const store = this.#store;
    const { state, onPlane, film, grid, row } = store;
    const own = onPlane.prototypes.map(([x, y], i) => [x, y, onPlane.classes[i]]);
    const plane = state.planes.find((each) => each.id === store.plane.id);
    const isFeatures = plane.id === "features";
    const hovered = this.hovered;
    const onMap = row && row.layer === store.layer && grid && row.row < grid.n;
    const place = onMap ? grid.place[row.row] : -1;
    const at = onMap ? [grid.x[place], grid.y[place]] : null;
    return {
      theme: this.theme,
      axes: isFeatures ? [state.features[store.plane.x], state.features[store.plane.y]] : [plane.x, plane.y],
      prototypes: film ? film.prototypes : store.prototypes ? own : null,
      hidden: store.hidden,
      chosenPrototype: film ? -1 : store.prototype,
      rivalPrototype: -1,
      hovered: film ? -1 : hovered,
      row: at,
      ellipse: at && isFeatures ? (row.radius_on_plane ?? null) : null,
      links: at && !film && store.prototypes ? this.#links(at, row, own) : [],
      label: hovered >= 0 && !film ? { at: own[hovered], text: store.prototypeName(hovered) } : null,
      lasso: this.lasso,
      crosshair: this.surface.matches(":focus-visible") ? { radius: this.radius } : null,
    };
  }

  #links(at, row, prototypes) {
    const links = [];
    if (prototypes[row.prototype]) links.push([at, prototypes[row.prototype], false]);
    if (prototypes[row.rival]) links.push([at, prototypes[row.rival], true]);
    return links;
  }

  /** Draw now and return the layers from bottom to top; valid within the same task. */
  layers() {
    this.#drawNow();
    return [this.cellCanvas, this.densityCanvas, this.pointCanvas, this.overlayCanvas];
  }

  get cellPicture() {
    return this.#cells;
  }
}
