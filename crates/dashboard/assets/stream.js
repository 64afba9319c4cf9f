// Streams of server-sent events. They are closed while the page is hidden, because a browser allows
// only six connections per host.

/**
 * Opens a stream. Calls `onMessage` with each message, and `onState` with "live", "lost" or "paused".
 * A stream is live from its first message on: before that, the page has no values, or old ones.
 * Returns a function that closes the stream.
 */
export function openStream(address, onMessage, onState) {
  let source = null;
  let retry = 0;

  const open = () => {
    if (source !== null) {
      return;
    }
    source = new EventSource(address);
    source.onmessage = (event) => {
      onMessage(JSON.parse(event.data));
      onState("live");
    };
    source.onerror = () => {
      onState("lost");
      // If the server refuses the request, the browser doesn't retry it.
      if (source !== null && source.readyState === EventSource.CLOSED) {
        close();
        retry = setTimeout(update, 3000);
      }
    };
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const update = () => {
    clearTimeout(retry);
    if (document.hidden) {
      close();
      onState("paused");
    } else {
      open();
    }
  };

  document.addEventListener("visibilitychange", update);
  update();
  return () => {
    clearTimeout(retry);
    document.removeEventListener("visibilitychange", update);
    close();
  };
}
