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
      this.scope.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      }
      this.scope.importScripts = (...addresses) => Promise.all(addresses.map(address => load(page, address)))
      this.ready = load(page, url)
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.scope.frameElement.remove()
    }
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
