// The window onto the plane: data coordinates to pixels and back.

/** Centre and scale of the visible part of the plane; y points upwards in data. */
export class View {
  width = 1;
  height = 1;
  x = 0;
  y = 0;
  scaleX = 1;
  scaleY = 1;

  /** Show an extent as large as possible; `equal` keeps one scale for both axes. */
  fit([x0, x1, y0, y1], equal) {
    this.x = (x0 + x1) / 2;
    this.y = (y0 + y1) / 2;
    this.scaleX = (0.94 * this.width) / (x1 - x0 || 1);
    this.scaleY = (0.94 * this.height) / (y1 - y0 || 1);
    if (equal) this.scaleX = this.scaleY = Math.min(this.scaleX, this.scaleY);
  }

  pixelX(x) {
    return (x - this.x) * this.scaleX + this.width / 2;
  }

  pixelY(y) {
    return this.height / 2 - (y - this.y) * this.scaleY;
  }

  dataX(pixel) {
    return (pixel - this.width / 2) / this.scaleX + this.x;
  }

  dataY(pixel) {
    return (this.height / 2 - pixel) / this.scaleY + this.y;
  }

  extent() {
    return [this.dataX(0), this.dataX(this.width), this.dataY(this.height), this.dataY(0)];
  }

  pan(dx, dy) {
    this.x -= dx / this.scaleX;
    this.y += dy / this.scaleY;
  }

  /** Zoom about a pixel, which stays where it is. */
  zoom(factor, pixelX, pixelY) {
    const x = this.dataX(pixelX);
    const y = this.dataY(pixelY);
    this.scaleX *= factor;
    this.scaleY *= factor;
    this.x += x - this.dataX(pixelX);
    this.y += y - this.dataY(pixelY);
  }

  copy() {
    return Object.assign(new View(), this);
  }
}

/** About `most` round numbers between two values. */
export function ticks(low, high, most) {
  const raw = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
  return found.map((value) => Number(value.toPrecision(12)));
}
