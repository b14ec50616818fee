// The search runs in a worker. Browsers refuse one to a page that is opened from a disk; there it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.scope = frame.contentWindow
      const page = this.scope.document
      this.scope.postMessage = data => later(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      })
      this.scope.importScripts = (...addresses) => Promise.all(addresses.map(address => load(page, address)))
      this.ready = load(page, url)
    }
    postMessage(data) {
      const copy = structuredClone(data)
      this.ready.then(() => later(() => this.scope.dispatchEvent(new MessageEvent("message", { data: copy }))))
    }
    terminate() {
      this.scope.frameElement.remove()
    }
  }

  // Messages never arrive while the sender still runs, as with a true worker.
  function later(deliver) {
    setTimeout(deliver)
  }

  function load(page, address) {
    return new Promise((loaded, failed) => {
      const script = page.createElement("script")
      script.src = address
      script.onload = loaded
      script.onerror = failed
      page.body.append(script)
    })
  }
}
