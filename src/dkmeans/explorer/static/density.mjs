// Draw many rows as an image: per pixel the mean colour of its rows, the more the stronger.

import { colour, rgb } from "./colours.mjs";
import { DROPPED } from "./grid.mjs";

const FAINTEST = 0.22; // opacity of a pixel with one row

/** Count the rows of a grid per pixel and write the image. `look`: classes, hidden, shown, choosing, dark. */
export function drawDensity(context, grid, view, width, height, look) {
  const sums = new Float32Array(4 * width * height);
  const tones = Array.from({ length: look.classes }, (_, i) => rgb(colour(i, look.dark)));
  const kept = new Uint8Array(look.classes).fill(1);
  look.hidden.forEach((each) => (kept[each] = 0));
  const scaleX = (view.scaleX * width) / view.width;
  const scaleY = (view.scaleY * height) / view.height;
  const shiftX = width / 2 - view.x * scaleX;
  const shiftY = height / 2 + view.y * scaleY;
  const { x, y, classes, flags, selected } = grid;
  const { shown, choosing } = look;
  let most = 0;
  for (const [from, to] of grid.ranges(view.extent())) {
    for (let i = from; i < to; i++) {
      const column = x[i] * scaleX + shiftX;
      const line = shiftY - y[i] * scaleY;
      if (column < 0 || line < 0 || column >= width || line >= height) continue;
      const category = classes[i];
      if (!kept[category]) continue;
      if (shown ? !(flags[i] & shown) : flags[i] & DROPPED || (choosing && !selected[i])) continue;
      const at = 4 * ((line | 0) * width + (column | 0));
      const tone = tones[category];
      sums[at] += tone[0];
      sums[at + 1] += tone[1];
      sums[at + 2] += tone[2];
      const total = ++sums[at + 3];
      if (total > most) most = total;
    }
  }
  const image = context.createImageData(width, height);
  const strength = (1 - FAINTEST) / Math.log(1 + most);
  for (let at = 0; at < sums.length; at += 4) {
    const total = sums[at + 3];
    if (total === 0) continue;
    image.data[at] = sums[at] / total;
    image.data[at + 1] = sums[at + 1] / total;
    image.data[at + 2] = sums[at + 2] / total;
    image.data[at + 3] = 255 * (FAINTEST + strength * Math.log(1 + total));
  }
  context.putImageData(image, 0, 0);
}
