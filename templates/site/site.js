// Finding and sorting. Everything is there without this script; it only hides rows and changes their order.
"use strict";
document.documentElement.classList.add("js");

addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table[data-list]")) makeSortable(table);
  const form = document.querySelector("form[data-filter]");
  if (form) makeFilter(form, document.querySelector("table[data-list]"));
  makeShortcut(document.querySelector("input[data-shortcut]"));
});

function makeSortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const isNumber = head.classList.contains("n");
    button.addEventListener("click", () => {
      const old = head.getAttribute("aria-sort");
      // Numbers are asked for from the largest.
      const order = old ? (old === "ascending" ? "descending" : "ascending") : isNumber ? "descending" : "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].textContent.trim();
      const number = (row) => Number(value(row).replaceAll(",", ""));
      const words = new Intl.Collator("en", { numeric: true });
      const compare = isNumber ? (a, b) => number(a) - number(b) : (a, b) => words.compare(value(a), value(b));
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
    });
  });
}

function makeFilter(form, table) {
  const input = form.elements.q;
  const output = form.querySelector("output");
  const listed = document.getElementById("index");
  const index = listed ? JSON.parse(listed.textContent) : null;
  const rows = [...table.tBodies[0].rows].map((row, place) => {
    const name = row.cells[0].textContent.trim().toLowerCase();
    return { row, name, facts: index ? index[place] : [] };
  });

  // A word with a sign or a colon asks for a fact; every other one for a part of the name.
  const isFact = (word) => index && /^(@|%|stack:|target:)/.test(word);
  const matches = (entry, word) =>
    isFact(word) ? entry.facts.some((fact) => fact.startsWith(word)) : entry.name.includes(word);

  const update = () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of rows) {
      const isShown = wanted.every((word) => matches(entry, word));
      entry.row.hidden = !isShown;
      count += isShown;
    }
    output.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  input.value = new URLSearchParams(location.search).get("q") ?? input.value;
  input.addEventListener("input", update);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const shown = rows.filter((entry) => !entry.row.hidden);
    const chosen = shown.find((entry) => entry.name === input.value.trim().toLowerCase()) ?? (shown.length === 1 && shown[0]);
    const link = chosen && chosen.row.querySelector("a");
    if (link) location.assign(link.href);
  });
  update();
}

function makeShortcut(input) {
  if (!input) return;
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
}
