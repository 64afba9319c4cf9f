// A long list of rows in blocks. A block gets its rows only when it comes near the window: creating
// thousands of rows at once would delay the page. Rows may have any height.

import { element } from "./dom.js";

const ROWS_PER_BLOCK = 40;
/** The distance from the window at which a block gets its rows. */
const NEAR_DISTANCE = "1500px";
/** The assumed height of a row in pixels, until a block was measured. */
const ESTIMATED_ROW_HEIGHT = 60;

/** Manages the rows of `table`. `lineOf` creates the row of an entry. */
export function createBlocks(table, lineOf) {
  const blocks = [];
  let height = ESTIMATED_ROW_HEIGHT;

  const observer = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      const block = blocks.find(({ body }) => body === target);
      if (block !== undefined) {
        block.isNear = isIntersecting;
        fillIfNear(block);
      }
    }
  }, { rootMargin: NEAR_DISTANCE });

  function addBlock() {
    const body = element("tbody", { role: "rowgroup" });
    table.append(body);
    // The first block is near the window from the start.
    blocks.push({ body, entries: [], isNear: blocks.length === 0, isFilled: false, first: 0 });
    observer.observe(body);
  }

  function removeBlock() {
    const { body } = blocks.pop();
    observer.unobserve(body);
    body.remove();
  }

  function fillIfNear(block) {
    if (block.isFilled || !block.isNear) {
      return;
    }
    fill(block);
    const measured = block.body.offsetHeight / block.entries.length;
    height = measured > 0 ? measured : height;
  }

  function fill(block) {
    const lines = block.entries.map(lineOf);
    // Indexes start at 1, which is the header.
    lines.forEach((line, index) => line.setAttribute("aria-rowindex", block.first + index + 2));
    block.body.replaceChildren(...lines);
    block.body.style.height = "";
    block.isFilled = true;
  }

  /** Shows these entries, in this order. Blocks whose entries are the same are left unchanged. */
  function showEntries(entries) {
    // A row may move to another block, which takes the focus from it.
    const focused = table.contains(document.activeElement) ? document.activeElement : null;
    const amount = Math.ceil(entries.length / ROWS_PER_BLOCK);
    while (blocks.length > amount) {
      removeBlock();
    }
    while (blocks.length < amount) {
      addBlock();
    }
    table.setAttribute("aria-rowcount", entries.length + 1);
    blocks.forEach((block, index) => {
      const first = index * ROWS_PER_BLOCK;
      const wanted = entries.slice(first, first + ROWS_PER_BLOCK);
      const isSame = wanted.length === block.entries.length
        && wanted.every((entry, position) => entry === block.entries[position]);
      if (isSame) {
        return;
      }
      Object.assign(block, { entries: wanted, first, isFilled: false });
      if (block.isNear) {
        fill(block);
      } else {
        block.body.replaceChildren();
        block.body.style.height = `${Math.round(wanted.length * height)}px`;
      }
    });
    if (focused !== null && document.activeElement !== focused) {
      focused.focus({ preventScroll: true });
    }
  }

  /** Fills all blocks, for printing. */
  function fillAll() {
    blocks.filter(({ isFilled }) => !isFilled).forEach(fill);
  }

  return { showEntries, fillAll };
}
