// Event streams of the server. A hidden page has none: a browser allows six connections per host.

/** Calls `onMessage` with each message, and `onState` with "live", "lost" or "paused". */
export function openStream(address, onMessage, onState) {
  let source = null;

  const open = () => {
    if (source !== null) {
      return;
    }
    source = new EventSource(address);
    source.onopen = () => onState("live");
    source.onmessage = (event) => onMessage(JSON.parse(event.data));
    source.onerror = () => {
      onState("lost");
      // After a refusal, the browser doesn't try again on its own.
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
  let retry = 0;

  document.addEventListener("visibilitychange", update);
  update();
  return () => {
    clearTimeout(retry);
    document.removeEventListener("visibilitychange", update);
    close();
  };
}
