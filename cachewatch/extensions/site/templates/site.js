// Finding, sorting, and how long ago something was. Everything is there without this script.
"use strict";
document.documentElement.classList.add("js");

addEventListener("DOMContentLoaded", () => {
  for (const time of document.querySelectorAll("time[data-ago]")) sayHowLongAgo(time);
  for (const table of document.querySelectorAll("table[data-list]")) makeSortable(table);
  const filter = document.querySelector("form[data-filter]");
  if (filter) makeFilter(filter, document.querySelector("table[data-list]"));
  const search = document.querySelector("form[data-search]");
  if (search) makeSearch(search);
  makeShortcut(document.querySelector("input[data-shortcut]"));
});

// A page on disk may not fetch anything, but it may load scripts: they hand over what they have to this.
const cachewatch = {
  waiting: {},
  hashLists: {},
  index(found) { cachewatch.found = found; },
  hashes(letter, found) { cachewatch.hashLists[letter] = found; },
  load(file) {
    const up = document.documentElement.dataset.up;
    return (cachewatch.waiting[file] ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = `${up}assets/${file}.js`;
      script.onload = script.onerror = () => done();
      document.head.append(script);
    }));
  },
};
globalThis.cachewatch = cachewatch;

// A name that is no file name comes with one.
const nameOf = (entry) => (Array.isArray(entry) ? entry[0] : entry);
const fileOf = (entry) => (Array.isArray(entry) ? entry[1] : entry);
const isHash = (word) => /^\/?[a-z0-9]{5,}$/.test(word) && (word.startsWith("/") || (/[2-7]/.test(word) && /[a-z]/.test(word)));

// Numbers of the packages that have a spec with this hash.
async function packagesWith(word) {
  const hash = word.replace("/", "").slice(0, 7);
  const letter = hash[0];
  if (!cachewatch.found.letters.includes(letter)) return [];
  await cachewatch.load(`hashes-${letter}`);
  const rest = hash.slice(1);
  const has = (all) => {
    for (let at = 0; at < all.length; at += 6) if (all.startsWith(rest, at)) return true;
    return false;
  };
  return Object.entries(cachewatch.hashLists[letter] ?? {}).filter(([, all]) => has(all)).map(([number]) => Number(number));
}

function sayHowLongAgo(time) {
  const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
  if (!(seconds >= 0)) return;
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60]].find(([, size]) => seconds >= 1.5 * size) ?? ["minute", 60];
  const words = new Intl.RelativeTimeFormat("en", { style: "long" }).format(-Math.max(1, Math.round(seconds / size)), unit);
  time.textContent = `${words}, ${time.textContent}`;
  time.classList.toggle("old", seconds > 14 * 86400);
}

