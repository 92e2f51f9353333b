// Colours and symbols of classes: Okabe and Ito's palette and the marker order of dkmeans.plots.

import { svg } from "./dom.mjs";

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000"];
// Brighter, of the same hue, where the ground is dark.
const DARK = { "#0072B2": "#3B9BD9", "#D55E00": "#EE7733", "#009E73": "#22B58A", "#000000": "#E6E6E6" };
export const SYMBOLS = 8; // circle, square, triangle, diamond, triangle down, plus, cross, star

export function colour(number, dark) {
  const base = COLOURS[number % COLOURS.length];
  return dark ? (DARK[base] ?? base) : base;
}

/** Index of a class's symbol; 64 classes have a combination of their own. */
export function symbol(number) {
  return (number + Math.floor(number / COLOURS.length)) % SYMBOLS;
}

export function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function star() {
  return Array.from({ length: 10 }, (_, i) => {
    const radius = i % 2 ? 0.45 : 1.1;
    const angle = (Math.PI * i) / 5 - Math.PI / 2;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
}

function turned(points) {
  const s = Math.SQRT1_2;
  return points.map(([x, y]) => [s * (x - y), s * (x + y)]);
}

const PLUS = [
  [-0.36, -1], [0.36, -1], [0.36, -0.36], [1, -0.36], [1, 0.36], [0.36, 0.36],
  [0.36, 1], [-0.36, 1], [-0.36, 0.36], [-1, 0.36], [-1, -0.36], [-0.36, -0.36],
];
// Outlines within a circle of radius 1, y downwards; null is the circle.
const OUTLINES = [
  null,
  [[-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]],
  [[0, -1], [0.95, 0.75], [-0.95, 0.75]],
  [[0, -1.1], [1.1, 0], [0, 1.1], [-1.1, 0]],
  [[0, 1], [0.95, -0.75], [-0.95, -0.75]],
  PLUS,
  turned(PLUS),
  star(),
];

/** Trace a class's symbol in a 2D context. */
export function trace(context, number, x, y, radius) {
  const outline = OUTLINES[symbol(number)];
  context.beginPath();
  if (outline === null) context.arc(x, y, 0.9 * radius, 0, 2 * Math.PI);
  else {
    for (const [dx, dy] of outline) context.lineTo(x + radius * dx, y + radius * dy);
    context.closePath();
  }
}

/** The same as path data of SVG. */
export function pathData(number, x, y, radius) {
  const outline = OUTLINES[symbol(number)];
  const at = (value) => value.toFixed(2);
  if (outline === null) {
    const r = at(0.9 * radius);
    return `M${at(x - 0.9 * radius)} ${at(y)}a${r} ${r} 0 1 0 ${at(1.8 * radius)} 0a${r} ${r} 0 1 0 ${at(-1.8 * radius)} 0z`;
  }
  return `M${outline.map(([dx, dy]) => `${at(x + radius * dx)} ${at(y + radius * dy)}`).join("L")}z`;
}

/** A class's symbol as a small picture; the colours of both themes are in the style sheet. */
export function swatch(number) {
  return svg(
    "svg",
    { viewBox: "-8 -8 16 16", class: `dkm-swatch dkm-colour-${number % COLOURS.length}`, "aria-hidden": "true" },
    svg("path", { d: pathData(number, 0, 0, 6) }),
  );
}
