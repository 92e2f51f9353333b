// Ways to ask the session: HTTP for the page, comm messages for the notebook widget.
// Both have call(name, params) -> object and bytes(name, params) -> ArrayBuffer.

/** Requests to the local server that delivered the page. */
export class HttpTransport {
  async #post(name, params) {
    let response;
    try {
      response = await fetch(`api/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Dkmeans": "1" },
        body: JSON.stringify(params ?? {}),
        credentials: "same-origin",
      });
    } catch {
      throw new Error("The server does not answer: start the explorer again.");
    }
    if (response.ok) return response;
    let reason = `The server answered ${response.status} to ${name}.`;
    try {
      reason = (await response.json()).error ?? reason;
    } catch {
      // Not an answer of the session: the status has to do.
    }
    throw new Error(reason);
  }

  async call(name, params) {
    return (await this.#post(name, params)).json();
  }

  async bytes(name, params) {
    return (await this.#post(name, params)).arrayBuffer();
  }

  onChange() {}
  close() {}
}

/** Messages to the kernel through an anywidget model. Long answers arrive in pieces. */
export class WidgetTransport {
  #model;
  #next = 1;
  #waiting = new Map();
  #changed = () => {};
  #listen = (message, buffers) => this.#receive(message, buffers ?? []);

  constructor(model) {
    this.#model = model;
    model.on("msg:custom", this.#listen);
  }

  #ask(name, params) {
    // Several views of one widget share a model: identifiers must differ between them.
    const id = `${crypto.getRandomValues(new Uint32Array(1))[0]}-${this.#next++}`;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, pieces: [], missing: null });
      this.#model.send({ id, name, params: params ?? {} });
    });
  }

  #receive(message, buffers) {
    if (message?.changed) this.#changed();
    const waiting = this.#waiting.get(message?.id);
    if (!waiting) return;
    if (message.pieces !== undefined) {
      waiting.missing ??= message.pieces;
      waiting.pieces[message.piece] = buffers[0];
      waiting.missing -= 1;
      if (waiting.missing > 0) return;
    }
    this.#waiting.delete(message.id);
    if (message.error !== undefined) waiting.reject(new Error(message.error));
    else if (message.pieces !== undefined) waiting.resolve(joined(waiting.pieces));
    else waiting.resolve(message.answer);
  }

  call(name, params) {
    return this.#ask(name, params);
  }

  bytes(name, params) {
    return this.#ask(name, params);
  }

  onChange(listener) {
    this.#changed = listener;
  }

  close() {
    this.#model.off("msg:custom", this.#listen);
  }
}

function joined(pieces) {
  const total = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const whole = new Uint8Array(total);
  let at = 0;
  for (const piece of pieces) {
    whole.set(new Uint8Array(piece.buffer ?? piece, piece.byteOffset ?? 0, piece.byteLength), at);
    at += piece.byteLength;
  }
  return whole.buffer;
}
