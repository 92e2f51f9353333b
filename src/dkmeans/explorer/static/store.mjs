// What the page knows and shows, and every action on it. Panels listen; the session on the server decides.

import { Grid } from "./grid.mjs";
import { effect, plural } from "./words.mjs";

const POLL_MS = 400;

/** The page's model. Events: state, points, look, row, prototype, selection, film, tab, message. */
export class Store extends EventTarget {
  state = null;
  plane = null; // {id, x, y}
  layer = "training";
  backdrop = false;
  hidden = new Set();
  shown = 0; // flag of the rows that are emphasised; 0: all rows
  cellsShown = true;
  cells = null; // "map": nearest on the map; "cut": the model on the plane; chosen at the start
  borders = true;
  prototypes = true;
  grids = { training: null, held_out: null };
  onPlane = null; // {prototypes: [[x, y]], classes, extent}
  row = null; // the answer about the chosen row, with its layer
  prototype = null; // index
  selection = [];
  film = null; // {k, prototypes: [[x, y, class]]}
  tab = "row";
  dark = false;
  printing = false;
  #loading = 0;
  #asked = 0;
  #timer = null;

  constructor(transport) {
    super();
    this.transport = transport;
    transport.onChange(() => this.run(() => this.refresh()));
  }

  emit(name) {
    this.dispatchEvent(new Event(name));
  }

  on(names, listener) {
    for (const name of names.split(" ")) this.addEventListener(name, listener);
  }

  say(text, isError = false) {
    this.message = { text, isError };
    this.emit("message");
  }

  /** Run an action; what goes wrong is shown as a message, and the page lives on. */
  async run(action) {
    try {
      return await action();
    } catch (error) {
      this.say(error.message, true);
      return undefined;
    }
  }

  async open() {
    await this.refresh();
  }

  async refresh() {
    await this.accept(await this.transport.call("state"));
  }

  /** Take over a state of the session; points are loaded again when its version changed. */
  async accept(state) {
    const before = this.state;
    this.state = state;
    const planes = state.planes.map((each) => each.id);
    if (!this.plane || !planes.includes(this.plane.id)) {
      this.plane = { id: planes[0], x: 0, y: Math.min(1, state.features.length - 1) };
    }
    // With two features the plane is the whole space, and the cut is exact.
    this.cells ??= state.features.length > 2 ? "map" : "cut";
    if (this.prototype !== null && this.prototype >= state.prototypes.length) this.prototype = null;
    this.#follow(before);
    this.emit("state");
    if (before?.version !== state.version) await this.#versionChanged();
  }

