// Two texts beside each other: a preference pair, or the dialogues of two runs; what they share comes once.

function sideBySide(left, right, shared, names, view, classes = "two") {
  const parts = [];
  if (shared) parts.push(el("details", { class: "fold shared" }, el("summary", {}, `${plural(shared, "message")} the same`), el("div", { class: "chat fold-body" }, left.slice(0, shared).map((message) => messageView(message, view, { side: true })))));
  const rest = Math.max(left.length, right.length) - shared;
  const rows = el("div", { class: classes }, el("h3", { class: "side-name s-left" }, names[0]), el("h3", { class: "side-name s-right" }, names[1]));
  for (let i = 0; i < rest; i++) {
    const a = left[shared + i], b = right[shared + i];
    const both = i === 0 && a && b && a.role === b.role;
    const marks = both ? wordMarks(a.text, b.text) : null;
    const side = (message, which) => (message ? messageView(message, view, { side: true, body: marks && a.text.length + b.text.length < 8000 ? () => el("p", { class: "prose differs", dir: "auto" }, markedNodes(marks[which])) : undefined }) : el("p", { class: "no-message" }, i === 0 || (which ? right : left).length === shared + i ? "It ended here." : ""));
    rows.append(el("div", { class: "side-cell s-left" }, side(a, 0)), el("div", { class: "side-cell s-right" }, side(b, 1)));
  }
  parts.push(rest ? el("p", { class: "parting", id: "parting", tabindex: "-1" }, shared ? `They part at message ${shared + 1}` : "They differ from the first message on") : el("p", { class: "parting" }, "The two are the same throughout."), rest ? rows : null);
  return parts;
}

function pairView(view) {
  const opening = (view.chosen.find((m) => m.role === "user" || m.role === "text") || view.chosen[0] || { text: view.id }).text;
  const trained = fold("Exact text of the chosen side", () => el("pre", { class: "code exact", tabindex: "0" }, longText(view.prompt, (text) => el("code", {}, plainText(text)))), false, "fold-prompt");
  return el("div", { class: "entry" }, heading(view, view.title, opening), outcomeLine(view), el("div", { class: "chat-wide" }, sideBySide(view.chosen, view.rejected, view.shared, ["▲ Chosen", "▼ Rejected"], { ...view, messages: view.chosen }, "two chosen-first")), el("div", { class: "message-more" }, trained), fieldsSection(view));
}

function comparisonView(view) {
  const [one, other] = view.runs;
  const scores = el("div", { class: "two scores" }, view.runs.map((run, i) => el("div", { class: `side-cell ${i ? "s-right" : "s-left"}` }, el("h3", { class: "side-name" }, view.names[i]), outcomeLine({ ...run, kind: "dialogue", id: run.id === one.id && i ? "" : run.id }), creditStrip(run.messages, view.runs.map((r) => r.messages)))));
  const differs = one.code !== undefined && other.code !== undefined ? section("answer", "The two answers", differenceView(one.code, other.code, view.names, "python")) : null;
  const truth = view.task.truth ? section("truth", "Reference solution", codeBlock(view.task.truth, looksLikeMarkup(view.task.truth) ? "html" : "python")) : null;
  return el("div", { class: "entry" }, heading(view, view.task.title, view.task.description), scores,
    one.pictures && other.pictures ? el("div", { class: "two" }, view.runs.map((run, i) => lastPicture(run, view.names[i], i))) : null,
    el("div", { class: "chat-wide" }, sideBySide(one.messages, other.messages, view.shared, view.names, { ...one, kind: "dialogue" })),
    bothTests(view), differs, truth);
}

function lastPicture(run, name, which) {
  const drawn = run.pictures.turns.filter((turn) => turn.name);
  const last = drawn[drawn.length - 1];
  return el("div", { class: `side-cell ${which ? "s-right" : "s-left"}` }, last ? figureOf(last, `${name}, turn ${last.turn + 1}`) : el("p", { class: "no-picture" }, `${name}: no page was drawn`));
}

function bothTests(view) {
  const [a, b] = view.runs.map((run) => run.grade);
  if (!a || !b || !a.tests.some((t) => t.passed !== undefined) && !b.tests.some((t) => t.passed !== undefined)) return null;
  const result = (test) => (!test || test.passed === undefined ? "·" : test.passed ? el("span", { class: "good" }, "✓ passed") : [el("span", { class: "bad" }, "✗ "), test.got !== undefined ? el("code", {}, plainText(String(test.got).slice(0, 500))) : test.reason || "not passed"]);
  return section("tests", "Unit tests", el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Unit tests" }, el("table", { class: "tests-table" },
    el("thead", {}, el("tr", {}, ["Call", "Expected", ...view.names].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, a.tests.map((test, i) => {
      const second = b.tests.find((t) => t.name === test.name) || b.tests[i];
      const expected = test.expected !== undefined ? test.expected : second && second.expected;
      return el("tr", { class: Boolean(test.passed) === Boolean(second && second.passed) ? "" : "apart" }, el("td", { class: "call", "data-label": "Call" }, el("code", {}, codeNodes(test.call.slice(0, 4000), "python"))), el("td", { "data-label": "Expected" }, expected === undefined ? "" : el("code", {}, plainText(String(expected).slice(0, 500)))), el("td", { "data-label": view.names[0] }, result(test)), el("td", { "data-label": view.names[1] }, result(second)));
    })))));
}

const VIEWS = { dialogue: dialogueView, candidates: dialogueView, pair: pairView, comparison: comparisonView };
