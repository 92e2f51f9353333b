// Cells of the prototypes: the nearest one of every sample, and an image of tints and lines.

import { colour, rgb } from "./colours.mjs";

const PIXELS_PER_SAMPLE = 2;
const MAX_SIDE = 480;

const MAX_DISTANCES = 3e7; // of samples to prototypes, per picture

/** Number of samples across and down for a view; fewer when there are many prototypes. */
export function sampleSize(view, prototypes) {
  const least = Math.sqrt((view.width * view.height * prototypes) / MAX_DISTANCES);
  const scale = Math.max(PIXELS_PER_SAMPLE, view.width / MAX_SIDE, view.height / MAX_SIDE, least);
  const samples = (pixels) => Math.max(2, Math.round(pixels / scale));
  return [samples(view.width), samples(view.height)];
}

/** The prototype that is nearest on the map, per sample, line by line from the top. */
export function nearestOnMap(prototypes, [x0, x1, y0, y1], width, height) {
  const xs = Float64Array.from(prototypes, ([x]) => x);
  const ys = Float64Array.from(prototypes, ([, y]) => y);
  const found = new Uint16Array(width * height);
  for (let line = 0, at = 0; line < height; line++) {
    const y = y1 - ((line + 0.5) * (y1 - y0)) / height;
    const squares = ys.map((each) => (each - y) ** 2);
    for (let column = 0; column < width; column++, at++) {
      const x = x0 + ((column + 0.5) * (x1 - x0)) / width;
      let least = Infinity;
      for (let i = 0; i < xs.length; i++) {
        const dx = xs[i] - x;
        const distance = dx * dx + squares[i];
        if (distance < least) {
          least = distance;
          found[at] = i;
        }
      }
    }
  }
  return found;
}

/** An image of `regions` (prototype index per sample) on a canvas of that size. */
export function cellImage(regions, width, height, classOf, { cellsShown: cells, borders, dark, hidden }) {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const tint = dark ? 44 : 34;
  const line = dark ? [235, 238, 242] : [40, 44, 52];
  const set = (at, [r, g, b], alpha) => image.data.set([r, g, b, alpha], 4 * at);
  for (let row = 0, at = 0; row < height; row++) {
    for (let column = 0; column < width; column++, at++) {
      const own = regions[at];
      const right = column + 1 < width ? regions[at + 1] : own;
      const below = row + 1 < height ? regions[at + width] : own;
      const mine = classOf[own];
      const isBorder = classOf[right] !== mine || classOf[below] !== mine;
      const isEdge = right !== own || below !== own;
      if (borders && isBorder) set(at, line, 200);
      else if (cells && isEdge) set(at, line, dark ? 70 : 50);
      else if (cells && !hidden.has(mine)) set(at, rgb(colour(mine, dark)), tint);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
