// Build elements. Strings become text nodes, so that text from data is never HTML.

/** An element with properties, listeners (`onclick`) and children; null children are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replace an element's children; the focus returns to the element with the same data-key. */
export function refill(parent, ...children) {
  const active = parent.getRootNode().activeElement;
  const key = active && parent.contains(active) ? active.dataset.key : undefined;
  parent.replaceChildren(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  if (key !== undefined) {
    for (const child of parent.querySelectorAll("[data-key]")) {
      if (child.dataset.key === key) child.focus({ preventScroll: true });
    }
  }
}

const ICONS = {
  undo: "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  redo: "m15 14 5-5-5-5M20 9H10a6 6 0 0 0 0 12h3",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  pan: "M12 3v18M3 12h18M12 3 9 6M12 3l3 3M12 21l-3-3M12 21l3-3M3 12l3-3M3 12l3 3M21 12l-3-3M21 12l-3 3",
  lasso: "M12 4c5 0 9 2.5 9 6s-4 6-9 6-9-2.5-9-6 4-6 9-6M7 15c-2 2 0 4-2 6",
  play: "M7 4v16l13-8z",
  pause: "M7 4v16M17 4v16",
  close: "M6 6l12 12M18 6 6 18",
};

/** A small line icon; decoration only, the control that holds it has a name. */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "dkm-icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }),
  );
}

/** A button; `key` lets the focus survive when its panel is filled again. */
export function button(label, onclick, properties = {}) {
  return h("button", { type: "button", onclick, ...properties }, label);
}

/** A select of [value, text] pairs. */
export function choice(label, pairs, value, onchange, properties = {}) {
  const select = h(
    "select",
    { "aria-label": label, onchange: (event) => onchange(event.target.value), ...properties },
    pairs.map(([each, text]) => h("option", { value: String(each) }, text)),
  );
  select.value = String(value);
  return select;
}

/** A label above or beside a control. */
export function field(text, control, properties = {}) {
  return h("label", { class: "dkm-field", ...properties }, h("span", {}, text), control);
}
