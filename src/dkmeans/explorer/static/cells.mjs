// Turn the nearest prototype of every pixel into an image: tints of classes, lines between cells.

import { colour, rgb } from "./colours.mjs";

/** Pixels per sample of the plane; the server answers one nearest prototype per sample. */
export const PIXELS_PER_SAMPLE = 2;
export const MAX_SIDE = 480;

/** An image of `regions` (prototype index per sample) on a canvas of that size. */
export function cellImage(regions, width, height, classOf, { cells, borders, dark, hidden }) {
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
