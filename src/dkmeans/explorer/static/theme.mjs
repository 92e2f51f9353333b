// Light or dark: follow the notebook's theme, or else the system's.

import { rgb } from "./colours.mjs";

const LIGHT = { ground: "#ffffff", ink: "#1c2430", muted: "#5d6775", line: "#c4cad3", accent: "#0b62c4", accentTint: "#0b62c422" };
const DARK = { ground: "#14181f", ink: "#eef1f5", muted: "#9aa5b4", line: "#3a4350", accent: "#6cb2ff", accentTint: "#6cb2ff2e" };

/** Colours of the canvases; those of everything else are in the style sheet. */
export function readTheme(dark) {
  const theme = dark ? DARK : LIGHT;
  return { ...theme, dark, inkRgb: rgb(theme.ink) };
}

/** Keep `data-theme` of the root and store.dark up to date; returns a function that stops it. */
export function followTheme(root, store) {
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const apply = () => {
    const notebook = root.closest("[data-jp-theme-light]")?.dataset.jpThemeLight;
    const dark = !printing.matches && (notebook === undefined ? query.matches : notebook === "false");
    root.dataset.theme = dark ? "dark" : "light";
    store.look({ dark, printing: printing.matches });
  };
  apply();
  query.addEventListener("change", apply);
  printing.addEventListener("change", apply);
  const observer = new MutationObserver(apply);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  return () => {
    query.removeEventListener("change", apply);
    printing.removeEventListener("change", apply);
    observer.disconnect();
  };
}
