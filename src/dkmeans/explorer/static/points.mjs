// Draw points with WebGL2: one sprite per row, coloured and shaped by class.

import { colour, rgb, symbol } from "./colours.mjs";
import { DROPPED, WRONG } from "./grid.mjs";

const PALETTE_WIDTH = 256;
const PROBE_ROWS = 20_000;

const VERTEX = `#version 300 es
precision highp float;
in float x; in float y; in uint category; in uint flags; in uint chosen;
uniform vec2 centre; uniform vec2 scale; uniform float size; uniform float opacity;
uniform uint shown; uniform bool choosing; uniform bool backdrop;
uniform highp sampler2D palette;
flat out vec4 fill; flat out int shape; flat out float ring;
const float widths[8] = float[8](1.0, 1.0, 1.25, 1.15, 1.25, 1.1, 1.1, 1.3); // about equal areas
void main() {
  int number = int(category);
  vec4 entry = texelFetch(palette, ivec2(number & ${PALETTE_WIDTH - 1}, number >> 8), 0);
  bool dropped = (flags & ${DROPPED}u) != 0u;
  bool hidden = entry.a < 0.002 || (dropped && (shown & ${DROPPED}u) == 0u);
  bool faint = shown != 0u ? (flags & shown) == 0u : choosing && chosen == 0u;
  shape = int(entry.a * 255.0 + 0.5) - 1;
  fill = vec4(entry.rgb, faint ? 0.12 : opacity);
  bool strong = !faint && !backdrop;
  ring = strong && (flags & ${WRONG}u) != 0u ? 1.0 : backdrop ? -1.0 : 0.0;
  float grown = strong && (choosing || shown != 0u) ? 1.35 : 1.0;
  gl_Position = hidden ? vec4(2.0, 2.0, 2.0, 1.0) : vec4((vec2(x, y) - centre) * scale, 0.0, 1.0);
  gl_PointSize = size * widths[clamp(shape, 0, 7)] * grown * (ring > 0.0 ? 1.3 : 1.0);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
flat in vec4 fill; flat in int shape; flat in float ring;
uniform float size; uniform vec3 ink;
out vec4 result;
float box(vec2 p, vec2 half_size) { vec2 d = abs(p) - half_size; return max(d.x, d.y); }
float triangle(vec2 p) { return max(p.y - 0.72, abs(p.x) * 0.86 - p.y * 0.46 - 0.42); }
float star(vec2 p) {
  float a = atan(p.x, -p.y);
  float step_angle = 6.2831853 / 5.0;
  a = abs(mod(a + step_angle / 2.0, step_angle) - step_angle / 2.0);
  vec2 q = length(p) * vec2(cos(a), sin(a));
  return dot(q - vec2(1.0, 0.0), normalize(vec2(0.2645, 0.6645)));
}
float outside(vec2 p) {
  if (shape == 1) return box(p, vec2(0.76));
  if (shape == 2) return triangle(p);
  if (shape == 3) return (abs(p.x) + abs(p.y) - 1.0) * 0.7071;
  if (shape == 4) return triangle(vec2(p.x, -p.y));
  if (shape == 5) return min(box(p, vec2(0.34, 0.95)), box(p, vec2(0.95, 0.34)));
  if (shape == 6) { vec2 q = 0.7071 * vec2(p.x - p.y, p.x + p.y); return min(box(q, vec2(0.32, 0.98)), box(q, vec2(0.98, 0.32))); }
  if (shape == 7) return star(p);
  return length(p) - 0.9;
}
void main() {
  vec2 p = 2.0 * gl_PointCoord - 1.0;
  float d = size < 3.5 ? length(p) - 0.95 : outside(p);
  float cover = 1.0 - smoothstep(-2.0 / size, 0.0, d);
  float alpha = cover * fill.a;
  vec3 tone = fill.rgb;
  if (ring > 0.5) tone = mix(tone, ink, smoothstep(-0.2, -0.12, d));
  if (ring < -0.5) alpha *= smoothstep(-0.5, -0.3, d);
  if (alpha < 0.01) discard;
  result = vec4(tone * alpha, alpha);
}`;

function compiled(gl, kind, source) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}

/** Owner of one WebGL2 context. `ready` is false where the browser has none. */
export class PointRenderer {
  #uploads = new WeakMap(); // Grid -> vertex array and buffers