  async #versionChanged() {
    await this.loadPlane();
    if (this.row) await this.chooseRow(this.row.row, this.row.layer, true);
    this.emit("prototype");
  }

  get running() {
    return Boolean(this.state?.job?.running);
  }

  /** Ask again while a fit runs, and tell how it ended. */
  #follow(before) {
    clearTimeout(this.#timer);
    const { job, version, last_refit: refit } = this.state;
    if (this.running) {
      this.#timer = setTimeout(() => this.run(() => this.refresh()), POLL_MS);
    } else if (before?.job?.running) {
      if (job?.error) this.say(job.error, true);
      else if (version === before.version) this.say("The refit was stopped; the model is as it was.");
      else this.say(["Refit done", ...(refit ? effect(refit) : [])].join(". "));
    }
  }

  /** Load points and prototypes of the plane that is chosen. */
  async loadPlane() {
    const ticket = ++this.#loading;
    const { id, x, y } = this.plane;
    const layers = Object.keys(this.grids).filter(
      (layer) => this.state.layers[layer] && (layer === this.layer || this.backdrop),
    );
    const [onPlane, ...buffers] = await Promise.all([
      this.transport.call("on_plane", { plane: id, x, y }),
      ...layers.map((layer) => this.transport.bytes("points", { plane: id, x, y, layer })),
    ]);
    if (ticket !== this.#loading) return;
    // Kept with the places: the state may be that of another model before new places arrive.
    const classes = onPlane.prototypes.map((_, i) => this.state.prototypes[i]?.class ?? 0);
    this.onPlane = { ...onPlane, classes };
    this.grids = { training: null, held_out: null };
    layers.forEach((layer, i) => (this.grids[layer] = new Grid(buffers[i])));
    this.#keepSelection();
    this.emit("points");
  }

  #keepSelection() {
    const n = this.grid?.n ?? 0;
    this.selection = this.selection.filter((row) => row < n);
    this.grid?.select(this.selection);
    this.emit("selection");
  }

  get grid() {
    return this.grids[this.layer];
  }

  async setPlane(plane) {
    this.plane = plane;
    this.film = null;
    this.emit("look");
    await this.run(() => this.loadPlane());
  }

  async setLayer(layer, backdrop) {
    if (layer !== this.layer) this.selection = [];
    this.layer = layer;
    this.backdrop = backdrop;
    this.emit("look");
    await this.run(() => this.loadPlane());
  }

  /** Change how the map looks: hidden, shown, cells, borders, prototypes, dark. */
  look(changes) {
    Object.assign(this, changes);
    this.emit("look");
  }

  select(rows) {
    this.selection = rows;
    this.grid?.select(rows);
    this.emit("selection");
  }

  showTab(tab) {
    this.tab = tab;
    this.emit("tab");
  }

  async chooseRow(row, layer = this.layer, isReload = false) {
    const ticket = ++this.#asked;
    await this.run(async () => {
      const answer = await this.transport.call("row", { row, layer });
      if (ticket !== this.#asked) return;
      this.row = { ...answer, layer };
      this.emit("row");
      if (!isReload) this.showTab("row");
    });
  }

  clearRow() {
    this.#asked++;
    this.row = null;
    this.emit("row");
  }

  choosePrototype(index) {
    this.prototype = index;
    this.emit("prototype");
    if (index !== null) this.showTab("prototype");
  }

  /** Apply an edit of the data or the model; true if the session accepted it. */
  async edit(edit, done = null) {
    return (
      (await this.run(async () => {
        await this.accept(await this.transport.call("edit", { edit }));
        if (done) this.say(done);
        return true;
      })) ?? false
    );
  }

  async relabelSelection(category) {
    const rows = this.selection;
    const name = this.className(category);
    if (await this.edit({ kind: "relabel", rows, class: category }, `${plural(rows.length, "row")} relabelled as ${name}.`)) {
      this.select([]);
    }
  }

  async undo() {
    const text = this.state.undo;
    await this.run(async () => {
      await this.accept(await this.transport.call("undo"));
      this.say(`Undone: ${text}.`);
    });
  }

  async redo() {
    const text = this.state.redo;
    await this.run(async () => {
      await this.accept(await this.transport.call("redo"));
      this.say(`Done again: ${text}.`);
    });
  }

  async refit(maxClusters = null) {
    await this.run(async () => this.accept(await this.transport.call("refit", { max_clusters: maxClusters })));
  }

  async stop() {
    await this.run(async () => this.accept(await this.transport.call("stop")));
  }

  async at(k) {
    await this.run(async () => this.accept(await this.transport.call("at", { k })));
  }

  setFilm(film) {
    this.film = film;
    this.emit("film");
  }

  /** Numbers of the classes that are not merged into another one. */
  get classNumbers() {
    return this.state.classes.flatMap((each, i) => (each.merged_into === null || each.merged_into === undefined ? [i] : []));
  }

  className(category) {
    return this.state.classes[category]?.name ?? `class ${category}`;
  }

  prototypeName(index) {
    const prototype = this.state.prototypes[index];
    return prototype?.name || `Prototype ${prototype?.id ?? index}`;
  }

  /** Whether a point of the shown layer takes part in picking and lassoing. */
  visible = (i) => {
    const { classes, flags } = this.grid;
    if (this.hidden.has(classes[i])) return false;
    return this.shown ? (flags[i] & this.shown) !== 0 : (flags[i] & 8) === 0;
  };
}
