// The list of entries: filters, order, and rows that exist only while they are in view.

const ROW = 74;
const DEFAULTS = { q: "", show: "", ending: "", min: "", max: "", sort: "file", down: "" };
const KIND_WORDS = { trajectories: ["dialogue"], designs: ["design dialogue"], candidates: ["dialogue"], pairs: ["pair"], comparison: ["pair of dialogues", "pairs of dialogues"] };
const SORTS = {
  file: ["File order", (row, number) => number],
  reward: ["Reward", (row) => (typeof row.reward === "number" ? row.reward : -1)],
  turns: ["Turns", (row) => row.turns],
  chars: ["Length", (row) => row.chars],
  advantage: ["Mean critic's score", (row) => (row.advantages ? mean(row.advantages.filter((v) => v !== null)) : -Infinity)],
  lowest: ["Lowest critic's score", (row) => (row.advantages ? Math.min(...row.advantages.filter((v) => v !== null)) : Infinity)],
  difference: ["Difference in reward", (row) => (row.other ? (row.other.reward || 0) - (row.reward || 0) : 0)],
  first: ["Where they part", (row) => (row.first === null || row.first === undefined ? 1e9 : row.first)],
};
const has = (test) => state.rows.some(test);

function drawFilters() {
  const { filters, rows } = state;
  const compared = state.kind === "comparison", graded = has((row) => typeof row.reward === "number");
  const names = (state.summary && state.summary.names) || ["the first", "the second"];
  const choices = compared ? [["", "All"], ["first", `${names[0]} better`], ["second", `${names[1]} better`], ["even", "Equal"]]
    : [["", "All"], ["solved", "Solved"], ["unsolved", "Not solved"]];
  const bound = (name, label, placeholder) => el("input", { id: `f-${name}`, type: "number", min: 0, max: 1, step: 0.1, placeholder, value: filters[name], "aria-label": label, oninput: () => setFilters({ [name]: byId(`f-${name}`).value }) });
  const option = (value, label, chosen) => el("option", { value, selected: chosen === value }, label);
  const endings = [...new Set(rows.map((row) => row.ending || "unknown"))];
  const sorts = Object.keys(SORTS).filter((name) => name === "file" || name === "turns" || name === "chars" || (name === "reward" && graded)
    || ((name === "advantage" || name === "lowest") && has((row) => row.advantages)) || (name === "difference" && compared) || (name === "first" && (compared || state.kind === "pairs")));
  clear(byId("filters"),
    el("div", { class: "search" }, el("input", { id: "f-q", type: "search", placeholder: "Search the texts", "aria-label": "Search the texts; words in quotes are one phrase", value: filters.q, autocomplete: "off", spellcheck: "false", oninput: () => setFilters({ q: byId("f-q").value }) }), el("kbd", { "aria-hidden": "true" }, "/")),
    graded && state.kind !== "designs" ? el("div", { class: "choices", role: "group", "aria-label": "Which to show" }, choices.map(([value, label]) =>
      button(label, () => setFilters({ show: value }), { class: "choice", "aria-pressed": String(filters.show === value), "data-show": value }))) : null,
    el("div", { class: "filter-fields" },
      (state.kind === "trajectories" || state.kind === "designs") && endings.length > 1 ? el("label", { class: "field" }, el("span", {}, "Ending"), el("select", { id: "f-ending", onchange: () => setFilters({ ending: byId("f-ending").value }) }, option("", "any", filters.ending), endings.map((e) => option(e, ENDINGS[e] || e, filters.ending)))) : null,
      graded && !compared ? el("div", { class: "field", role: "group", "aria-label": "Reward range" }, el("span", {}, "Reward"), el("span", { class: "pair" }, bound("min", "Least reward", "0"), "–", bound("max", "Greatest reward", "1"))) : null,
      el("label", { class: "field grow" }, el("span", {}, "Order"), el("select", { id: "f-sort", onchange: () => setFilters({ sort: byId("f-sort").value }) }, sorts.map((name) => option(name, SORTS[name][0], filters.sort)))),
      button(filters.down ? "↓" : "↑", () => setFilters({ down: state.filters.down ? "" : "1" }), { id: "f-down", class: "direction", "aria-label": filters.down ? "Descending; click for ascending" : "Ascending; click for descending" })));
}

