// The figures on top. Charts show all entries pale and those that the filters leave solid.

const ENDINGS = { answered: "answered", turn_limit: "turn limit", failed: "failed", unknown: "not said" };
const WORDS = { useful: "asks for a hidden rule", complete: "answers, knowing every rule", repeated: "asks what was told", useless: "asks beside the point", early: "answers too early" };

const MEASURES = { success: "Success", reward: "Mean reward", similarity: "Similarity to the reference" };

const tile = (heading, ...content) => el("section", { class: "tile" }, el("h2", {}, heading), ...content);

function drawSummary() {
  const { rows, visible, summary, kind } = state;
  const shown = visible.map((number) => rows[number]);
  const tiles = kind === "comparison" ? comparedTiles(summary, rows, shown) : tilesOf(summary || {}, rows, shown);
  clear(byId("summary"), tiles);
}

function tilesOf(summary, rows, shown) {
  const tiles = [];
  if (summary.score) {
    const { mean: share, low, high } = summary.score;
    const graded = shown.filter((row) => typeof row.reward === "number" && row.ending !== "failed");
    const part = summary.measure === "success" ? `${count(graded.filter((row) => row.reward === 1).length)} of ${count(graded.length)}` : graded.length ? percent(mean(graded.map((row) => row.reward))) : "none";
    tiles.push(tile(MEASURES[summary.measure], el("p", { class: "figure" }, percent(share)), whisker(summary.score),
      el("p", { class: "quiet" }, `95 %: ${fixed(100 * low, 1)} to ${fixed(100 * high, 1)}`),
      shown.length === rows.length ? null : el("p", { class: "quiet" }, `of those shown: ${part}`)));
  } else {
    tiles.push(tile(state.kind === "pairs" ? "Pairs" : state.kind === "candidates" ? "Dialogues" : "Dialogues, not graded",
      el("p", { class: "figure" }, count(rows.length)), el("p", { class: "quiet" }, summary.tasks ? `of ${plural(summary.tasks, "task")}` : "")));
  }
  if (state.kind === "trajectories" || state.kind === "designs") tiles.push(endingTile(rows, shown));
  const rewards = rows.map((row) => row.reward).filter((reward) => typeof reward === "number");
  if (rewards.length) {
    const edges = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1];
    tiles.push(tile("Rewards", histogram({ values: rewards.map(clean), some: shown.map((row) => row.reward).filter((r) => typeof r === "number").map(clean), edges,
      label: `Rewards: mean ${decimal(mean(rewards))}`, unit: "reward", ends: ["0", `mean ${fixed(mean(rewards), 2)}`, "1"],
      onpick: (low, high, last) => setFilters({ min: low.toFixed(1), max: last ? "1" : Math.min(1, high - 0.001).toFixed(3) }) }),
      summary.measure === "success" ? el("p", { class: "quiet" }, `95 %: ${fixed(summary.reward.low, 2)} to ${fixed(summary.reward.high, 2)}`) : null));
  }
  const numbers = (heading, field, unit) => {
    const values = rows.map((row) => row[field]), some = shown.map((row) => row[field]);
    if (!values.length) return;
    const edges = evenEdges(values, 14);
    tiles.push(tile(heading, histogram({ values, some, edges, label: `${heading}: median ${count(median(values))}`, unit,
      ends: [count(Math.min(...values)), `median ${count(median(some.length ? some : values))}`, count(Math.max(...values))] })));
  };
  numbers("Turns", "turns", "turns");
  numbers("Length", "chars", "characters");
  if (summary.advantage_by_turn) tiles.push(tile("Critic's score by turn", aroundZero(summary.advantage_by_turn, "turn",
    "Critic's score by turn: " + summary.advantage_by_turn.map((row) => `turn ${row.turn + 1} ${signed(row.mean)}`).join(", ")),
    el("div", { class: "ends" }, el("span", {}, "turn 1"), el("span", {}, "mean, middle half"), el("span", {}, String(summary.advantage_by_turn[summary.advantage_by_turn.length - 1].turn + 1)))));
  if (summary.advantage_by_word) tiles.push(tile("Critic's score by oracle word", el("ul", { class: "by-word" }, summary.advantage_by_word.map((row) =>
    el("li", { title: WORDS[row.word] }, oracleChip(row.word), advantageBar(row.mean), el("span", { class: "number" }, signed(row.mean)), el("span", { class: "quiet" }, count(row.n)))))));
  return tiles;
}

