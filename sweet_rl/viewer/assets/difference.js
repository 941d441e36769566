// Differences of two texts by line, and inside changed lines by word (Myers' algorithm, O(ND)).

const MOST_EDITS = 600;
const LONGEST = 200000; // characters of both sides that are compared line by line

// [["=", i, j], ["-", i], ["+", j]] from sequence a to sequence b; null where they differ by more than MOST_EDITS.
function edits(a, b) {
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const n = endA - start, m = endB - start, most = Math.min(n + m, MOST_EDITS), trace = [];
  let best = new Map([[1, 0]]), reached = false;
  for (let d = 0; d <= most && !reached; d++) {
    trace.push(new Map(best));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && best.get(k - 1) < best.get(k + 1));
      let x = down ? best.get(k + 1) : best.get(k - 1) + 1;
      let y = x - k;
      while (x < n && y < m && a[start + x] === b[start + y]) { x++; y++; }
      best.set(k, x);
      if (x >= n && y >= m) { reached = true; break; }
    }
  }
  if (!reached) return null;
  const middle = [];
  let x = n, y = m;
  for (let d = trace.length - 1; d >= 0; d--) {
    const old = trace[d], k = x - y;
    const from = k === -d || (k !== d && old.get(k - 1) < old.get(k + 1)) ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : old.get(from), fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY && x > 0 && y > 0) { x--; y--; middle.push(["=", start + x, start + y]); }
    if (d > 0) { if (x === fromX) { y--; middle.push(["+", start + y]); } else { x--; middle.push(["-", start + x]); } }
  }
  middle.reverse();
  const result = [];
  for (let i = 0; i < start; i++) result.push(["=", i, i]);
  result.push(...middle);
  for (let i = 0; endA + i < a.length; i++) result.push(["=", endA + i, endB + i]);
  return result;
}

// Rows {kind: same|changed|removed|added, left?, right?, leftNumber?, rightNumber?}: removed lines beside those added there.
function lineRows(left, right) {
  const a = left.split("\n"), b = right.split("\n");
  const steps = edits(a, b);
  if (!steps) return null;
  const rows = [];
  let removed = [], added = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      const row = { kind: i >= added.length ? "removed" : i >= removed.length ? "added" : "changed" };
      if (i < removed.length) { row.left = a[removed[i]]; row.leftNumber = removed[i] + 1; }
      if (i < added.length) { row.right = b[added[i]]; row.rightNumber = added[i] + 1; }
      rows.push(row);
    }
    removed = []; added = [];
  };
  for (const [step, i, j] of steps) {
    if (step === "-") removed.push(i);
    else if (step === "+") added.push(i);
    else { flush(); rows.push({ kind: "same", left: a[i], right: b[j], leftNumber: i + 1, rightNumber: j + 1 }); }
  }
  flush();
  return rows;
}

// The words of both sides, those that differ marked: [[[text, differs], ...], [...]].
function wordMarks(left, right) {
  const cut = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) || [];
  if (left.length + right.length > 8000) return [[[left, true]], [[right, true]]];
  const a = cut(left), b = cut(right);
  const steps = edits(a, b);
  if (!steps) return [[[left, true]], [[right, true]]];
  const sides = [[], []];
  const push = (side, text, differs) => {
    const last = side[side.length - 1];
    if (last && last[1] === differs) last[0] += text;
    else side.push([text, differs]);
  };
  for (const [step, i, j] of steps) {
    if (step === "=") { push(sides[0], a[i], false); push(sides[1], b[j], false); }
    else if (step === "-") push(sides[0], a[i], true);
    else push(sides[1], b[i], true);
  }
  return sides;
}
const markedNodes = (pieces) => pieces.map(([text, differs]) => (differs ? el("mark", {}, plainText(text)) : plainText(text)));

function lineCell(text, other, kind, side, language) {
  if (text === undefined) return [];
  if (kind === "changed") return markedNodes(wordMarks(side === 0 ? text : other, side === 0 ? other : text)[side]);
  return codeNodes(text, language);
}

// Two texts side by side (or one above the other, where there is no room), changed lines marked by sign and colour.
function differenceView(left, right, names, language) {
  const rows = left.length + right.length > LONGEST ? null : lineRows(left, right);
  if (!rows) return el("div", { class: "diff-too-far" }, el("h4", {}, names[0]), codeBlock(left, language), el("h4", {}, names[1]), codeBlock(right, language));
  const changed = rows.filter((row) => row.kind !== "same").length;
  const table = el("table", { class: "diff" },
    el("caption", { class: "unseen" }, `${names[0]} and ${names[1]}, ${changed ? plural(changed, "line") + " differ" : "alike"}`),
    el("colgroup", {}, el("col", { class: "numbers" }), el("col"), el("col", { class: "numbers" }), el("col")),
    el("thead", {}, el("tr", {}, el("th", { colspan: 2, scope: "col" }, names[0]), el("th", { colspan: 2, scope: "col" }, names[1]))));
  const body = el("tbody", {});
  for (const row of rows) {
    const differs = row.kind !== "same";
    const side = (text, other, number, which, sign) => [
      el("td", { class: "line-number" }, number === undefined ? "" : String(number)),
      el("td", { class: `line ${differs && text !== undefined ? (which ? "new" : "old") : ""} ${text === undefined ? "gap" : ""}` },
        differs && text !== undefined ? el("span", { class: "sign" }, sign) : null,
        el("span", { class: "line-text" }, lineCell(text, other, row.kind, which, language)))];
    body.append(el("tr", { class: row.kind }, side(row.left, row.right, row.leftNumber, 0, "−"), side(row.right, row.left, row.rightNumber, 1, "+")));
  }
  table.append(body);
  const note = el("p", { class: "quiet" }, changed ? `${plural(changed, "line")} of ${rows.length} differ` : "Line for line the same.");
  const legend = el("p", { class: "quiet legend" }, `− ${names[0]}, + ${names[1]}`);
  return el("div", { class: "diff-box" }, note, changed ? legend : null, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${names[0]} beside ${names[1]}` }, table));
}
