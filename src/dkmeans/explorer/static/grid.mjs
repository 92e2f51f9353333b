// Rows of one layer on one plane, ordered by the cells of a grid: picking, lasso and drawing of a part.

export const WRONG = 1;
export const SUSPECT = 2;
export const REJECTED = 4;
export const DROPPED = 8;
export const RELABELLED = 16;

const ROWS_PER_CELL = 16;
const MAX_SIDE = 256;

/** Points in the order of grid cells. `row[i]` is the number of the i-th point's row. */
export class Grid {
  constructor(buffer) {
    const n = new DataView(buffer).getUint32(0, true);
    const x = new Float32Array(buffer, 4, n);
    const y = new Float32Array(buffer, 4 + 4 * n, n);
    const classes = new Uint16Array(buffer, 4 + 8 * n, n);
    const predicted = new Uint16Array(buffer, 4 + 10 * n, n);
    const flags = new Uint8Array(buffer, 4 + 12 * n, n);
    this.n = n;
    this.extent = bounds(x, y);
    this.side = Math.max(1, Math.min(MAX_SIDE, Math.ceil(Math.sqrt(n / ROWS_PER_CELL))));
    this.#order(x, y);
    this.x = gather(x, this.row);
    this.y = gather(y, this.row);
    this.classes = gather(classes, this.row);
    this.predicted = gather(predicted, this.row);
    this.flags = gather(flags, this.row);
    this.selected = new Uint8Array(n);
    this.selectedCount = 0;
  }

  #order(x, y) {
    const [x0, x1, y0, y1] = this.extent;
    const { side, n } = this;
    const across = side / (x1 - x0 || 1);
    const up = side / (y1 - y0 || 1);
    const cell = new Uint32Array(n);
    this.first = new Uint32Array(side * side + 1);
    for (let i = 0; i < n; i++) {
      const column = Math.min(side - 1, ((x[i] - x0) * across) | 0);
      const line = Math.min(side - 1, ((y[i] - y0) * up) | 0);
      cell[i] = line * side + column;
      this.first[cell[i] + 1]++;
    }
    for (let i = 0; i < side * side; i++) this.first[i + 1] += this.first[i];
    const next = this.first.slice();
    this.row = new Uint32Array(n);
    this.place = new Uint32Array(n); // of a row in the order of the grid
    for (let i = 0; i < n; i++) {
      const at = next[cell[i]]++;
      this.row[at] = i;
      this.place[i] = at;
    }
  }

  /** Ranges [from, to) of points whose cells touch an extent. */
  ranges([x0, x1, y0, y1]) {
    const [gx0, gx1, gy0, gy1] = this.extent;
    const { side } = this;
    if (this.n === 0 || x1 < gx0 || x0 > gx1 || y1 < gy0 || y0 > gy1) return [];
    const clip = (value) => Math.max(0, Math.min(side - 1, Math.floor(value)));
    const across = side / (gx1 - gx0 || 1);
    const up = side / (gy1 - gy0 || 1);
    const [left, right] = [clip((x0 - gx0) * across), clip((x1 - gx0) * across)];
    const [low, high] = [clip((y0 - gy0) * up), clip((y1 - gy0) * up)];
    if (left === 0 && right === side - 1) {
      return [[this.first[low * side], this.first[(high + 1) * side]]];
    }
    const found = [];
    for (let line = low; line <= high; line++) {
      const from = this.first[line * side + left];
      const to = this.first[line * side + right + 1];
      if (to > from) found.push([from, to]);
    }
    return found;
  }

  /** Index of the visible point nearest to a pixel, within a distance in pixels; -1 if there is none. */
  nearest(view, pixelX, pixelY, within, visible) {
    const reachX = within / view.scaleX;
    const reachY = within / view.scaleY;
    const x = view.dataX(pixelX);
    const y = view.dataY(pixelY);
    let best = -1;
    let least = within * within;
    for (const [from, to] of this.ranges([x - reachX, x + reachX, y - reachY, y + reachY])) {
      for (let i = from; i < to; i++) {
        const dx = (this.x[i] - x) * view.scaleX;
        const dy = (this.y[i] - y) * view.scaleY;
        const distance = dx * dx + dy * dy;
        if (distance <= least && visible(i)) {
          least = distance;
          best = i;
        }
      }
    }
    return best;
  }

  /** Rows inside a polygon [[x, y], ...] in data coordinates (even-odd rule), in order of number. */
  inside(polygon, visible) {
    const xs = polygon.map(([x]) => x);
    const ys = polygon.map(([, y]) => y);
    const box = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const rows = [];
    for (const [from, to] of this.ranges(box)) {
      for (let i = from; i < to; i++) {
        if (isInside(xs, ys, this.x[i], this.y[i]) && visible(i)) rows.push(this.row[i]);
      }
    }
    return rows.sort((a, b) => a - b);
  }

  /** Number of points in the cells that an extent touches. */
  countIn(extent) {
    return this.ranges(extent).reduce((sum, [from, to]) => sum + to - from, 0);
  }

  select(rows) {
    this.selected.fill(0);
    for (const row of rows) this.selected[this.place[row]] = 1;
    this.selectedCount = rows.length;
  }
}

function isInside(xs, ys, x, y) {
  let inside = false;
  for (let i = 0, j = xs.length - 1; i < xs.length; j = i++) {
    if (ys[i] > y !== ys[j] > y && x < ((xs[j] - xs[i]) * (y - ys[i])) / (ys[j] - ys[i]) + xs[i]) {
      inside = !inside;
    }
  }
  return inside;
}

function bounds(x, y) {
  if (x.length === 0) return [0, 1, 0, 1];
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < x.length; i++) {
    if (x[i] < x0) x0 = x[i];
    if (x[i] > x1) x1 = x[i];
    if (y[i] < y0) y0 = y[i];
    if (y[i] > y1) y1 = y[i];
  }
  return [x0, x1, y0, y1];
}

function gather(values, order) {
  const gathered = new values.constructor(values.length);
  for (let i = 0; i < order.length; i++) gathered[i] = values[order[i]];
  return gathered;
}
