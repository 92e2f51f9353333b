// Numbers and counts as text.

export function percent(part, whole) {
  if (!whole) return "–";
  const share = (100 * part) / whole;
  return `${share.toFixed(share > 0 && share < 0.995 ? 2 : 1)} %`;
}

export function count(number) {
  return Number(number).toLocaleString("en-US").replaceAll(",", "\u202f");
}

export function plural(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

/** A number with four significant digits, without needless zeros. */
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** Cut a long name in the middle. */
export function cut(text, most = 24) {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - half)}…${text.slice(-half)}`;
}

/** Error before and after, as one sentence per layer. */
export function effect({ training, held_out: heldOut }) {
  const one = (name, { before, after, n }) =>
    `${name} error ${percent(before, n)} → ${percent(after, n)} (${count(before)} → ${count(after)} of ${count(n)} rows)`;
  return [training && one("Training", training), heldOut && one("Held-out", heldOut)].filter(Boolean);
}
