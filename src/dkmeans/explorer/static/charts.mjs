// Line charts of error against the number of prototypes.

import { svg } from "./dom.mjs";
import { ticks } from "./view.mjs";
import { short } from "./words.mjs";

const [WIDTH, HEIGHT] = [360, 200];
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 10, 14, 34];

/** Curves {name, values, style} over `ks` from `first` on; `current` is the index of the marked k. */
export function errorChart(ks, curves, current, first, label) {
  const shown = curves.filter((curve) => curve.values.some((each) => each !== null));
  const most = Math.max(1e-9, ...shown.flatMap((curve) => curve.values.slice(first).filter((each) => each !== null)));
  // Small numbers of prototypes matter most: the axis is logarithmic.
  const [low, high] = [Math.log(ks[first]), Math.log(ks[ks.length - 1])];
  const x = (k) => LEFT + ((Math.log(k) - low) / (high - low || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (error) => HEIGHT - BOTTOM - (error / most) * (HEIGHT - TOP - BOTTOM);
  const text = (content, at, anchor = "middle", name = "dkm-chart-text") => {
    const element = svg("text", { x: at[0], y: at[1], "text-anchor": anchor, class: name });
    element.textContent = content;
    return element;
  };
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "dkm-chart", role: "img", "aria-label": label });
  for (const value of ticks(0, 100 * most, 6)) {
    const at = y(value / 100);
    chart.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: "dkm-chart-grid" }));
    chart.append(text(`${short(value)} %`, [LEFT - 6, at + 4], "end"));
  }
  for (const k of kTicks(ks[first], ks[ks.length - 1])) chart.append(text(String(k), [x(k), HEIGHT - BOTTOM + 16]));
  chart.append(text("prototypes", [(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3]));
  shown.forEach((curve) => {
    const points = curve.values.flatMap((error, i) => (error === null || i < first ? [] : [`${x(ks[i]).toFixed(1)} ${y(error).toFixed(1)}`]));
    chart.append(svg("path", { d: `M${points.join("L")}`, class: `dkm-curve dkm-curve-${curve.style}` }));
  });
  if (current !== null && current >= first) {
    const at = x(ks[current]);
    chart.append(svg("line", { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM, class: "dkm-chart-mark" }));
    for (const curve of shown) {
      if (curve.values[current] !== null) {
        chart.append(svg("circle", { cx: at, cy: y(curve.values[current]), r: 4, class: `dkm-dot-${curve.style}` }));
      }
    }
  }
  return chart;
}

function kTicks(low, high) {
  const found = [];
  for (let power = 1; power <= high; power *= 10) {
    for (const factor of [1, 2, 5]) {
      if (factor * power >= low && factor * power <= high) found.push(factor * power);
    }
  }
  return found.length ? found : [low];
}
