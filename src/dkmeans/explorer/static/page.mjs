// Start the explorer on its own page, which the local server delivers.

import { start } from "./explorer.mjs";
import { HttpTransport } from "./transport.mjs";

start(document.getElementById("explorer"), new HttpTransport());