  constructor(canvas, restored) {
    this.canvas = canvas;
    this.pointsPerMs = null;
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.ready = false;
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.#prepare();
      restored();
    });
    this.#prepare();
  }

  #prepare() {
    const options = { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: false };
    const gl = this.canvas.getContext("webgl2", options);
    this.ready = gl !== null;
    this.gl = gl;
    this.#uploads = new WeakMap();
    if (!gl) return;
    const program = gl.createProgram();
    gl.attachShader(program, compiled(gl, gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compiled(gl, gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    this.program = program;
    this.at = (name) => gl.getUniformLocation(program, name);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.palette = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.palette);
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) {
      gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
    }
  }

  /** Colours, symbols and visibility of classes: alpha is 0 for hidden ones, else symbol + 1. */
  setClasses(number, hidden, dark) {
    if (!this.ready) return;
    const { gl } = this;
    const height = Math.max(1, Math.ceil(number / PALETTE_WIDTH));
    const texels = new Uint8Array(4 * PALETTE_WIDTH * height);
    for (let i = 0; i < number; i++) {
      texels.set([...rgb(colour(i, dark)), hidden.has(i) ? 0 : symbol(i) + 1], 4 * i);
    }
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, PALETTE_WIDTH, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels);
  }

  #upload(grid) {
    const { gl } = this;
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    const buffers = {};
    const attribute = (name, values, type, isInteger) => {
      const location = gl.getAttribLocation(this.program, name);
      buffers[name] = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
      gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
      gl.enableVertexAttribArray(location);
      if (isInteger) gl.vertexAttribIPointer(location, 1, type, 0, 0);
      else gl.vertexAttribPointer(location, 1, type, false, 0, 0);
    };
    attribute("x", grid.x, gl.FLOAT, false);
    attribute("y", grid.y, gl.FLOAT, false);
    attribute("category", grid.classes, gl.UNSIGNED_SHORT, true);
    attribute("flags", grid.flags, gl.UNSIGNED_BYTE, true);
    attribute("chosen", grid.selected, gl.UNSIGNED_BYTE, true);
    const upload = { array, buffers };
    this.#uploads.set(grid, upload);
    return upload;
  }

  /** Send flags and selection of a grid again after they changed. */
  refresh(grid) {
    const upload = this.#uploads.get(grid);
    if (!this.ready || !upload) return;
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, upload.buffers.flags);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, grid.flags);
    gl.bindBuffer(gl.ARRAY_BUFFER, upload.buffers.chosen);
    gl.bufferSubData(gl.ARRAY_BUFFER, 0, grid.selected);
  }

  release(grid) {
    const upload = grid && this.#uploads.get(grid);
    if (!this.ready || !upload) return;
    this.gl.deleteVertexArray(upload.array);
    Object.values(upload.buffers).forEach((each) => this.gl.deleteBuffer(each));
    this.#uploads.delete(grid);
  }

  clear() {
    if (!this.ready) return;
    const { gl } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
  }

  /** Expected milliseconds of a frame with so many points, from a timed sample. */
  expected(grid, points, view, look) {
    if (!this.ready) return Infinity;
    if (points <= PROBE_ROWS) return 0;
    if (this.pointsPerMs === null) {
      this.draw(grid, view, look, [[0, 1]]); // compile and upload outside of the measurement
      this.#finish();
      const from = performance.now();
      this.draw(grid, view, look, [[0, PROBE_ROWS]]);
      this.#finish();
      this.pointsPerMs = PROBE_ROWS / Math.max(0.05, performance.now() - from);
      this.clear();
    }
    return points / this.pointsPerMs;
  }

  /** Draw, and where points are many learn how fast that was: symbols grow as one zooms in. */
  drawTimed(grid, view, look, ranges) {
    const points = ranges.reduce((sum, [from, to]) => sum + to - from, 0);
    const began = performance.now();
    this.draw(grid, view, look, ranges);
    if (!this.ready || points <= PROBE_ROWS || this.pointsPerMs === null) return;
    this.#finish();
    const rate = points / Math.max(0.05, performance.now() - began);
    this.pointsPerMs = (this.pointsPerMs + rate) / 2;
  }

  #finish() {
    this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
  }

  /** Draw the points of some ranges. `look`: ratio, size, opacity, shown, choosing, backdrop, ink. */
  draw(grid, view, look, ranges) {
    if (!this.ready) return;
    const { gl } = this;
    const { array } = this.#uploads.get(grid) ?? this.#upload(grid);
    gl.bindVertexArray(array);
    gl.uniform2f(this.at("centre"), view.x, view.y);
    gl.uniform2f(this.at("scale"), (2 * view.scaleX) / view.width, (2 * view.scaleY) / view.height);
    gl.uniform1f(this.at("size"), look.size * look.ratio);
    gl.uniform1f(this.at("opacity"), look.opacity);
    gl.uniform1ui(this.at("shown"), look.shown);
    gl.uniform1i(this.at("choosing"), look.choosing ? 1 : 0);
    gl.uniform1i(this.at("backdrop"), look.backdrop ? 1 : 0);
    gl.uniform3f(this.at("ink"), ...look.ink.map((each) => each / 255));
    for (const [from, to] of ranges) gl.drawArrays(gl.POINTS, from, to - from);
  }
}
