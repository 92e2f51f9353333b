// Rejection panel: a slider for the false-alarm rate, and the rows that would be rejected as unknown.

import { button, h, refill } from "../dom.mjs";
import { facts, note, rowTable, section } from "../parts.mjs";
import { count, percent, plural } from "../words.mjs";

const SLIDE_MS = 200;
const SHOWN_ROWS = 100;
const STEPS_PER_PERCENT = 5;
const MOST_PERCENT = 30;

export function rejectionPanel(store) {
  const element = h("div", {});
  const answerPlace = h("div", { "aria-live": "polite" });
  const slider = h("input", {
    type: "range", min: "1", max: String(MOST_PERCENT * STEPS_PER_PERCENT), step: "1", class: "dkm-slider",
    "aria-label": "False-alarm rate", "data-key": "rate", oninput: () => slide(),
  });
  const text = h("output", {});
  let timer = null;
  let ticket = 0;

  const rate = () => Number(slider.value) / (100 * STEPS_PER_PERCENT);

  function slide() {
    text.textContent = percent(rate(), 1);
    slider.setAttribute("aria-valuetext", percent(rate(), 1));
    clearTimeout(timer);
    timer = setTimeout(ask, SLIDE_MS);
  }

  async function ask() {
    const mine = ++ticket;
    const { layer } = store;
    const chosen = rate();
    const answer = await store.run(() => store.transport.call("rejected", { rate: chosen, layer }));
    if (mine !== ticket || !answer) return;
    const rows = answer.rows.slice(0, SHOWN_ROWS);
    const table = rows.length ? await store.run(() => store.transport.call("table", { layer, rows })) : null;
    if (mine !== ticket) return;
    refill(
      answerPlace,
      facts([
        ["Rejected", `${plural(answer.n_rejected, "row")} of ${count(store.state.layers[layer])} ${layer === "training" ? "training" : "held-out"} rows`],
      ]),
      h(
        "div",
        { class: "dkm-buttons" },
        button("Use this rate", () => store.edit({ kind: "set_rejection", rate: chosen }, `Rejection at a rate of ${percent(chosen, 1)}.`), {
          class: "dkm-primary", "data-key": "use-rate",
        }),
        button("Show on the map", () => store.select(answer.rows), { "data-key": "show-rejected", disabled: !answer.rows.length }),
      ),
      table ? section("Unknown rows", rows.length < answer.rows.length ? note(`The first ${count(rows.length)}:`) : null, rowTable(store, table, layer)) : null,
    );
  }

  function update() {
    if (store.tab !== "rejection" || !store.state) return;
    if (!store.state.layers.held_out) {
      refill(
        element,
        h("h2", {}, "Rejection"),
        note(
          "Thresholds need held-out rows: on training rows, distances are too small and too few rows would be rejected. ",
          "Start the explorer with a table of held-out rows.",
        ),
      );
      return;
    }
    if (!element.contains(slider)) {
      slider.value = String(Math.round((store.state.rejection?.rate ?? 0.05) * 100 * STEPS_PER_PERCENT));
      refill(
        element,
        h("h2", {}, "Rejection"),
        note("The model answers “unknown” for rows far from all prototypes. Choose the share of known rows that may be rejected by mistake."),
        h("label", { class: "dkm-rate" }, "False-alarm rate ", text),
        slider,
        answerPlace,
      );
    }
    slide();
  }

  store.on("tab points", update);
  return { element, title: "Rejection", id: "rejection" };
}
