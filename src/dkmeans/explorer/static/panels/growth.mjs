// Growth panel: a slider over the numbers of prototypes, error curves, and the growth as a film.

import { errorChart } from "../charts.mjs";
import { button, h, icon, refill } from "../dom.mjs";
import { facts, note, previewEdit } from "../parts.mjs";
import { percent } from "../words.mjs";

const SLIDE_MS = 200; // pause after which the slider's model is asked for
const STEP_MS = 700;
const TWEEN_MS = 450;

export function growthPanel(store) {
  return new Growth(store);
}

/** Owner of the slider's place and of the film. */
class Growth {
  id = "growth";
  title = "Growth";
  #store;
  #at = null; // index into path
  #timer = null;
  #film = null; // an object while a film runs

  constructor(store) {
    this.#store = store;
    this.element = h("div", {});
    this.effect = h("div", { class: "dkm-effect", "aria-live": "polite" });
    store.on("state tab", () => this.#draw());
    store.on("tab", () => store.tab !== "growth" && this.#stopFilm());
  }

  get #path() {
    return this.#store.state.path;
  }

  #index() {
    const { path_at: k } = this.#store.state;
    if (this.#at !== null) return Math.min(this.#at, this.#path.length - 1);
    const shown = k ?? this.#store.state.prototypes.length;
    const found = this.#path.findIndex((each) => each.k === shown);
    return found >= 0 ? found : this.#path.length - 1;
  }

  #draw() {
    const store = this.#store;
    if (!store.state || store.tab !== "growth") return;
    if (!this.#path?.length) {
      refill(
        this.element,
        h("h2", {}, "Growth"),
        note("This model has no record of its growth: model files and edited models have none. A refit records it."),
        h("div", { class: "dkm-buttons" }, button("Refit", () => store.refit(), { class: "dkm-primary", "data-key": "refit", disabled: store.running })),
      );
      return;
    }
    if (this.ks?.join() !== this.#path.map((each) => each.k).join()) this.#build();
    this.#show();
  }

  #build() {
    this.ks = this.#path.map((each) => each.k);
    this.#at = null;
    this.chart = h("div", {});
    this.text = h("div", { "aria-live": "polite" });
    this.slider = h("input", {
      type: "range", min: "0", max: String(this.ks.length - 1), step: "1", class: "dkm-slider", "data-key": "slider",
      "aria-label": "Number of prototypes", oninput: () => this.#slide(Number(this.slider.value)),
    });
    this.play = button([icon("play"), "Play the growth"], () => (this.#film ? this.#stopFilm() : this.#playFilm()), { "data-key": "play" });
    this.use = button("Use this model …", () => this.#use(), { "data-key": "use", class: "dkm-primary" });
    this.whole = button("Back to the current model", () => this.#back(), { "data-key": "whole" });
    refill(
      this.element,
      h("h2", {}, "Growth"),
      note("The model at every number of prototypes that its growth passed. The map shows the one at the slider."),
      this.chart,
      h("p", { class: "dkm-key" }, h("span", { class: "dkm-key-training" }, "training error"), h("span", { class: "dkm-key-held" }, "held-out error")),
      this.slider,
      this.text,
      h("div", { class: "dkm-buttons" }, this.play, this.whole, this.use),
      this.effect,
    );
  }

  #show(index = this.#index()) {
    const each = this.#path[index];
    this.slider.value = String(index);
    this.slider.setAttribute("aria-valuetext", `${each.k} prototypes`);
    const curves = [
      { name: "training", style: "training", values: this.#path.map((one) => one.training ?? null) },
      { name: "held-out", style: "held", values: this.#path.map((one) => one.held_out ?? null) },
    ];
    this.chart.replaceChildren(errorChart(this.ks, curves, index, this.#firstDrawn(index), "Error against the number of prototypes"));
    this.text.replaceChildren(
      facts([
        ["Prototypes", `${each.k}${each.refined ? ", refined" : ""}`],
        ["Training error", each.training === null || each.training === undefined ? "–" : percent(each.training, 1)],
        each.held_out === null || each.held_out === undefined ? null : ["Held-out error", percent(each.held_out, 1)],
      ]),
    );
    const isPast = this.#store.state.path_at !== null && this.#store.state.path_at !== undefined;
    this.whole.disabled = !isPast;
    this.use.disabled = !isPast || this.#store.running;
  }

  /** With fewer prototypes than classes the error is large and dwarfs the rest of the curve. */
  #firstDrawn(index) {
    const classes = this.#store.classNumbers.length;
    const first = this.ks.findIndex((k) => k >= classes);
    return first < 0 || this.ks.length - first < 2 ? 0 : Math.min(first, index);
  }

  #slide(index) {
    this.#stopFilm();
    this.#at = index;
    this.#show(index);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      await this.#store.at(this.ks[index]);
      this.#at = null;
      this.#show();
    }, SLIDE_MS);
  }

  async #back() {
    this.effect.replaceChildren();
    await this.#store.at(null);
  }

  #use() {
    const k = this.ks[this.#index()];
    previewEdit(this.#store, this.effect, `Use the model with ${k} prototypes`, { kind: "use_k", k }, `The model has ${k} prototypes now.`);
  }

  // Film

  async #playFilm() {
    const film = (this.#film = {});
    this.play.replaceChildren(icon("pause"), "Stop");
    const store = this.#store;
    const start = this.#index() >= this.ks.length - 1 ? 0 : this.#index();
    let shown = null;
    for (let i = start; i < this.ks.length && this.#film === film; i++) {
      const { id, x, y } = store.plane;
      const pause = new Promise((resolve) => setTimeout(resolve, shown ? STEP_MS : 0));
      const next = await store.run(() => store.transport.call("film", { plane: id, x, y, k: this.ks[i] }));
      await pause;
      if (!next || this.#film !== film) break;
      this.#show(i);
      await this.#tween(film, shown, next.prototypes, this.ks[i]);
      shown = next.prototypes;
    }
    if (this.#film === film) {
      await new Promise((resolve) => setTimeout(resolve, 2 * STEP_MS));
      this.#stopFilm();
    }
  }

  /** Move prototypes from where the nearest one of the last picture was. */
  async #tween(film, before, after, k) {
    const store = this.#store;
    const isStill = !before || window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isStill) return store.setFilm({ k, prototypes: after });
    const from = after.map(([x, y]) => nearest(before, x, y));
    const began = performance.now();
    for (let share = 0; share < 1 && this.#film === film; ) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      share = Math.min(1, (performance.now() - began) / TWEEN_MS);
      const eased = share * share * (3 - 2 * share);
      store.setFilm({
        k,
        prototypes: after.map(([x, y, category], i) => [from[i][0] + eased * (x - from[i][0]), from[i][1] + eased * (y - from[i][1]), category]),
      });
    }
    return undefined;
  }

  #stopFilm() {
    if (!this.#film) return;
    this.#film = null;
    this.play.replaceChildren(icon("play"), "Play the growth");
    this.#store.setFilm(null);
    this.#show();
  }
}

function nearest(points, x, y) {
  let best = points[0];
  let least = Infinity;
  for (const each of points) {
    const distance = (each[0] - x) ** 2 + (each[1] - y) ** 2;
    if (distance < least) [best, least] = [each, distance];
  }
  return best;
}