function endingTile(rows, shown) {
  const tally = (list) => { const counts = {}; for (const row of list) { const e = row.ending || "unknown"; counts[e] = (counts[e] || 0) + 1; } return counts; };
  const all = tally(rows), some = tally(shown);
  return tile("Endings", el("ul", { class: "endings" }, Object.keys(ENDINGS).filter((ending) => all[ending]).map((ending) => {
    const pick = button(ENDINGS[ending], () => setFilters({ ending: state.filters.ending === ending ? "" : ending }), { class: "plain-button", "aria-pressed": String(state.filters.ending === ending) });
    const bar = el("span", { class: "ending-bar", "aria-hidden": "true" }, el("i", { class: "whole", style: { width: `${(100 * all[ending]) / rows.length}%` } }), el("i", { class: "solid", style: { width: `${(100 * (some[ending] || 0)) / rows.length}%` } }));
    return el("li", {}, pick, bar, el("span", { class: "number" }, count(some[ending] || 0)));
  })));
}

function comparedTiles(summary, rows, shown) {
  if (!summary || !summary.runs) return [tile("Tasks", el("p", { class: "figure" }, count(rows.length)))];
  const tiles = summary.runs.map((run, i) => tile(summary.names[i], run.score
    ? [el("p", { class: "figure" }, percent(run.score.mean)), whisker(run.score), el("p", { class: "quiet" }, `${run.measure}; 95 %: ${fixed(100 * run.score.low, 1)} to ${fixed(100 * run.score.high, 1)}`)]
    : el("p", { class: "quiet" }, `${plural(run.entries, "dialogue")}, not graded`)));
  if (summary.difference) {
    const d = summary.difference;
    tiles.push(tile(`${summary.names[1]} over ${summary.names[0]}`, el("p", { class: "figure" }, `${signed(100 * d.mean, 1)} points`),
      el("p", { class: "quiet" }, `95 %: ${signed(100 * d.low, 1)} to ${signed(100 * d.high, 1)}; ${d.p < 0.001 ? "p < 0.001" : "p = " + fixed(d.p, 3)}`), el("p", { class: "quiet" }, `over ${plural(d.tasks, "task")}, sign-flip test`)));
  }
  const outcome = (list) => list.reduce((n, row) => { n[outcomeOf(row)]++; return n; }, { first: 0, second: 0, even: 0 });
  const all = outcome(rows), some = outcome(shown);
  tiles.push(tile("Who did better", el("ul", { class: "endings" }, ["first", "second", "even"].map((who) => el("li", {},
    button(who === "even" ? "equal" : summary.names[who === "first" ? 0 : 1], () => setFilters({ show: state.filters.show === who ? "" : who }), { class: "plain-button" }),
    el("span", { class: "ending-bar", "aria-hidden": "true" }, el("i", { class: "whole", style: { width: `${(100 * all[who]) / rows.length}%` } }), el("i", { class: "solid", style: { width: `${(100 * some[who]) / rows.length}%` } })),
    el("span", { class: "number" }, count(some[who])))))));
  const parted = rows.filter((row) => row.first !== null && row.first !== undefined).map((row) => Math.ceil(row.first / 2));
  if (parted.length) tiles.push(tile("Turn at which they part", histogram({ values: parted, some: shown.filter((row) => row.first !== null && row.first !== undefined).map((row) => Math.ceil(row.first / 2)), edges: evenEdges(parted, 12), label: "Turn at which they part", unit: "", ends: [String(Math.min(...parted)), `median ${median(parted)}`, String(Math.max(...parted))] }),
    summary.left_out ? el("p", { class: "quiet" }, `${plural(summary.left_out, "dialogue")} without a partner left out`) : null));
  return tiles;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const clean = (value) => Math.round(value * 1e9) / 1e9; // 0.7 is 0.7000000000000001 in some sums
const outcomeOf = (row) => {
  const a = row.reward, b = row.other.reward;
  return typeof a !== "number" || typeof b !== "number" || a === b ? "even" : a > b ? "first" : "second";
};
