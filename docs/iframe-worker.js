// Browsers start no workers for pages opened from the file system, and the theme's search runs in one. Here a hidden frame
// takes the worker's place. (MkDocs Material would load such a script from the network.)
"use strict";

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    const load = (...urls) => urls.reduce((before, src) => before.then(() => new Promise((done) => {
      const script = inside.document.createElement("script");
      script.onload = done;
      script.src = src;
      inside.document.body.append(script);
    })), Promise.resolve());
    inside.importScripts = load;
    inside.postMessage = (data) => {
      const message = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(message);
      if (this.onmessage) this.onmessage(message);
    };
    this.inside = inside;
    this.ready = load(url);
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
