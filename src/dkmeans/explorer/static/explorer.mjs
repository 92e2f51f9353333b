// The explorer: builds the page from its parts, for a transport. Notebooks call `render`.

import { h } from "./dom.mjs";
import { PlaneMap } from "./map.mjs";
import { messages } from "./messages.mjs";
import { classesPanel } from "./panels/classes.mjs";
import { growthPanel } from "./panels/growth.mjs";
import { prototypePanel } from "./panels/prototype.mjs";
import { rejectionPanel } from "./panels/rejection.mjs";
import { rowPanel } from "./panels/row.mjs";
import { suspectsPanel } from "./panels/suspects.mjs";
import { selectionBar } from "./selection.mjs";
import { sidebar } from "./sidebar.mjs";
import { Store } from "./store.mjs";
import { tabs } from "./tabs.mjs";
import { followTheme } from "./theme.mjs";
import { topbar } from "./topbar.mjs";
import { WidgetTransport } from "./transport.mjs";

const PANELS = [rowPanel, prototypePanel, classesPanel, suspectsPanel, growthPanel, rejectionPanel];

/** Fill an element with an explorer; returns a function that ends it. */
export function start(element, transport) {
  const store = new Store(transport);
  const map = new PlaneMap(store);
  map.element.append(selectionBar(store));
  const root = h("div", { class: "dkm" });
  root.append(
    h(
      "div",
      { class: "dkm-frame" },
      topbar(store, map),
      sidebar(store),
      h("main", { class: "dkm-main" }, map.element),
      tabs(store, PANELS.map((panel) => panel(store))),
      messages(store),
    ),
  );
  element.replaceChildren(root);
  const stopTheme = followTheme(root, store);
  const keys = (event) => historyKeys(event, store);
  root.addEventListener("keydown", keys);
  // Another tab may have changed the session meanwhile.
  const again = () => document.visibilityState === "visible" && store.state && store.run(() => store.refresh());
  window.addEventListener("focus", again);
  store.run(() => store.open());
  root.explorer = { store, map }; // for tests and benchmarks
  return () => {
    stopTheme();
    window.removeEventListener("focus", again);
    transport.close();
  };
}

function historyKeys(event, store) {
  const isText = event.target.matches("input[type=text], textarea");
  if (isText || !(event.ctrlKey || event.metaKey) || !store.state) return;
  const key = event.key.toLowerCase();
  const isRedo = key === "y" || (key === "z" && event.shiftKey);
  if (key !== "z" && !isRedo) return;
  event.preventDefault();
  event.stopPropagation();
  if (isRedo && store.state.redo) store.redo();
  else if (!isRedo && store.state.undo) store.undo();
}

/** Entry point of the notebook widget. */
export function render({ model, el }) {
  return start(el, new WidgetTransport(model));
}

export default { render };
