// Draw what lies over the points: axes, prototypes, marks of row and rival, lasso, crosshair.

import { colour, trace } from "./colours.mjs";
import { ticks } from "./view.mjs";
import { cut, short } from "./words.mjs";

const FONT = "11px system-ui, sans-serif";

/** Everything that the overlay shows, drawn anew each time. `scene` comes from the map. */
export function drawOverlay(context, view, scene) {
  context.clearRect(0, 0, view.width, view.height);
  drawAxes(context, view, scene);
  if (scene.prototypes) drawPrototypes(context, view, scene);
  drawMarks(context, view, scene);
  if (scene.lasso) drawLasso(context, view, scene);
  if (scene.crosshair) drawCrosshair(context, view, scene);
}

function drawAxes(context, view, { theme, axes }) {
  const [x0, x1, y0, y1] = view.extent();
  context.font = FONT;
  context.fillStyle = theme.muted;
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "bottom";
  for (const value of ticks(x0, x1, view.width / 110)) {
    const x = view.pixelX(value);
    if (x < 30 || x > view.width - 30) continue;
    line(context, x, view.height, x, view.height - 5);
    context.fillText(short(value), x, view.height - 7);
  }
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const value of ticks(y0, y1, view.height / 90)) {
    const y = view.pixelY(value);
    if (y < 24 || y > view.height - 40) continue;
    line(context, 0, y, 5, y);
    context.fillText(short(value), 8, y);
  }
  context.textAlign = "right";
  context.textBaseline = "bottom";
  halo(context, cut(axes[0], 40), view.width - 10, view.height - 22, theme);
  context.save();
  context.translate(8, 10);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  halo(context, cut(axes[1], 40), 0, 30, theme);
  context.restore();
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function halo(context, text, x, y, theme) {
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = theme.ground;
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

function drawPrototypes(context, view, { prototypes, theme, hidden, chosenPrototype, rivalPrototype, hovered }) {
  const radius = prototypes.length > 400 ? 5 : prototypes.length > 120 ? 6.5 : 8;
  prototypes.forEach(([dataX, dataY, category], index) => {
    if (hidden.has(category)) return;
    const x = view.pixelX(dataX);
    const y = view.pixelY(dataY);
    if (x < -20 || y < -20 || x > view.width + 20 || y > view.height + 20) return;
    const isChosen = index === chosenPrototype || index === rivalPrototype || index === hovered;
    trace(context, category, x, y, isChosen ? radius * 1.35 : radius);
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = theme.ground;
    context.stroke();
    context.fillStyle = colour(category, theme.dark);
    context.fill();
    context.lineWidth = isChosen ? 2.5 : 1.5;
    context.strokeStyle = theme.ink;
    context.stroke();
  });
}

function drawMarks(context, view, scene) {
  const { theme, row, ellipse, links, label } = scene;
  for (const [from, to, isRival] of links) {
    context.setLineDash(isRival ? [4, 4] : []);
    context.lineWidth = 1.5;
    context.strokeStyle = theme.ink;
    line(context, view.pixelX(from[0]), view.pixelY(from[1]), view.pixelX(to[0]), view.pixelY(to[1]));
  }
  context.setLineDash([]);
  if (row) {
    const [x, y] = [view.pixelX(row[0]), view.pixelY(row[1])];
    for (const [width, tone] of [[5, theme.ground], [2.5, theme.accent]]) {
      context.beginPath();
      context.arc(x, y, 10, 0, 2 * Math.PI);
      context.lineWidth = width;
      context.strokeStyle = tone;
      context.stroke();
    }
    if (ellipse) {
      context.beginPath();
      context.ellipse(x, y, ellipse[0] * view.scaleX, ellipse[1] * view.scaleY, 0, 0, 2 * Math.PI);
      context.setLineDash([6, 3]);
      context.stroke();
      context.setLineDash([]);
    }
  }
  if (label) {
    context.font = FONT;
    context.fillStyle = theme.ink;
    context.textAlign = "left";
    context.textBaseline = "bottom";
    halo(context, cut(label.text, 48), view.pixelX(label.at[0]) + 12, view.pixelY(label.at[1]) - 8, theme);
  }
}

function drawLasso(context, view, { lasso, theme }) {
  context.beginPath();
  for (const [x, y] of lasso) context.lineTo(view.pixelX(x), view.pixelY(y));
  context.closePath();
  context.fillStyle = theme.accentTint;
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = theme.accent;
  context.stroke();
}

function drawCrosshair(context, view, { crosshair, theme }) {
  const [x, y] = [view.width / 2, view.height / 2];
  for (const [width, tone] of [[4, theme.ground], [1.5, theme.accent]]) {
    context.lineWidth = width;
    context.strokeStyle = tone;
    line(context, x - 14, y, x - 4, y);
    line(context, x + 4, y, x + 14, y);
    line(context, x, y - 14, x, y - 4);
    line(context, x, y + 4, x, y + 14);
    context.beginPath();
    context.arc(x, y, crosshair.radius, 0, 2 * Math.PI);
    context.stroke();
  }
}
