// Small helpers to build elements. All text is set as text, never as markup.

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Creates an element. Members of `options` are properties; those with a dash are attributes. */
export function element(name, options = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key.includes("-") || key === "role") {
      created.setAttribute(key, value);
    } else {
      created[key] = value;
    }
  }
  created.append(...children);
  return created;
}

/** Creates an element of an SVG drawing. */
export function drawn(name, attributes = {}, ...children) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    created.setAttribute(key, value);
  }
  created.append(...children);
  return created;
}

/** Sets the text of an element if it differs, so that nothing is announced twice. */
export function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

/** Replaces the items of a list if they differ. */
export function setItems(list, texts, empty = "") {
  const wanted = texts.length === 0 && empty !== "" ? [empty] : texts;
  const current = [...list.children].map((item) => item.textContent);
  if (current.length !== wanted.length || current.some((text, index) => text !== wanted[index])) {
    list.replaceChildren(...wanted.map((text) => element("li", { textContent: text })));
  }
}

/** Replaces children, and keeps the focus on a link of the same address. */
export function replaceChildren(target, children) {
  const focused = target.contains(document.activeElement) ? document.activeElement : null;
  target.replaceChildren(...children);
  if (focused !== null && document.activeElement !== focused) {
    focused.focus({ preventScroll: true });
  }
}
