// What is shown, how it is asked for, and the address that keeps it.

const KINDS = { trajectories: "dialogues", designs: "design dialogues", candidates: "candidates by turn", pairs: "preference pairs", comparison: "two runs, task by task" };
const state = {
  source: document.documentElement.dataset.mode === "served" ? new ServedSource() : new FileSource(),
  rows: [], visible: [], selected: null, view: null, kind: "", summary: null, loading: true, searching: false, found: null,
  filters: { ...DEFAULTS }, scale: 0, tokens: true, turn: null, mode: "side", wipe: 50, wanted: null,
};

// ---- the address: #d=ID&turn=N&q=...; everything that is shown can be linked to

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) state.filters[name] = parameters.get(name) || DEFAULTS[name];
  state.wanted = parameters.get("d");
  state.turn = parameters.has("turn") ? Number(parameters.get("turn")) - 1 : null;
  state.mode = MODES.some(([mode]) => mode === parameters.get("mode")) ? parameters.get("mode") : "side";
}
function address() {
  const parameters = new URLSearchParams();
  if (state.selected !== null) parameters.set("d", state.rows[state.selected].id);
  if (state.turn !== null) parameters.set("turn", state.turn + 1);
  if (state.mode !== "side") parameters.set("mode", state.mode);
  for (const [name, value] of Object.entries(state.filters)) if (value !== DEFAULTS[name]) parameters.set(name, value);
  return `#${parameters}`;
}
function saveAddress(push) {
  const next = address();
  if (next === location.hash) return;
  if (push) history.pushState(null, "", next);
  else history.replaceState(null, "", next);
}

// ---- filters and search

let searchTimer = 0, searchNumber = 0;
function setFilters(changes) {
  const before = state.filters.q;
  Object.assign(state.filters, changes);
  syncFilters(changes);
  if (state.filters.q !== before) {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(search, 120);
  }
  byId("rows").scrollTop = 0;
  refreshList();
  saveAddress();
}
function syncFilters(changes) {
  for (const name of Object.keys(changes)) {
    const input = byId(`f-${name}`);
    if (input && "value" in input && input.tagName !== "BUTTON" && input.value !== state.filters[name]) input.value = state.filters[name];
  }
  for (const choice of document.querySelectorAll("#filters [data-show]")) choice.setAttribute("aria-pressed", String(choice.dataset.show === state.filters.show));
  const direction = byId("f-down");
  if (direction) { direction.textContent = state.filters.down ? "↓" : "↑"; direction.setAttribute("aria-label", state.filters.down ? "Descending; click for ascending" : "Ascending; click for descending"); }
}
async function search() {
  const query = state.filters.q.trim(), mine = ++searchNumber;
  if (!query) { state.found = null; state.searching = false; refreshList(); return; }
  state.searching = true;
  refreshList();
  try {
    const answer = await state.source.search(query);
    if (mine !== searchNumber) return;
    state.found = new Set(answer.found);
    state.searching = false;
    byId("rows").scrollTop = 0;
    refreshList();
    document.documentElement.dataset.searched = query;
  } catch (error) { state.searching = false; complain(error); }
}

// ---- entries

async function select(number, { focus, push = true, turn = null } = {}) {
  if (number === null || number === undefined) return;
  state.selected = number;
  state.turn = turn;
  saveAddress(push);
  drawRows();
  scrollToSelected();
  document.body.classList.add("reading-one");
  let view;
  try { view = await state.source.entry(number); } catch (error) { return complain(error); }
  if (state.selected !== number) return;
  show(view);
  byId("reading").scrollTop = 0;
  if (focus && matchMedia("(max-width: 820px)").matches) byId("entry-title").focus({ preventScroll: true });
  if (turn !== null && view.kind !== "comparison" && view.kind !== "pair" && !view.pictures) goToTurn(turn);
  announce(`${state.visible.indexOf(number) + 1} of ${state.visible.length}. ${rowLabel(state.rows[number])}`);
  document.documentElement.dataset.shown = String(number);
}
function show(view) {
  hideTip();
  state.view = view;
  clear(byId("reading"), VIEWS[view.kind](view));
}
function step(by) {
  if (!state.visible.length) return;
  const position = state.visible.indexOf(state.selected);
  select(state.visible[position < 0 ? 0 : clamp(position + by, 0, state.visible.length - 1)]);
}
function goToTurn(turn) {
  const article = byId(`turn-${turn}`);
  if (!article) return;
  state.turn = turn;
  article.scrollIntoView({ block: "center" });
  article.focus({ preventScroll: true });
  saveAddress();
}
function stepTurn(by) {
  const turns = [...document.querySelectorAll(".m-agent[id]")].map((article) => Number(article.id.slice(5)));
  if (!turns.length) return;
  const position = turns.indexOf(state.turn);
  goToTurn(turns[position < 0 ? (by > 0 ? 0 : turns.length - 1) : clamp(position + by, 0, turns.length - 1)]);
}
function toggleTokens() { state.tokens = !state.tokens; if (state.view) { const top = byId("reading").scrollTop; show(state.view); byId("reading").scrollTop = top; } }
function showList() { document.body.classList.remove("reading-one"); byId("rows").focus(); drawRows(); scrollToSelected(); }
function complain(error) {
  const problem = byId("problem");
  problem.hidden = false;
  problem.textContent = error.message || String(error);
}

