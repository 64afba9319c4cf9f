// Functions that build elements. All text is set as text, never as markup.

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
export function svgElement(name, attributes = {}, ...children) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    created.setAttribute(key, value);
  }
  created.append(...children);
  return created;
}

/** Splits a name so that a line may break after its separators, but not within a word. */
export function breakable(name) {
  return name.split(/(?<=[/.=-])/).flatMap((part) => [part, element("wbr")]).slice(0, -1);
}

/** Sets the text of an element if it differs: screen readers announce each change. */
export function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

/** Replaces the items of a list if they differ. Without any, the list has the item `empty`. */
export function setItems(list, texts, empty = "") {
  const wanted = texts.length === 0 && empty !== "" ? [empty] : texts;
  const current = [...list.children].map((item) => item.textContent);
  if (current.length !== wanted.length || current.some((text, index) => text !== wanted[index])) {
    list.replaceChildren(...wanted.map((text) => element("li", { textContent: text })));
  }
}
