// Downloads: files that the session writes, and the map as a picture.

import { colour, pathData } from "./colours.mjs";
import { DROPPED } from "./grid.mjs";

const MAX_SVG_POINTS = 50_000; // more become an image within the SVG

/** Table, model or script, under the name that the session gives it. */
export async function exportFile(store, what) {
  const { name } = await store.transport.call("export_name", { what });
  download(new Blob([await store.transport.bytes("export", { what })]), name);
  store.say(`Exported ${name}.`);
}

export async function exportPicture(store, map, format) {
  const name = `map.${format}`;
  if (format === "png") download(await png(store, map), name);
  else download(new Blob([await svgText(store, map)], { type: "image/svg+xml" }), name);
  store.say(`Exported ${name}.`);
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The map's layers on one canvas, with a legend below. */
function composed(store, map) {
  const layers = map.layers();
  const { width, height } = map.overlayCanvas;
  const rows = legendRows(store, map.view.width);
  const canvas = new OffscreenCanvas(width, height + Math.round(rows.height * map.ratio));
  const context = canvas.getContext("2d");
  context.fillStyle = map.theme.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const layer of layers) context.drawImage(layer, 0, 0, width, height);
  context.setTransform(map.ratio, 0, 0, map.ratio, 0, height);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const { category, x, y, text } of rows.items) {
    context.fillStyle = colour(category, store.dark);
    context.fill(new Path2D(pathData(category, x, y, 5)));
    context.fillStyle = map.theme.ink;
    context.fillText(text, x + 10, y);
  }
  return canvas;
}

function png(store, map) {
  return composed(store, map).convertToBlob({ type: "image/png" });
}

/** Places of the classes' names in lines of the given width. */
function legendRows(store, width) {
  const measure = new OffscreenCanvas(1, 1).getContext("2d");
  measure.font = "12px system-ui, sans-serif";
  const items = [];
  let [x, y] = [14, 16];
  store.classNumbers.forEach((category) => {
    const name = store.className(category);
    if (store.hidden.has(category)) return;
    const text = name.length > 30 ? `${name.slice(0, 29)}…` : name;
    const needed = measure.measureText(text).width + 30;
    if (x + needed > width && x > 14) [x, y] = [14, y + 20];
    items.push({ category, x, y, text });
    x += needed;
  });
  return { items, height: y + 16 };
}

function dataUrl(blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(blob);
  });
}

function escaped(text) {
  return String(text).replace(/[&<>"']/g, (each) => `&#${each.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
}

async function svgText(store, map) {
  const scene = map.scene();
  const { view } = map;
  const { theme } = scene;
  const rows = legendRows(store, view.width);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${view.width} ${view.height + rows.height}" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="${theme.ground}"/>`,
    `<clipPath id="map"><rect width="${view.width}" height="${view.height}"/></clipPath><g clip-path="url(#map)">`,
    await cellMarkup(store, map, view),
    await pointMarkup(store, map, view),
  ];
  for (const [x, y, category] of scene.prototypes ?? []) {
    if (scene.hidden.has(category)) continue;
    parts.push(`<path d="${pathData(category, view.pixelX(x), view.pixelY(y), 8)}" fill="${colour(category, store.dark)}" stroke="${theme.ink}" stroke-width="1.5"/>`);
  }
  const [across, up] = scene.axes;
  parts.push(
    "</g>",
    `<text x="${view.width - 10}" y="${view.height - 8}" text-anchor="end" fill="${theme.muted}">${escaped(across)}</text>`,
    `<text transform="translate(16 10) rotate(-90)" text-anchor="end" fill="${theme.muted}">${escaped(up)}</text>`,
    ...rows.items.map(
      ({ category, x, y, text }) =>
        `<path d="${pathData(category, x, view.height + y, 5)}" fill="${colour(category, store.dark)}"/>` +
        `<text x="${x + 10}" y="${view.height + y + 4}" fill="${theme.ink}">${escaped(text)}</text>`,
    ),
    "</svg>",
  );
  return parts.join("\n");
}

async function cellMarkup(store, map, view) {
  const cells = map.cellPicture;
  if (!cells?.image || !(store.cellsShown || store.borders)) return "";
  const [x0, x1, y0, y1] = cells.extent;
  const [left, top] = [view.pixelX(x0), view.pixelY(y1)];
  const url = await dataUrl(await cells.image.convertToBlob());
  return `<image href="${url}" x="${left}" y="${top}" width="${view.pixelX(x1) - left}" height="${view.pixelY(y0) - top}" preserveAspectRatio="none"/>`;
}

async function pointMarkup(store, map, view) {
  const { grid } = store;
  if (!grid) return "";
  const ranges = grid.ranges(view.extent());
  if (map.isDensity || grid.countIn(view.extent()) > MAX_SVG_POINTS) {
    const [, density, points] = map.layers();
    const canvas = new OffscreenCanvas(points.width, points.height);
    const context = canvas.getContext("2d");
    for (const layer of [density, points]) context.drawImage(layer, 0, 0, canvas.width, canvas.height);
    return `<image href="${await dataUrl(await canvas.convertToBlob())}" width="${view.width}" height="${view.height}"/>`;
  }
  const found = [];
  for (const [from, to] of ranges) {
    for (let i = from; i < to; i++) {
      if (grid.flags[i] & DROPPED || store.hidden.has(grid.classes[i])) continue;
      const x = view.pixelX(grid.x[i]);
      const y = view.pixelY(grid.y[i]);
      found.push(`<path d="${pathData(grid.classes[i], x, y, 3)}" fill="${colour(grid.classes[i], store.dark)}" fill-opacity="0.85"/>`);
    }
  }
  return found.join("\n");
}
