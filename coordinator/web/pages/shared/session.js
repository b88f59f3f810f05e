// Sends requests to the server, with the key that the user typed in. The key is only in this tab's sessionStorage and
// in the Authorization header, never in an address or a cookie.

/** The server's refusal of a request; status 0: the server did not answer at all. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Session {
  constructor(storageName) {
    this.storageName = storageName;
  }

  get key() {
    return sessionStorage.getItem(this.storageName) ?? "";
  }

  set key(value) {
    if (value) sessionStorage.setItem(this.storageName, value);
    else sessionStorage.removeItem(this.storageName);
  }

  /** Sends a request and returns the response; throws Refusal when the server refuses or does not answer. */
  async open(path, {body, signal} = {}) {
    const headers = {};
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method: body === undefined ? "GET" : "POST",
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal,
        cache: "no-store",
        credentials: "omit",
        referrerPolicy: "no-referrer",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(0, "The server does not answer.");
    }
    if (response.ok) return response;
    let message = `The server answered ${response.status}.`;
    try {
      message = (await response.json()).error.message;
    } catch { /* the body has no message */ }
    throw new Refusal(response.status, message);
  }

  async get(path, options) {
    return (await this.open(path, options)).json();
  }

  async post(path, body = {}, options = {}) {
    return (await this.open(path, {...options, body})).json();
  }

  /** Sends a request and yields the server-sent events of the response: {event, data}. */
  async *events(path, options) {
    const response = await this.open(path, options);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const {done, value} = await reader.read().catch((error) => {
        if (error.name === "AbortError") throw error;
        throw new Refusal(0, "The server went away before the answer ended.");
      });
      if (done) return;
      waiting += value;
      for (let end; (end = waiting.indexOf("\n\n")) >= 0; waiting = waiting.slice(end + 2)) {
        const made = {event: "message", data: ""};
        for (const line of waiting.slice(0, end).split("\n")) {
          if (line.startsWith("event: ")) made.event = line.slice(7);
          if (line.startsWith("data: ")) made.data += line.slice(6);
        }
        if (made.data) yield made;
      }
    }
  }
}