// ---- help, keys

const KEYS = [
  ["j  k", "next, previous entry"], ["n  p", "next, previous turn of the agent"], ["/", "search"], ["t", "tokens shown or hidden"], ["x", "open or close every turn's candidates"],
  ["d", "to the answer's difference; for pairs and runs, to where they part"], ["u", "to the unit tests"], ["1 2 3", "pages side by side, overlaid, their difference"], ["s", "summary shown or hidden"],
  ["Esc", "close; back to the list"], ["?", "these keys"],
];
function toggleHelp() {
  const help = byId("help");
  if (help.open) return help.close();
  clear(help, el("h2", { id: "help-title" }, "Keys"), el("dl", {}, KEYS.map(([keys, words]) => [el("dt", {}, keys.split(/ +/).map((key) => el("kbd", {}, key))), el("dd", {}, words)])),
    el("p", { class: "quiet" }, "On a turn's tokens, the left and right arrows tell each one's log-ratio."), button("Close", () => help.close(), { class: "close" }));
  help.showModal();
}
function toggleSummary() {
  const hidden = document.body.classList.toggle("no-summary");
  byId("summary-button").setAttribute("aria-expanded", String(!hidden));
  drawRows();
}
const into = (id) => { const node = byId(id); if (node) { node.scrollIntoView({ block: "start" }); node.focus({ preventScroll: true }); } };
function setMode(mode) { if (state.view && state.view.drawStage) { state.mode = mode; state.view.drawStage(); saveAddress(); } }
const ACTIONS = {
  j: () => step(1), k: () => step(-1), n: () => stepTurn(1), p: () => stepTurn(-1), t: toggleTokens, s: toggleSummary, "?": toggleHelp,
  "/": () => { byId("f-q").focus(); byId("f-q").select(); }, d: () => into(byId("parting") ? "parting" : "answer"), u: () => into("tests"),
  x: () => { const all = [...document.querySelectorAll(".fold-candidates")]; const open = all.some((fold) => !fold.open); for (const fold of all) fold.open = open; },
  1: () => setMode("side"), 2: () => setMode("overlay"), 3: () => setMode("difference"),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest && event.target.closest("input:not([type=range]), select, textarea");
  if (event.key === "Escape") {
    if (typing) return typing.blur();
    if (byId("help").open) return;
    return showList();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("help").open && event.key !== "?") return;
  if (event.target.id === "rows" && { ArrowDown: 1, ArrowUp: 1 }[event.key]) { event.preventDefault(); return step(event.key === "ArrowDown" ? 1 : -1); }
  if (event.target.id === "rows" && event.key === "Enter") return byId("entry-title") && byId("entry-title").focus();
  const action = ACTIONS[event.key];
  if (action) { event.preventDefault(); action(); }
});

// ---- start

function received(part) {
  const first = state.rows.length === 0;
  state.kind = part.kind;
  state.rows = state.rows.concat(part.rows);
  state.loading = !part.done;
  if (part.summary) state.summary = part.summary;
  if (part.error) complain(new Error(part.error));
  const sizes = state.rows.flatMap((row) => [...(row.advantages || []), ...((row.other && row.other.advantages) || [])]).filter((v) => v !== null).map(Math.abs).sort((a, b) => a - b);
  state.scale = sizes.length ? Math.max(0.02, sizes[Math.floor(0.95 * (sizes.length - 1))]) : 0;
  byId("title").textContent = part.title;
  document.documentElement.dataset.kind = part.kind;
  byId("kind").textContent = KINDS[part.kind] || part.kind;
  if (first || part.done) drawFilters();
  if (part.done && state.filters.q) search();
  refreshList();
  if (first) drawSummary(); // it takes its room before the selected row is scrolled to
  if (state.selected === null && state.rows.length) {
    const wanted = state.wanted === null ? state.visible[0] : state.rows.findIndex((row) => row.id === state.wanted);
    if (wanted !== undefined && wanted >= 0) {
      select(wanted, { push: false, turn: state.turn });
      if (state.wanted === null) document.body.classList.remove("reading-one");
    } else if (part.done && state.wanted !== null) complain(new Error(`There is no entry with the id ${state.wanted} here.`));
  }
  if (part.done && !state.rows.length && !part.error) clear(byId("reading"), el("p", { class: "waiting" }, "There is nothing in this file."));
}
byId("rows").addEventListener("scroll", drawRows, { passive: true });
addEventListener("resize", drawRows);
addEventListener("popstate", () => { const old = { ...state.filters }; readAddress(); drawFilters(); if (old.q !== state.filters.q) search(); refreshList(); const number = state.rows.findIndex((row) => row.id === state.wanted); if (number >= 0) select(number, { push: false, turn: state.turn }); });
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("help-button").addEventListener("click", toggleHelp);
byId("summary-button").addEventListener("click", toggleSummary);
byId("skip").addEventListener("click", () => into("entry-title"));
byId("reading").addEventListener("scroll", hideTip, { passive: true });
readAddress();
state.source.open(received).catch(complain);