// The entries that pass the filters, in order.
function filtered() {
  const { rows, filters, found } = state;
  const low = filters.min === "" ? -Infinity : Number(filters.min), high = filters.max === "" ? Infinity : Number(filters.max);
  const numbers = [];
  for (let number = 0; number < rows.length; number++) {
    const row = rows[number];
    if (found && !found.has(number)) continue;
    if (filters.show === "solved" && row.reward !== 1) continue;
    if (filters.show === "unsolved" && (row.reward === 1 || typeof row.reward !== "number")) continue;
    if (["first", "second", "even"].includes(filters.show) && row.other && outcomeOf(row) !== filters.show) continue;
    if (filters.ending && (row.ending || "unknown") !== filters.ending) continue;
    if ((filters.min !== "" || filters.max !== "") && !(typeof row.reward === "number" && row.reward >= low - 1e-9 && row.reward <= high + 1e-9)) continue;
    numbers.push(number);
  }
  const key = (SORTS[filters.sort] || SORTS.file)[1], sign = filters.down ? -1 : 1;
  if (filters.sort === "file") return filters.down ? numbers.reverse() : numbers;
  const keys = new Map(numbers.map((number) => [number, key(rows[number], number)]));
  return numbers.sort((a, b) => sign * (keys.get(a) - keys.get(b)) || a - b);
}

function refreshList() {
  state.visible = filtered();
  const [one, many] = KIND_WORDS[state.kind] || ["entry", "entries"];
  const { rows, visible, loading, searching } = state;
  byId("count").textContent = searching ? "Searching…" : (visible.length === rows.length ? plural(rows.length, one, many) : `${count(visible.length)} of ${plural(rows.length, one, many)}`) + (loading ? ", reading on…" : "");
  if (byId("position")) byId("position").textContent = positionText();
  drawRows();
  drawSummarySoon();
}

let summaryTimer = 0;
function drawSummarySoon() {
  clearTimeout(summaryTimer);
  summaryTimer = setTimeout(drawSummary, state.loading ? 400 : 30);
}

function rowLabel(row) {
  const reward = row.ending === "failed" ? "failed" : typeof row.reward === "number" ? (row.reward === 1 && state.kind !== "designs" ? "solved" : `reward ${decimal(row.reward)}`) : "not graded";
  return `${row.title}. ${state.kind === "pairs" ? "" : reward + ", "}${row.ending ? ENDINGS[row.ending] || row.ending : ""}, ${plural(row.turns, "turn")}`;
}

function drawRow(number, position) {
  const row = state.rows[number], selected = number === state.selected;
  const facts = [plural(row.turns, "turn")];
  if (row.ending && row.ending !== "answered") facts.push(ENDINGS[row.ending] || row.ending);
  if (row.failure && row.failure !== "no answer") facts.push(row.failure);
  if (row.candidates) facts.push(`candidates at ${row.candidates}`);
  if (state.kind === "pairs") facts.splice(0, 1, `${row.turns} : ${row.turns_rejected} turns`, row.hint ? "with the solution" : "", row.rewards ? `rewards ${row.rewards.map(decimal).join(" : ")}` : "");
  if (row.other) facts.splice(0, facts.length, `${row.turns} : ${row.other.turns} turns`, row.first === null || row.first === undefined ? "the same throughout" : `part at message ${row.first + 1}`);
  const marks = state.kind === "pairs" || state.kind === "candidates" ? null : row.other ? el("span", { class: "two-marks" }, rewardMark(row.reward, row.ending), rewardMark(row.other.reward, row.other.ending)) : rewardMark(row.reward, row.ending);
  const reward = typeof row.reward === "number" ? el("b", { class: "row-reward" }, row.other ? `${decimal(row.reward)} : ${typeof row.other.reward === "number" ? decimal(row.other.reward) : "–"}` : decimal(row.reward)) : null;
  return el("div", { class: "row", id: `row-${number}`, role: "option", "aria-selected": String(selected), "aria-setsize": state.visible.length, "aria-posinset": position + 1, "aria-label": rowLabel(row), style: { transform: `translateY(${position * ROW}px)` }, onclick: () => select(number, { focus: true }) },
    marks, el("div", { class: "row-text" }, el("div", { class: "row-title", dir: "auto" }, plainText(row.title || row.id)), el("div", { class: "row-facts" }, reward, facts.filter(Boolean).map((fact) => el("span", {}, fact)))),
    row.advantages && state.scale ? sparkline(row.advantages, state.scale) : null);
}

function drawRows() {
  const box = byId("rows"), { visible } = state;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 6);
  const last = Math.min(visible.length, Math.ceil((box.scrollTop + (box.clientHeight || 800)) / ROW) + 6);
  const rows = [];
  for (let position = first; position < last; position++) rows.push(drawRow(visible[position], position));
  const nothing = visible.length || state.loading || state.searching ? null : el("p", { class: "nothing" }, "Nothing passes these filters.", el("br"), button("Clear the filters", () => setFilters(DEFAULTS)));
  clear(box, el("div", { class: "spacer", role: "presentation", style: { height: `${visible.length * ROW}px` } }), nothing, rows);
  if (state.selected !== null && visible.includes(state.selected)) box.setAttribute("aria-activedescendant", `row-${state.selected}`);
  else box.removeAttribute("aria-activedescendant");
}

function scrollToSelected() {
  const box = byId("rows"), position = state.visible.indexOf(state.selected);
  if (position < 0 || !box.clientHeight) return;
  const top = position * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
}