function makeSearch(form) {
  const input = form.elements.q;
  const list = form.querySelector("[role=listbox]");
  const status = form.querySelector("[role=status]");
  const up = document.documentElement.dataset.up;
  let options = [];
  let active = -1;
  let asked = 0;

  const load = () => cachewatch.load("index");
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const choose = (place) => {
    active = place;
    [...list.children].forEach((item, n) => item.setAttribute("aria-selected", String(n === place)));
    if (place < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", list.children[place].id);
      list.children[place].scrollIntoView({ block: "nearest" });
    }
  };
  const open = (option) => location.assign(up + option.address);
  const show = (found) => {
    options = found;
    list.replaceChildren(...found.map((option, n) => {
      const item = document.createElement("li");
      item.id = `found-${n}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      const note = document.createElement("span");
      note.textContent = option.note;
      item.append(option.name, " ", note);
      // Not click: by then the field has lost the focus, and the list is closed.
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); open(option); });
      return item;
    }));
    active = -1;
    input.removeAttribute("aria-activedescendant");
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    status.textContent = input.value.trim() ? `${found.length} suggestions` : "";
  };
  const suggest = async () => {
    const turn = ++asked;
    await load();
    const found = await suggestions(input.value.trim().toLowerCase());
    if (turn === asked) show(found);
    return found;
  };
  input.addEventListener("focus", load);
  input.addEventListener("input", suggest);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { if (!list.hidden) event.preventDefault(); close(); }
    if (list.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    const count = options.length;
    choose(event.key === "ArrowDown" ? (active + 1) % count : (active <= 0 ? count : active) - 1);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (active >= 0) return open(options[active]);
    const found = await suggest();
    const exact = found.find((option) => option.isExact) ?? (found.length === 1 ? found[0] : null);
    if (exact) open(exact);
    else location.assign(`${up}packages.html?q=${encodeURIComponent(input.value.trim())}`);
  });
}

// What fits best first: the name itself, then names that begin so, names with a word that begins so, and all others.
function rank(name, word) {
  const at = name.indexOf(word);
  if (at < 0) return 9;
  if (name === word) return 0;
  if (name === `py-${word}`) return 1;
  if (at === 0) return 2;
  return /[^a-z0-9]/.test(name[at - 1]) ? 3 : 4;
}

async function suggestions(asked) {
  const found = cachewatch.found;
  if (!asked || !found) return [];
  const [word, version] = asked.split("@");
  const result = [];
  const add = (list, folder, noun) => {
    for (const entry of list) {
      const fit = rank(nameOf(entry).toLowerCase(), word);
      if (fit < 9) result.push({ fit: fit + 0.5, name: nameOf(entry), note: noun, address: `${folder}/${fileOf(entry)}.html`, isExact: fit === 0 });
    }
  };
  found.packages.forEach(([entry, versions]) => {
    const fit = word ? rank(nameOf(entry).toLowerCase(), word) : 4;
    const has = version ? versions.split(" ").find((one) => one.toLowerCase().startsWith(version)) : versions.split(" ")[0];
    if (fit < 9 && (!version || has)) {
      result.push({ fit, name: nameOf(entry), note: has || "not in " + found.tag, address: `package/${fileOf(entry)}.html`, isExact: fit === 0 });
    }
  });
  if (version === undefined) {
    add(found.stacks, "stack", "stack");
    add(found.tags, "tag", "tag");
  }
  if (isHash(word)) {
    for (const number of await packagesWith(word)) {
      const entry = found.packages[number][0];
      result.push({ fit: 0.2, name: nameOf(entry), note: `has /${word.replace("/", "")}`, address: `package/${fileOf(entry)}.html#builds`, isExact: true });
    }
  }
  if (!result.length && word.length > 3 && version === undefined) {
    for (const [entry, versions] of found.packages) {
      if (isNear(nameOf(entry).toLowerCase(), word)) {
        result.push({ fit: 8, name: nameOf(entry), note: `did you mean this? ${versions.split(" ")[0]}`, address: `package/${fileOf(entry)}.html` });
      }
    }
  }
  return result.sort((a, b) => a.fit - b.fit || a.name.length - b.name.length || (a.name < b.name ? -1 : 1)).slice(0, 10);
}

// Whether two words differ by one letter that is wrong, missing or too many, or by two that are swapped.
function isNear(name, word) {
  for (const one of [name, name.replace(/^py-/, "")]) {
    if (Math.abs(one.length - word.length) > 1) continue;
    let start = 0;
    while (start < word.length && one[start] === word[start]) start++;
    const [a, b] = [one.slice(start), word.slice(start)];
    if (a.slice(1) === b.slice(1) || a === b.slice(1) || a.slice(1) === b) return true;
    if (a[0] === b[1] && a[1] === b[0] && a.slice(2) === b.slice(2)) return true;
  }
  return false;
}

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
  // Only the list of all packages knows more of them than their names and versions.
  const hasFacts = form.dataset.filter === "facts";
  const rows = [...table.tBodies[0].rows].map((row, number) => {
    const name = row.cells[0].querySelector("a, span")?.textContent.trim() ?? row.cells[0].textContent.trim();
    return { row, number, name: name.toLowerCase(), text: row.textContent.toLowerCase(), facts: null };
  });
  let asked = 0;

  const learn = () => {
    if (!hasFacts || !cachewatch.found || rows[0]?.facts) return;
    const { packages, stacks, targets, compilers } = cachewatch.found;
    const words = (sign, list, numbers) => numbers.map((n) => sign + nameOf(list[n]).toLowerCase());
    for (const entry of rows) {
      const [, versions, inStacks, forTargets, byCompilers] = packages[entry.number];
      entry.facts = [
        ...versions.toLowerCase().split(" ").filter(Boolean).map((version) => `@${version}`),
        ...words("stack:", stacks, inStacks), ...words("target:", targets, forTargets), ...words("%", compilers, byCompilers),
      ];
    }
  };
  // A word with a sign or a colon asks for one kind of thing; every other one for any of them.
  const matches = (entry, word, numbers) => {
    if (!entry.facts) return entry.text.includes(word);
    if (/^(@|%|stack:|target:)/.test(word)) return entry.facts.some((fact) => fact.startsWith(word));
    const [name, version] = word.split("@");
    if (version !== undefined && entry.name.includes(name)) return entry.facts.some((fact) => fact.startsWith(`@${version}`));
    return entry.name.includes(word) || numbers?.includes(entry.number) || entry.facts.some((fact) => says(fact, word));
  };
  const says = (fact, word) => fact.startsWith(`@${word}`) || fact.startsWith(`%${word}`) || (/^[st]/.test(fact) && fact.slice(fact.indexOf(":") + 1).includes(word));

  const update = async () => {
    const turn = ++asked;
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (hasFacts && wanted.length) await cachewatch.load("index");
    learn();
    const numbers = {};
    if (rows[0]?.facts) for (const word of wanted) if (isHash(word)) numbers[word] = await packagesWith(word);
    if (turn !== asked) return;
    let count = 0;
    for (const entry of rows) {
      const isShown = wanted.every((word) => matches(entry, word, numbers[word]));
      entry.row.hidden = !isShown;
      count += isShown;
    }
    output.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  input.value = new URLSearchParams(location.search).get("q") ?? input.value;
  input.addEventListener("input", update);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await update();
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
