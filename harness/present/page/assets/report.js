"use strict";
// Shows the data of a page. Every text of a model, a server or a data set goes through `el` or
// `textContent` and stays text; nothing here makes HTML of it.
(() => {
const RUN = 0, SAMPLE = 1, VARIANT = 2, DECODING = 3, ANSWER = 4, SERVED = 5, STEPS = 6, VERDICTS = 7;
const PER_PAGE = 25, PER_GRID = 50, SHORT = 4000, MOST_CARDS = 12;
const SHARED = 1e-9;
let data, texts, items = [], found = [], at = -1, isOpen = false, page = 0, gridPage = 0;
let state = {}, groups = {}, stamp = null, chosenSets = [], matches = null;

const $ = (id) => document.getElementById(id);

// ---- elements ----
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = visible(String(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(typeof child === "object" ? child : visible(String(child)));
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
// Control characters as pictures of themselves: what is there is seen, and does nothing.
const visible = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g,
  (c) => (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : c === "\x7f" ? "\u2421" : "\ufffd"));
function redraw(box, nodes) { // what had the focus has it again, or the last that can have it
  const held = document.activeElement, name = (one) => one.name || one.textContent, had = box !== held && box.contains(held);
  box.replaceChildren(...nodes);
  const left = had ? [...box.querySelectorAll("button:enabled, select, input")] : [];
  const next = left.find((one) => name(one) === name(held)) || left[left.length - 1];
  if (next) next.focus({ preventScroll: true });
}
function say(words) { $("said").textContent = ""; $("said").textContent = words; clearTimeout(say.timer); say.timer = setTimeout(() => { $("said").textContent = ""; }, 4000); }
const T = (place) => (place < 0 ? "" : texts[place]);
const count = (n) => n.toLocaleString("en");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

function whole(text, name) {
  const box = el("pre", { class: "text", tabindex: "0", role: "region", "aria-label": name || "text" });
  if (text.length <= SHORT) { box.textContent = visible(text); return box; }
  let end = SHORT; // not between the halves of a character
  if (/[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
  box.textContent = visible(text.slice(0, end)) + " \u2026";
  const more = el("button", { type: "button", class: "small", onclick: () => { box.textContent = visible(text); more.remove(); box.focus({ preventScroll: true }); } }, `Show all ${count(text.length)} characters`);
  return el("div", {}, box, more);
}
const short = (text, most) => (text.length > most ? text.slice(0, most) + "\u2026" : text);

// ---- numbers ----
function shown(value, kind) {
  if (value === null || value === undefined) return "\u2013";
  if (typeof value === "string") return value;
  if (kind === "count" || kind === "missing") return count(value);
  if (kind === "usd") return value === 0 ? "0" : value >= 0.001 ? value.toFixed(4) : value.toPrecision(2);
  if (kind === "p") return value < 0.0005 ? "<.001" : value.toFixed(3);
  return value.toFixed(3);
}
const raw = (cell) => (Array.isArray(cell) ? cell[0] : cell);
function cellNode(cell, kind, name) {
  if (!Array.isArray(cell)) return kind === "text" && cell !== null ? el("span", { class: "inline" }, String(cell)) : shown(cell, kind);
  const [value, low, high, why, mark] = cell;
  const words = shown(value, kind);
  const number = why >= 0 ? el("button", { type: "button", class: "num", "aria-label": `${words}, ${name}: recipe, missing, items`, onclick: () => openWhy(why, kind, name) }, words) : words;
  return [number, mark ? ` ${mark}` : null, low === null || high === null ? null : el("span", { class: "span" }, `${shown(low)} to ${shown(high)}`)];
}
const FIELDS = ["task and prompts", "data", "variant", "model", "decoding, replies, seed", "judge", "way of judging", "version"];
function recipe(text) {
  const parts = text.split("|");
  return el("dl", {}, parts.map((part, place) => [el("dt", {}, FIELDS[place] || ""), el("dd", {}, part)]));
}
function openWhy(place, kind, name) {
  const why = data.whys[place], box = $("why");
  const missing = why.missing.map(([reason, n]) => `${T(reason)} ${n}`).join(", ") || "none";
  const query = new URLSearchParams();
  const runs = why.runs.map((r) => data.runs[r]);
  if (runs.length) { query.set("task", [...new Set(runs.map((r) => r.task))].length === 1 ? runs[0].task : ""); runs.forEach((r) => query.append("run", r.digest.slice(0, 12))); }
  why.variants.forEach((v) => query.append("variant", T(v)));
  for (const key of ["judge", "decoding", "group"]) if (why[key] >= 0) query.set(key, T(why[key]));
  if (why.chosen >= 0) query.set("set", why.chosen);
  if (kind === "missing") query.set("verdict", "missing");
  const link = (words, extra) => { const own = new URLSearchParams(query); Object.entries(extra || {}).forEach(([k, v]) => own.set(k, v)); return el("a", { href: `#items?${own}`, onclick: () => box.close() }, words); };
  box.replaceChildren();
  fill(box, {}, [
    el("h2", { id: "why-title" }, name),
    el("p", {}, `${plural(why.n, "value")} of ${plural(why.clusters, "independent item")}; missing: ${missing}.`),
    el("p", {}, link(kind === "missing" ? "Show the missing items" : "Show the items"), " ", kind !== "missing" && why.missing.length && why.chosen < 0 ? link("Show the missing ones", { verdict: "missing" }) : null),
    el("h3", {}, why.other >= 0 ? "Recipe of A" : "Recipe"), recipe(T(why.recipe)),
    why.other >= 0 ? [el("h3", {}, "Recipe of B"), recipe(T(why.other))] : null,
    el("p", {}, el("button", { type: "button", onclick: () => copy(T(why.recipe), "Signature") }, "Copy the signature"), " ", el("button", { type: "button", onclick: () => box.close() }, "Close")),
  ]);
  box.showModal();
}

// ---- copying ----
async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = el("textarea", { "aria-hidden": "true" }); area.value = text; document.body.append(area); area.select();
    const done = document.execCommand("copy"); area.remove();
    if (!done) { say("The browser does not allow copying"); return; }
  }
  say(`${what} copied`);
}
const LATEX = { "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#", "%": "\\%", "_": "\\_", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "*": "{*}", "\u2013": "--" }; // after \\\\, [ and * are commands
const PLAIN = /^([\x00-\x7f\xa7\xdf\xe6\xf8\xe5\u0153\xc6\xd8\xc5\u0152\u2026\u2014\u2018\u2019\u201c\u201d]|[A-Za-z][\u0300-\u0303\u0308\u030a\u030c\u0327])$/; // what every LaTeX prints
const latexChar = (c) => LATEX[c] || (PLAIN.test(c) || PLAIN.test(c.normalize("NFD")) ? c : `{[}U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}{]}`);
const latexText = (text) => [...visible(String(text)).normalize("NFC").replace(/\s+/g, " ").trim()].map(latexChar).join("");
function latex(table, rows) {
  const cells = rows.map((row) => row.map((cell, place) => {
    const words = latexText(shown(raw(cell), table.columns[place].kind));
    return Array.isArray(cell) && cell[1] !== null && cell[2] !== null ? `${words} {\\footnotesize [${shown(cell[1])}, ${shown(cell[2])}]}` : words;
  }).join(" & ") + " \\\\");
  const form = table.columns.map((c) => (c.kind === "text" ? "l" : "r")).join("");
  return [`% ${table.title.replace(/\s+/g, " ")}`, `\\begin{tabular}{${form}}`, "\\toprule", table.columns.map((c) => latexText(c.name)).join(" & ") + " \\\\", "\\midrule", ...cells, "\\bottomrule", "\\end{tabular}", ""].join("\n");
}
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text; // no formula
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function csv(table, rows) {
  const wide = table.columns.map((_, place) => rows.some((row) => Array.isArray(row[place]) && row[place][1] !== null));
  const head = table.columns.flatMap((c, place) => (wide[place] ? [c.name, `${c.name} low`, `${c.name} high`] : [c.name]));
  const lines = rows.map((row) => row.flatMap((cell, place) => (wide[place] ? (Array.isArray(cell) ? cell.slice(0, 3) : [cell, null, null]) : [raw(cell)])));
  return [head, ...lines].map((line) => line.map(csvCell).join(",")).join("\n") + "\n";
}

// ---- tables ----
function tableNode(table) {
  let rows = table.rows, order = [-1, 1];
  const body = el("tbody");
  const first = Math.max(0, table.columns.findIndex((c) => c.kind === "text"));
  const heads = table.columns.map((column, place) => el("th", { scope: "col", class: place === first ? "head" : column.kind === "text" ? null : "n" }, el("button", { type: "button", onclick: () => sort(place) }, column.name)));
  const named = (row, place) => `${table.columns[place].name}, ${row.filter((c, i) => table.columns[i].kind === "text" && i <= 3 && typeof c === "string").slice(0, 3).join(", ")}`;
  function draw() {
    body.replaceChildren(...rows.map((row) => el("tr", { class: /\((control|constant answer)\)$/.test(row[first]) ? "apart" : null }, row.map((cell, place) => {
      const kind = table.columns[place].kind;
      return el(place === first ? "th" : "td", { scope: place === first ? "row" : null, class: kind === "text" ? null : "n" }, cellNode(cell, kind, named(row, place)));
    }))));
  }
  function sort(place) {
    order = order[0] === place ? [place, -order[1]] : [place, table.columns[place].kind === "text" ? 1 : -1];
    rows = [...table.rows].sort((a, b) => {
      const [x, y] = [raw(a[place]), raw(b[place])];
      if (x === null || y === null) return (x === null) - (y === null); // missing is last, both ways
      return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * order[1];
    });
    heads.forEach((head, i) => (i === place ? head.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort")));
    draw();
  }
  draw();
  return el("div", { class: "table" },
    el("p", { class: "quiet" }, table.title, table.about ? el("div", {}, table.about) : null),
    el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": table.title },
      el("table", { "aria-label": table.title }, el("thead", {}, el("tr", {}, heads)), body)),
    table.notes.map((note) => el("p", { class: "quiet" }, note)),
    el("div", { class: "copy" },
      el("button", { type: "button", class: "small", onclick: () => copy(latex(table, rows), "LaTeX") }, "Copy as LaTeX"),
      el("button", { type: "button", class: "small", onclick: () => copy(csv(table, rows), "CSV") }, "Copy as CSV")));
}
function picked(parts, name, draw) {
  // One part of a task, chosen by a list where there are several.
  const box = el("div");
  const show = (place) => box.replaceChildren(draw(parts[place]));
  show(0);
  if (parts.length === 1) return box;
  const list = el("select", { onchange: () => show(list.selectedIndex) }, parts.map((part) => el("option", {}, part.pick || part.title)));
  return el("div", {}, el("div", { class: "pick" }, el("label", {}, `${name}: `, list)), box);
}
// ---- pictures ----
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
function scaleOf(values) { // ends and ticks: quarters for shares, else about five round steps
  const [least, most] = [Math.min(...values), Math.max(...values)], isShare = least >= -1 && most <= 1;
  const rough = isShare ? 0.25 : (most - least || 1) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = isShare ? 0.25 : power * [1, 2, 5, 10].find((n) => n * power >= rough);
  const low = isShare ? Math.min(0, Math.floor(least / step) * step) : Math.floor(least / step) * step;
  const count = Math.round(((isShare ? 1 : Math.ceil(most / step) * step) - low) / step);
  const at = (value) => `${(4 + (92 * (value - low)) / (count * step)).toFixed(2)}%`;
  return { at, ticks: [...Array(count + 1).keys()].map((n) => low + n * step).filter((_, n) => count < 7 || n % 2 === 0) };
}
function dotsNode(dots) { // a table: name, picture, value; a row of pictures is one line high, so that lines of chance join
  const known = [...dots.rows.flatMap((row) => row.slice(1, 4)), ...dots.chance].filter((v) => v !== null);
  if (!known.length) return null;
  const { at, ticks } = scaleOf(known), upright = (values, kind) => values.map((v) => svg("line", { x1: at(v), x2: at(v), y1: "0", y2: "100%", class: kind }));
  const picture = (words, ...parts) => el("td", { class: "picture" }, svg("svg", { width: "100%", height: "22", role: "img", "aria-label": words }, upright(ticks, "grid"), upright(dots.chance, "chance"), parts));
  const label = (v, y, kind, words) => svg("text", { x: at(v), y, class: kind, "text-anchor": "middle", text: words });
  const rows = dots.rows.map(([name, value, low, high, isControl]) => el("tr", { class: isControl ? "apart" : null },
    el("th", { scope: "row" }, name), picture(`${name}: ${shown(value)}${low === null ? "" : `, ${shown(low)} to ${shown(high)}`}`,
      low === null || high === null ? null : svg("line", { x1: at(low), x2: at(high), y1: "11", y2: "11", class: "ends" }),
      value === null ? null : svg("circle", { cx: at(value), cy: "11", r: "4.5", class: isControl ? "hollow" : "dot" })),
    el("td", { class: "n" }, shown(value))));
  const scale = el("tr", {}, el("td", {}), el("td", { class: "picture" }, svg("svg", { width: "100%", height: "18", role: "img", "aria-label": `scale from ${ticks[0]} to ${ticks[ticks.length - 1]}` }, ticks.map((v) => label(v, 14, "tick", String(Number(v.toFixed(4))))))), el("td", {}));
  const chance = dots.chance.length ? el("tr", {}, el("td", {}), el("td", { class: "picture" }, svg("svg", { width: "100%", height: "16", role: "img", "aria-label": `chance ${dots.chance.map((v) => shown(v)).join(" to ")}` }, label(dots.chance[0], 12, "chance", "chance"))), el("td", {})) : null;
  return el("div", {}, el("p", {}, el("strong", {}, dots.title), el("span", { class: "quiet" }, ` ${dots.metric}, 95% intervals${dots.rows.some((row) => row[4]) ? "; hollow: controls" : ""}`)),
    el("table", { class: "dots", "aria-label": dots.title }, el("colgroup", {}, ["names", "", "n"].map((kind) => el("col", { class: kind }))), el("tbody", {}, chance, rows, scale)));
}
function byTask(parts) {
  const grouped = new Map();
  for (const part of parts) grouped.set(part.task, [...(grouped.get(part.task) || []), part]);
  return grouped;
}
function named(line) { const mark = line.indexOf(":"); return [el("strong", {}, line.slice(0, mark)), line.slice(mark)]; }
function sectionNode(section) {
  const tables = [...byTask(section.tables)].map(([task, parts]) => {
    const own = picked(parts, task || section.title, tableNode);
    return el("div", {}, task && section.tables.length > 1 ? el("h3", {}, task) : null, own);
  });
  const empty = !section.lines.length && !section.tables.length;
  return el("section", { id: section.name, "aria-labelledby": `${section.name}-title` },
    el("h2", { id: `${section.name}-title`, tabindex: "-1" }, section.title),
    section.lines.length ? el("ul", { class: "lines" }, section.lines.map((line) => el("li", {}, section.name === "asked" ? named(line) : line))) : null,
    section.dots.length ? el("div", { class: "panels" }, section.dots.map(dotsNode)) : null,
    empty ? el("p", {}, "None.") : null, el("div", { class: section.name === "leaderboard" ? "panels" : null }, tables));
}

// ---- items: what they are ----
const judgeOf = (item, verdict) => data.runs[item[RUN]].judges[verdict[0]];
function finding(item, verdict) {
  const [, value, reason] = verdict;
  if (value === null) return ["none", `missing: ${T(reason) || "unknown"}`, "missing"];
  if (!judgeOf(item, verdict).is_share) return ["", String(Number(value.toFixed(3))), "rated"];
  if (value > 1 - SHARED) return ["right", "right", "right"];
  if (value < SHARED) return ["wrong", "wrong", "wrong"];
  return ["part", `between: ${Number(value.toFixed(3))}`, "between"];
}
const chip = (item, verdict) => { const [kind, words] = finding(item, verdict); return el("span", { class: `chip ${kind}` }, `${T(judgeOf(item, verdict).name)}: ${words}`); };
const task = (item) => data.runs[item[RUN]].task;
const sampleOf = (item) => data.samples[item[SAMPLE]];
const fieldsOf = (sample) => Object.fromEntries(sample[4].map(([name, value]) => [T(name), T(value)]));
function grouped(name, key) {
  // Items by what they share, made when it is first asked for.
  if (!groups[name]) { const made = new Map(); for (const item of items) { const k = key(item); if (!made.has(k)) made.set(k, []); made.get(k).push(item); } groups[name] = made; }
  return groups[name];
}
const KEYS = {
  models: (i) => `${i[SAMPLE]}|${i[VARIANT]}|${i[DECODING]}`,
  variants: (i) => `${i[RUN]}|${i[SAMPLE]}|${i[DECODING]}`,
  decodings: (i) => `${i[RUN]}|${i[SAMPLE]}|${i[VARIANT]}`,
  cluster: (i) => `${i[RUN]}|${i[VARIANT]}|${i[DECODING]}|${sampleOf(i)[3]}`,
};
const alike = (name, item) => grouped(name, KEYS[name]).get(KEYS[name](item)) || [];
const average = (item) => data.runs[item[RUN]].orders[T(item[VARIANT])];
function readBy(item, judge) { return item[VERDICTS].filter((v) => judgeOf(item, v).is_share && v[1] !== null && (!judge || T(judgeOf(item, v).name) === judge)); }
function differ(members, judge) {
  const known = new Map();
  for (const item of members) for (const v of readBy(item, judge)) {
    const name = judgeOf(item, v).name;
    if (known.has(name) && Math.abs(known.get(name) - v[1]) > SHARED) return true;
    known.set(name, v[1]);
  }
  return false;
}
const SPLITS = {
  judges: ["its judges disagree", (item) => { const all = readBy(item, ""); return all.some((v) => Math.abs(v[1] - all[0][1]) > SHARED); }],
  orders: ["two orders disagree", (item, judge) => item[VERDICTS].some((v) => v[4].some(([name, value]) => T(name) === "consistency" && value < 1)) || (average(item) !== undefined && differ(alike("variants", item).filter((o) => average(o) === average(item)), judge))],
  models: ["models disagree (a flip)", (item, judge) => differ(alike("models", item).filter((i) => !data.runs[i[RUN]].is_control), judge)],
  variants: ["variants disagree", (item, judge) => differ(alike("variants", item), judge)],
  pair: ["its minimal pair disagrees", (item, judge) => differ(pairOf(item), judge)],
};
function pairOf(item) {
  const own = alike("cluster", item), choices = (i) => [...sampleOf(i)[6]].sort().join();
  const same = choices(item) ? own.filter((o) => choices(o) === choices(item)) : own;
  return same.length > 1 ? same : own;
}

// ---- items: filters ----
const VERDICT_WORDS = { right: "right", wrong: "wrong", between: "between", rated: "a rating", missing: "missing" };
const many = (key) => state[key] || [];
const one = (key) => (state[key] || [])[0] || "";
function passes(item) {
  const run = data.runs[item[RUN]], judge = one("judge"), wanted = one("verdict"), reason = one("missing");
  if (one("task") && run.task !== one("task")) return false;
  if (many("run").length && !many("run").includes(run.digest.slice(0, 12))) return false;
  if (many("variant").length && !many("variant").includes(T(item[VARIANT]))) return false;
  if (one("decoding") && one("decoding") !== T(item[DECODING])) return false;
  if (one("group") && one("group") !== T(sampleOf(item)[2])) return false;
  if (one("cluster") && one("cluster") !== T(sampleOf(item)[3])) return false;
  if (one("sample") && one("sample") !== T(sampleOf(item)[1])) return false;
  if (one("set") !== "" && !(chosenSets[one("set")] || new Set()).has(item[SAMPLE])) return false;
  const read = item[VERDICTS].filter((v) => !judge || T(judgeOf(item, v).name) === judge);
  if (judge && !read.length) return false;
  if (wanted && !(read.some((v) => finding(item, v)[2] === wanted) || (wanted === "missing" && !read.length))) return false;
  if (reason && !(read.some((v) => T(v[2]) === reason) || item[STEPS].some((s) => T(s[3]) === reason))) return false;
  if (Object.hasOwn(SPLITS, one("split")) && !SPLITS[one("split")][1](item, judge)) return false;
  return !matches || isMatch(item);
}
function isMatch(item) {
  if (matches.has(item[ANSWER]) || matches.has(sampleOf(item)[1])) return true;
  return item[STEPS].some((s) => matches.has(s[2]) || (s[1] >= 0 && data.prompts[s[1]].some(([, ...lines]) => lines.some((line) => matches.has(line))))) || item[VERDICTS].some((v) => v[6].some(([, reply]) => matches.has(reply)));
}
function search(words) {
  // Each different text is looked at once.
  if (!words) return null;
  const small = words.toLowerCase(), hits = new Set();
  texts.forEach((text, place) => { if (text.toLowerCase().includes(small)) hits.add(place); });
  return hits;
}
const within = (name, key) => {
  // The values of a key among the items of the chosen task.
  const wanted = one("task");
  return [...new Set(items.filter((i) => !wanted || task(i) === wanted).flatMap(key))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
};
function chooser(name, label, options) {
  const own = many(name), several = own.length > 1;
  const list = el("select", { name, onchange: () => { update({ [name]: list.value === "\u0000several" ? own : list.value ? [list.value] : [] }); } },
    el("option", { value: "" }, "all"), several ? el("option", { value: "\u0000several", selected: true }, `${own.length} of them`) : null,
    options.map(([value, words]) => el("option", { value, selected: !several && own[0] === value }, words)));
  return el("label", {}, label, list);
}
const same = (values) => values.map((v) => [v, v]);
function drawFilters() {
  const runs = data.runs.filter((r) => !one("task") || r.task === one("task"));
  const box = el("input", { type: "search", name: "q", value: one("q"), "aria-keyshortcuts": "/" });
  box.addEventListener("input", () => { clearTimeout(box.timer); box.timer = setTimeout(() => update({ q: box.value ? [box.value] : [] }, { keep: true }), 250); });
  const extra = ["sample", "cluster", "set", "decoding"].filter((k) => one(k) !== "").map((k) => el("button", { type: "button", class: "small", onclick: () => update({ [k]: [] }) }, `${k === "set" ? "items of a count" : `${k}: ${short(one(k), 40)}`} \u00d7`));
  redraw($("filters"), [
    chooser("task", "Task", same([...new Set(data.runs.map((r) => r.task))])),
    chooser("run", "Model", runs.map((r) => [r.digest.slice(0, 12), one("task") ? r.label : `${r.label}, ${r.task}`])),
    chooser("group", "Group", same(within("group", (i) => [T(sampleOf(i)[2])]))),
    chooser("variant", "Variant", same(within("variant", (i) => [T(i[VARIANT])]))),
    chooser("judge", "Judge", same([...new Set(runs.flatMap((r) => r.judges.map((j) => T(j.name))))])),
    chooser("verdict", "Verdict", Object.entries(VERDICT_WORDS)),
    chooser("missing", "Missing because", same(within("missing", (i) => [...i[VERDICTS].map((v) => T(v[2])), ...i[STEPS].map((s) => T(s[3]))].filter(Boolean)))),
    chooser("split", "Disagreement", Object.entries(SPLITS).map(([k, v]) => [k, v[0]])),
    el("label", {}, "Text", box),
    el("div", { class: "ends" }, el("button", { type: "button", onclick: () => update({}, { all: true }) }, "Clear"), " ", extra)]);
}
function update(change, how = {}) {
  const next = how.all ? {} : { ...state, ...change };
  if ("task" in change) for (const key of ["run", "group", "variant", "judge", "decoding", "missing", "set"]) if (!(key in change)) next[key] = [];
  state = next; page = 0; at = -1; isOpen = false;
  const query = new URLSearchParams();
  for (const [key, values] of Object.entries(state)) for (const value of values) if (value !== "") query.append(key, value);
  history.replaceState(null, "", query.size ? `#items?${query}` : "#items");
  apply(how);
}
function apply(how = {}) {
  matches = search(one("q"));
  found = items.filter(passes);
  if (!how.keep) drawFilters();
  drawList();
}
function fromHash() {
  const [name, query] = decodeHash();
  if (name !== "items" || query === null) return false;
  state = Object.create(null);  // without keys of its own, which an address may name
  for (const [key, value] of new URLSearchParams(query)) if (value !== "") state[key] = [...(state[key] || []), value];
  const wanted = one("open"); delete state.open;
  page = 0; at = -1; isOpen = false;
  matches = search(one("q")); found = items.filter(passes);
  drawFilters();
  if (wanted !== "") { at = found.findIndex((i) => items.indexOf(i) === Number(wanted)); isOpen = at >= 0; page = Math.max(0, Math.floor(at / PER_PAGE)); }
  drawList();
  $("items-title").scrollIntoView(); $("items-title").focus({ preventScroll: true });
  return true;
}
function decodeHash() { const text = location.hash.slice(1), mark = text.indexOf("?"); return mark < 0 ? [text, null] : [text.slice(0, mark), text.slice(mark + 1)]; }

// ---- items: the list ----
function pager(ids, total, per, current, go) {
  const last = Math.max(0, Math.ceil(total / per) - 1);
  for (const id of ids) {
    const button = (words, to, key) => el("button", { type: "button", disabled: to < 0 || to > last || to === current, "aria-keyshortcuts": key, onclick: () => go(to) }, words);
    redraw($(id), last > 0 ? [button("First", 0), button("Previous", current - 1, "p"), el("span", {}, `Page ${count(current + 1)} of ${count(last + 1)}`), button("Next", current + 1, "n"), button("Last", last)] : []);
  }
}
function drawList() {
  $("count").textContent = `${plural(found.length, "answer")} of ${count(items.length)}, of ${plural(new Set(found.map((i) => i[SAMPLE])).size, "sample")}.`;
  pager(["pager", "pager-below"], found.length, PER_PAGE, page, (to) => { page = to; at = -1; isOpen = false; drawList(); $("items-title").scrollIntoView(); });
  const rows = found.slice(page * PER_PAGE, (page + 1) * PER_PAGE).flatMap((item, i) => rowNodes(item, page * PER_PAGE + i));
  const head = el("thead", {}, el("tr", {}, ["Sample", "Model", "Variant", "Answer", "Verdicts"].map((name) => el("th", { scope: "col" }, name))));
  $("list").replaceChildren($("list").caption, head, el("tbody", {}, rows));
}
function rowNodes(item, place) {
  const isHere = place === at, run = data.runs[item[RUN]], sample = sampleOf(item);
  const row = el("tr", { class: isHere ? "here" : null, "data-place": place },
    el("td", {}, el("button", { type: "button", class: "open", "aria-expanded": String(isHere && isOpen), onclick: () => select(place, !(place === at && isOpen)) }, T(sample[1])), el("div", { class: "quiet inline" }, T(sample[2])), el("div", { class: "brief small-text" }, said(sample))),
    el("td", {}, el("span", { class: "inline" }, run.label), one("task") ? null : el("div", { class: "quiet" }, run.task)),
    el("td", {}, el("span", { class: "inline" }, T(item[VARIANT])), el("div", { class: "quiet" }, T(item[DECODING]))),
    el("td", {}, el("div", { class: "brief" }, answerWords(item))),
    el("td", {}, item[VERDICTS].map((v) => chip(item, v)), item[VERDICTS].length ? null : el("span", { class: "chip none" }, "not judged")));
  return isHere && isOpen ? [row, el("tr", { class: "more" }, el("td", { class: "detail", colspan: 5 }, detail(item)))] : [row];
}
function answerWords(item) {
  if (item[ANSWER] >= 0) { const chosen = choiceOf(item); return short(T(item[ANSWER]), 400) + (chosen && chosen !== T(item[ANSWER]) ? ` (${short(chosen, 400)})` : ""); }
  const step = item[STEPS].find((s) => s[3] >= 0);
  return step ? `no answer: ${T(step[3])}` : "no answer";
}
function choiceOf(item) { // the choice that is likeliest, where there are probabilities
  const choices = sampleOf(item)[6], verdict = item[VERDICTS].find((v) => v[5].length && v[5].length === choices.length);
  if (!verdict) return null;
  const best = Math.max(...verdict[5]), places = choices.filter((_, i) => verdict[5][i] === best);
  return places.length === 1 ? T(places[0]) : null;
}
function select(place, open) {
  if (!found.length) return;
  at = Math.max(0, Math.min(found.length - 1, place)); isOpen = open; page = Math.floor(at / PER_PAGE);
  drawList();
  const row = document.querySelector(`#list tr[data-place="${at}"]`);
  row.querySelector("button").focus({ preventScroll: true });
  row.scrollIntoView({ block: open ? "start" : "nearest" });
}
function jump(item) { // open an item that the filters may leave out
  let place = found.indexOf(item);
  if (place < 0) { update({ task: [task(item)], sample: [T(sampleOf(item)[1])] }, { all: false }); place = found.indexOf(item); }
  if (place < 0) { state = {}; update({ task: [task(item)], sample: [T(sampleOf(item)[1])] }); place = found.indexOf(item); }
  select(place, true);
}

// ---- items: one in full ----
function detail(item) {
  const sample = sampleOf(item), steps = item[STEPS], run = data.runs[item[RUN]];
  const last = steps[steps.length - 1];
  const before = steps.slice(0, -1).map((step, i) => el("div", { class: "step" }, el("h4", {}, `Step ${i + 1} of ${steps.length}: ${T(step[0])}`), el("div", { class: "two" }, promptNode(step[1]), el("div", {}, el("div", { class: "role" }, "answer"), answerNode(item, step)))));
  return el("article", { "aria-label": `${T(sample[1])}, ${run.label}` },
    el("p", { class: "quiet" }, `${run.task}, ${run.label}, ${T(item[VARIANT])}, ${T(item[DECODING])}${item[SERVED] >= 0 ? `, served by ${T(item[SERVED])}` : ""}. `, el("a", { href: `#items?${new URLSearchParams({ task: run.task, sample: T(sample[1]), open: items.indexOf(item) })}` }, "Link to this item")),
    stress(sample) ? el("p", {}, stress(sample)) : null,
    before,
    el("div", { class: "main" },
      el("div", {}, el("h4", {}, steps.length > 1 ? `Step ${steps.length} of ${steps.length}: ${T(last[0])}, prompt` : "Prompt"), last ? promptNode(last[1]) : el("p", {}, "no step is stored")),
      el("div", {}, el("h4", {}, "Answer"), last ? answerNode(item, last) : null, item[ANSWER] >= 0 && last && last[2] >= 0 && T(last[2]) !== T(item[ANSWER]) ? [el("h4", {}, "As it is read"), whole(T(item[ANSWER]), "answer as it is read")] : null),
      el("div", {}, el("h4", {}, "Judges: reply and reading"), item[VERDICTS].map((v) => judgeNode(item, v)), item[VERDICTS].length ? null : el("p", {}, "No judge has read it."))),
    item[VERDICTS].map((v) => askedNode(item, v)), sampleNode(item), besides(item));
}
function promptNode(place) {
  if (place < 0) return el("p", { class: "none" }, "The prompt is not stored here.");
  return el("div", {}, data.prompts[place].map(([role, ...lines]) => [el("div", { class: "role" }, T(role)), whole(lines.map(T).join("\n"), `prompt, ${T(role)}`)]));
}
function answerNode(item, step) {
  const parts = [];
  if (step[2] >= 0) parts.push(whole(T(step[2]), "answer"));
  else if (step[6].length && item[ANSWER] >= 0 && step === item[STEPS][item[STEPS].length - 1]) parts.push(whole(answerWords(item), "answer"));
  if (step[3] >= 0) parts.push(el("p", {}, el("span", { class: "chip none" }, `missing: ${T(step[3])}`), " ", el("span", { class: "inline" }, short(T(step[4]), 2000))));
  if (step[5] === -1 ? false : T(step[5]) === "length") parts.push(el("p", { class: "quiet" }, "It was cut at the limit of tokens."));
  if (step[6].length) parts.push(el("p", { class: "quiet" }, `log-probabilities as shown: ${step[6].map((v, i) => `${i + 1}: ${v.toFixed(2)}`).join(", ")}`));
  return el("div", {}, parts);
}
function judgeNode(item, verdict) {
  const judge = judgeOf(item, verdict), [kind, words] = finding(item, verdict), calls = verdict[6];
  const orders = calls.map(([place, reply]) => ({ call: data.calls[place], reply }));
  const replies = orders.map(({ call, reply }) => el("div", {}, el("div", { class: "role" }, call ? T(call[0]) : "a call of the judge"), reply >= 0 ? whole(T(reply), "reply of the judge") : el("p", { class: "none" }, "no reply")));
  const facts = verdict[4].map(([name, value]) => [el("dt", {}, T(name).replaceAll("_", " ")), el("dd", {}, String(Number(value.toPrecision(3))))]);
  return el("div", { class: "judge" },
    el("strong", { class: "inline" }, T(judge.name)), judge.asks ? el("span", { class: "quiet" }, ` asks ${judge.asks}`) : null,
    el("div", { class: "two" },
      el("div", {}, calls.length ? replies : el("p", { class: "quiet" }, "It asks no model.")),
      el("div", {}, el("div", { class: "role" }, "reading"), el("span", { class: `chip ${kind}` }, words), verdict[3] >= 0 ? el("p", { class: "inline" }, short(T(verdict[3]), 2000)) : null, facts.length ? el("dl", {}, facts) : null)));
}
function askedNode(item, verdict) { // what a judge was asked: both orders beside each other, each with its reply
  const judge = judgeOf(item, verdict), calls = verdict[6];
  if (!calls.length) return null;
  const words = calls.length > 1 ? `What ${T(judge.name)} was asked, in ${calls.length} orders` : `What ${T(judge.name)} was asked`;
  return el("details", { class: "asked" }, el("summary", {}, words), el("div", { class: "side" }, calls.map(([place, reply]) => {
    const call = data.calls[place];
    return el("div", { class: "card" }, el("h4", {}, call ? T(call[0]) : "a call"),
      call ? promptNode(call[1]) : el("p", { class: "none" }, "The calls ledger is not here, so the judge's prompt is not shown."),
      el("div", { class: "role" }, "reply"), reply >= 0 ? whole(T(reply), "reply of the judge") : el("p", { class: "none" }, "no reply"));
  })));
}
function stress(sample) {
  const own = fieldsOf(sample);
  if (own.emphasis === undefined || own.before === undefined) return null;
  return el("span", { class: "inline" }, own.speaker ? `${own.speaker}: ` : null, own.before, el("mark", { title: "stressed" }, el("em", {}, own.emphasis)), own.after);
}
function said(sample) { // what a reader knows the sample by
  const own = fieldsOf(sample), text = own.utterance || own.text || own.scenario;
  return stress(sample) || (text ? el("span", { class: "inline" }, short(text, 400)) : null);
}
function sampleNode(item) {
  const sample = sampleOf(item), hidden = stress(sample) ? ["before", "emphasis", "after"] : [];
  const fields = sample[4].filter(([name]) => !hidden.includes(T(name)));
  const shares = item[VERDICTS].find((v) => v[5].length === sample[6].length && v[5].length);
  return el("details", { open: true }, el("summary", {}, "The sample: its text, references and choices"),
    el("div", { class: "side" },
      el("div", {}, el("dl", {}, fields.map(([name, value]) => [el("dt", {}, T(name).replaceAll("_", " ")), el("dd", {}, T(value))]))),
      sample[5].length ? el("div", {}, el("dl", {}, sample[5].map(([name, values]) => [el("dt", {}, T(name).replaceAll("_", " ")), el("dd", {}, values.map((v) => el("div", { class: "inline" }, T(v))))]))) : null,
      sample[6].length ? el("div", {}, el("h4", {}, "Choices"), el("ul", { class: "choices" }, sample[6].map((choice, i) => el("li", {}, T(choice), choice === sample[7] ? el("span", { class: "chip right" }, "the right one") : null, shares ? el("span", { class: "quiet" }, ` probability ${shares[5][i].toFixed(3)}`) : null)))) : null));
}
function besides(item) {
  const orders = average(item) === undefined ? [] : alike("variants", item).filter((o) => average(o) === average(item));
  const pair = pairOf(item);
  const variants = alike("variants", item).filter((o) => !orders.includes(o) || o === item);
  const parts = [
    ["Minimal pair: the same words, another stress or change", pair, (o) => T(sampleOf(o)[1]), false],
    ["All orders of this question", orders, (o) => T(o[VARIANT]), true],
    ["Other variants", variants, (o) => T(o[VARIANT]), false],
    ["Other decodings", alike("decodings", item), (o) => T(o[DECODING]), false],
    ["Other models", alike("models", item), (o) => data.runs[o[RUN]].label, false],
  ];
  return parts.filter(([, members]) => members.length > 1).map(([title, members, name, isPrompt], i) => el("details", { open: i === 0 || title.startsWith("All orders") },
    el("summary", {}, `${title} (${members.length})`),
    el("div", { class: "side" }, [item, ...members.filter((o) => o !== item)].slice(0, MOST_CARDS).map((o) => card(o, name(o), o === item, isPrompt))),
    members.length > MOST_CARDS ? el("p", { class: "quiet" }, `${members.length - MOST_CARDS} more are in the list.`) : null));
}
function card(item, name, isThis, isPrompt) {
  const sample = sampleOf(item), last = item[STEPS][item[STEPS].length - 1];
  const wanted = sample[5].filter(([n]) => ["implication", "true_intention"].includes(T(n)));
  return el("div", { class: isThis ? "card this" : "card" },
    el("h4", {}, name, isThis ? " (this one)" : ""),
    said(sample) ? el("p", {}, said(sample)) : null,
    wanted.map(([n, values]) => el("p", { class: "quiet" }, `${T(n).replaceAll("_", " ")}: ${short(T(values[0]), 400)}`)),
    isPrompt && last ? promptNode(last[1]) : null,
    el("div", { class: "role" }, "answer"), whole(short(answerWords(item), 1200), "answer"),
    el("p", {}, item[VERDICTS].map((v) => chip(item, v))),
    isThis ? null : el("button", { type: "button", class: "small", onclick: () => jump(item) }, "Open"));
}

// ---- flips ----
const grid = { task: "", variant: "", judge: "", decoding: "", only: true };
function drawGrid() {
  const tasks = [...new Set(data.runs.map((r) => r.task))];
  if (!tasks.includes(grid.task)) grid.task = tasks.find((t) => data.runs.filter((r) => r.task === t).length > 1) || tasks[0];
  const own = items.filter((i) => task(i) === grid.task);
  const runs = data.runs.map((r, i) => i).filter((i) => data.runs[i].task === grid.task);
  const lists = { variant: [...new Set(own.map((i) => T(i[VARIANT])))], decoding: [...new Set(own.map((i) => T(i[DECODING])))], judge: [...new Set(runs.flatMap((r) => data.runs[r].judges.map((j) => T(j.name))))] };
  for (const key of Object.keys(lists)) if (!lists[key].includes(grid[key])) grid[key] = lists[key][0] || "";
  const pick = (key, label, values) => { const list = el("select", { onchange: () => { grid[key] = list.value; gridPage = 0; drawGrid(); } }, values.map((v) => el("option", { value: v, selected: v === grid[key] }, v))); return el("label", {}, label, list); };
  const box = el("input", { type: "checkbox", id: "only", checked: grid.only, onchange: () => { grid.only = box.checked; gridPage = 0; drawGrid(); } });
  const focused = document.activeElement && $("flip-form").contains(document.activeElement) ? [...$("flip-form").querySelectorAll("select, input")].indexOf(document.activeElement) : -1;
  $("flip-form").replaceChildren(pick("task", "Task", tasks), pick("variant", "Variant", lists.variant), pick("judge", "Judge", lists.judge), pick("decoding", "Decoding", lists.decoding), el("label", { class: "check", for: "only" }, box, "only flips"));
  if (focused >= 0) $("flip-form").querySelectorAll("select, input")[focused].focus();
  const rows = new Map();
  for (const item of own) if (T(item[VARIANT]) === grid.variant && T(item[DECODING]) === grid.decoding) { const row = rows.get(item[SAMPLE]) || new Map(); row.set(item[RUN], item); rows.set(item[SAMPLE], row); }
  const verdictOf = (item) => item && item[VERDICTS].find((v) => T(judgeOf(item, v).name) === grid.judge);
  const models = runs.filter((run) => !data.runs[run].is_control);
  const isFlip = (row) => new Set(models.map((run) => verdictOf(row.get(run))).filter((v) => v && v[1] !== null).map((v) => v[1])).size > 1;
  const all = [...rows], flips = all.filter(([, row]) => isFlip(row)), list = grid.only ? flips : all;
  const between = `${count(flips.length)} of ${plural(all.length, "sample")} flip between ${plural(models.length, "run")} of models; controls are shown and not counted.`;
  $("flip-count").textContent = models.length > 1 ? between : "A flip needs two models that are no controls.";
  gridPage = Math.min(gridPage, Math.max(0, Math.ceil(list.length / PER_GRID) - 1));
  pager(["flip-pager"], list.length, PER_GRID, gridPage, (to) => { gridPage = to; drawGrid(); });
  const marks = { right: "\u2713 right", wrong: "\u2717 wrong" };
  const body = list.slice(gridPage * PER_GRID, (gridPage + 1) * PER_GRID).map(([sample, row]) => el("tr", {}, el("th", { scope: "row" }, el("span", { class: "inline" }, T(data.samples[sample][1])), el("div", { class: "quiet" }, T(data.samples[sample][2])), el("div", { class: "brief small-text" }, said(data.samples[sample]))), runs.map((run) => {
    const item = row.get(run), verdict = verdictOf(item);
    if (!item) return el("td", {}, "\u2013");
    const [kind, words] = verdict ? finding(item, verdict) : ["none", "not judged"];
    return el("td", {}, el("button", { type: "button", class: `num ${kind}`, "aria-label": `${data.runs[run].label}: ${words}; open it`, onclick: () => jump(item) }, marks[kind] || words));
  })));
  $("flip-table").className = "cells";
  $("flip-table").replaceChildren(el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Sample"), runs.map((run) => el("th", { scope: "col" }, data.runs[run].label)))), el("tbody", {}, body));
}

// ---- keys, theme ----
const KEY_WORDS = { j: "next item", k: "previous item", "o or Enter": "open the item, or close it", Escape: "close the item", n: "next page of items", p: "previous page", f: "flips: only those on which models differ", i: "to the items", "/": "search in texts", t: "light, dark, or as the system", "?": "this list" };
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !data) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea") && event.target.type !== "checkbox") { if (event.key === "Escape") event.target.blur(); return; }
  const go = (id) => { location.hash = id; $(`${id}-title`).focus({ preventScroll: true }); $(`${id}-title`).scrollIntoView(); };
  const last = Math.ceil(found.length / PER_PAGE) - 1;
  const does = {
    j: () => select(at < 0 ? page * PER_PAGE : at + 1, isOpen), k: () => select(at < 0 ? page * PER_PAGE : at - 1, isOpen),
    o: () => select(Math.max(at, page * PER_PAGE), !isOpen), Escape: () => isOpen && select(at, false),
    n: () => { if (page < last) { page += 1; at = -1; isOpen = false; drawList(); $("items-title").scrollIntoView(); } },
    p: () => { if (page > 0) { page -= 1; at = -1; isOpen = false; drawList(); $("items-title").scrollIntoView(); } },
    f: () => { grid.only = true; drawGrid(); go("flips"); say("Samples on which models differ"); }, i: () => go("items"),
    "/": () => { go("items"); $("filters").querySelector("input").focus(); }, t: theme, "?": help,
  }[event.key];
  if (does) { event.preventDefault(); does(); }
}
const THEMES = { "": ["dark", "Theme: dark"], dark: ["light", "Theme: light"], light: ["", "Theme: as the system"] };
function theme() {
  const root = document.documentElement, [next, words] = THEMES[root.dataset.theme || ""];
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  $("theme").textContent = words;
}
function help() {
  $("keys").replaceChildren(el("h2", { id: "keys-title" }, "Keys"), el("dl", {}, Object.entries(KEY_WORDS).map(([key, words]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)])), el("button", { type: "button", onclick: () => $("keys").close() }, "Close"));
  $("keys").showModal();
}

// ---- begin ----
async function inflate(bytes) { return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json(); }
function packed() {
  const text = atob($("data").textContent.trim()), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}
function show(made) {
  data = made; texts = data.texts; items = data.items.flat(); groups = {};
  chosenSets = data.chosen.map((list) => new Set(list));
  document.title = data.title; $("title").textContent = data.title; $("loading").hidden = true;
  $("notes").replaceChildren(...data.notes.map((note) => el("p", { class: "note" }, note)));
  const isLast = (s) => ["asked", "cost"].includes(s.name), title = (s) => [s.name, s.title], last = data.sections.filter(isLast), others = data.sections.filter((s) => !isLast(s));
  $("sections").replaceChildren(...others.map(sectionNode)); $("last").replaceChildren(...last.map(sectionNode));
  const parts = [...others.map(title), ...(data.runs.length > 1 ? [["flips", "Flips"]] : []), ["items", "Items"], ...last.map(title)];
  $("nav").replaceChildren(...parts.map(([id, title]) => el("a", { href: `#${id}` }, title)));
  $("foot").replaceChildren(el("p", { class: "quiet" }, `Made by pragmatics harness ${data.version}. Numbers underlined with dots open their recipe, what is missing, and their items.`));
  $("flips").hidden = data.runs.length < 2; $("items").hidden = false;
  drawGrid();
  if (!fromHash()) { apply(); const target = location.hash && $(location.hash.slice(1)); if (target) target.scrollIntoView(); }
  document.documentElement.dataset.ready = "yes";
}
async function poll() {
  try {
    const now = await (await fetch("state", { cache: "no-store" })).json();
    $("live").hidden = false;
    $("live").textContent = `Live. ${plural(now.runs, "run")}.`;
    if (now.stamp !== stamp) {
      if (now.runs) { const made = await inflate(await (await fetch("data", { cache: "no-store" })).arrayBuffer()); stamp = now.stamp; const [where, wasAt, wasOpen, wasPage] = [scrollY, at, isOpen, page]; show(made); if (wasAt >= 0 || wasPage) { page = wasPage; at = wasAt; isOpen = wasOpen; drawList(); } scrollTo({ top: where, behavior: "instant" }); }
      else $("loading").textContent = "No run is finished yet; it will show up here.";
    }
  } catch { $("live").hidden = false; $("live").textContent = "The server has stopped, or cannot read the runs; what is shown may be old."; }
  setTimeout(poll, 2000);
}
async function start() {
  $("theme").addEventListener("click", theme); $("help").addEventListener("click", help);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => { if (data) fromHash(); });
  for (const form of [$("filters"), $("flip-form")]) form.addEventListener("submit", (event) => event.preventDefault());
  if ($("data").textContent.trim() === "") { poll(); return; }
  try { show(await inflate(packed())); } catch (error) { $("loading").textContent = `The data of this page cannot be read: ${error.message}`; throw error; }
}
start();
})();
