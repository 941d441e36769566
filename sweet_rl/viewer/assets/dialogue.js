// One dialogue: the chat, what the answer lacks beside the reference, and the tests.

function outcomeLine(view, extra) {
  const graded = typeof view.reward === "number";
  const words = view.ending === "failed" ? "failed, not graded" : graded ? (view.reward === 1 && !view.pictures ? "solved" : `reward ${decimal(view.reward)}`) : view.kind === "candidates" || view.kind === "pair" ? null : "not graded";
  const chips = [];
  if (words) chips.push(el("span", { class: `outcome ${view.reward === 1 ? "good" : graded ? "bad" : ""}` }, rewardMark(view.reward, view.ending), words));
  if (view.ending) chips.push(el("span", { class: "fact" }, ENDINGS[view.ending] || view.ending));
  if (view.messages) chips.push(el("span", { class: "fact" }, plural(view.messages.filter((m) => m.turn !== undefined).length, "turn")));
  return el("p", { class: "facts" }, chips, extra || [], el("span", { class: "fact id" }, plainText(view.id)));
}

// The place of the entry among those shown; it changes while a file is read, and with the filters.
function positionText() {
  const position = state.visible.indexOf(state.selected);
  return position >= 0 ? `${count(position + 1)} of ${count(state.visible.length)}` : "not among those shown";
}

function heading(view, title, text) {
  return el("header", { class: "entry-head" },
    el("div", { class: "entry-tools" },
      button("‹ List", () => showList(), { class: "back" }),
      el("span", { class: "position", id: "position" }, positionText()),
      button("↑", () => step(-1), { "aria-label": "Previous (k)", title: "Previous (k)" }), button("↓", () => step(1), { "aria-label": "Next (j)", title: "Next (j)" })),
    el("h2", { class: "entry-title", dir: "auto", tabindex: "-1", id: "entry-title" }, plainText(title || view.id)),
    text.length > title.length ? el("details", { class: "fold fold-task" }, el("summary", {}, "The whole task"), el("div", { class: "fold-body" }, prose(text))) : null);
}

function dialogueView(view) {
  const credited = view.messages.some((message) => message.credit && message.credit.tokens) || view.messages.some((m) => (m.candidates || []).some((c) => c.credit));
  const chat = el("section", { class: "chat", "aria-label": "Dialogue" }, view.messages.map((message) => messageView(message, view)));
  if (view.failure) chat.append(el("div", { class: "failure", role: "note" }, el("b", {}, `The dialogue failed: ${view.failure.kind || "unknown"}`), view.failure.side ? ` (${view.failure.side})` : "", el("p", {}, plainText(String(view.failure.message || "")))));
  else if (view.ending === "turn_limit" && !view.answer) chat.append(el("p", { class: "end-note" }, "The turns were over before there was an answer."));
  const toggle = credited ? button(state.tokens ? "Tokens: shown" : "Tokens: hidden", () => toggleTokens(), { id: "token-button", "aria-pressed": String(state.tokens) }) : null;
  const evidence = el("div", { class: "evidence" }, testsSection(view), answerSection(view), hiddenSection(view), truthSection(view), fieldsSection(view));
  const strip = creditStrip(view.messages);
  return el("div", { class: "entry" }, heading(view, view.task.title, view.task.description), outcomeLine(view, toggle), strip,
    view.pictures ? pictureStage(view) : null,
    el("div", { class: `columns ${evidence.childElementCount ? "" : "alone"}` }, chat, evidence.childElementCount ? evidence : null));
}

const section = (name, title, ...content) => el("section", { class: `part ${name}`, id: name, tabindex: "-1" }, el("h3", {}, title), ...content);

function testsSection(view) {
  const grade = view.grade;
  if (!grade) return null;
  if (grade.machine) return section("tests", "Unit tests", el("p", { class: "prose" }, "Not judged, the machine failed: ", plainText(String(grade.machine))));
  if (grade.ungradable) return section("tests", "Unit tests", el("p", { class: "prose" }, "This task cannot be graded: ", plainText(String(grade.ungradable))));
  if (!grade.tests.length) return null;
  const judged = grade.tests.filter((test) => test.passed !== undefined);
  const passed = judged.filter((test) => test.passed).length;
  const title = judged.length ? `Unit tests: ${passed} of ${judged.length} passed` : "Unit tests, not run";
  const pips = judged.length ? el("span", { class: "pips", "aria-hidden": "true" }, judged.map((test) => el("i", { class: test.passed ? "good" : "bad" }))) : null;
  const cell = (value) => (value === undefined ? null : [el("code", {}, plainText(String(value).slice(0, 2000)))]);
  const why = grade.failure && judged.length && !judged.some((test) => test.passed) && judged.every((t) => t.reason === grade.failure) && judged.every((t) => t.got === undefined) ? el("p", { class: "prose" }, `Every test: ${grade.failure}. `, plainText(String((judged[0] && judged[0].message) || ""))) : null;
  const table = el("table", { class: "tests-table" }, el("thead", {}, el("tr", {}, ["", "Call", "Expected", "Got"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, grade.tests.map((test) => el("tr", { class: test.passed === undefined ? "" : test.passed ? "passed" : "not-passed" },
      el("td", { class: "verdict" }, test.passed === undefined ? "·" : test.passed ? el("span", { class: "good", title: "passed" }, "✓") : el("span", { class: "bad", title: "not passed" }, "✗"), el("span", { class: "unseen" }, test.passed === undefined ? "not run" : test.passed ? "passed" : "not passed")),
      el("td", { class: "call", title: test.name, "data-label": "Call" }, el("code", {}, codeNodes(test.call.slice(0, 4000), "python"))),
      test.passed ? el("td", { colspan: 2, class: "quiet", "data-label": "" }, test.expected === undefined ? "" : cell(test.expected)) : [
        el("td", { "data-label": "Expected" }, cell(test.expected)),
        el("td", { "data-label": "Got" }, cell(test.got), test.reason && test.got === undefined ? el("span", { class: "reason" }, test.reason) : null, test.message ? el("span", { class: "reason-text" }, plainText(String(test.message).slice(0, 2000))) : null)]))));
  return section("tests", [title, pips], why, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Unit tests" }, table));
}

function answerSection(view) {
  const truth = view.task.truth;
  if (view.kind !== "dialogue" || view.pictures || !truth || view.code === undefined) return null;
  return section("answer", "Answer beside the reference solution", differenceView(view.code, truth, ["The agent's answer", "The reference solution"], "python"));
}

function hiddenSection(view) {
  if (!view.task.hidden) return null;
  const judged = view.messages.some((message) => message.oracle), useful = view.messages.filter((message) => message.oracle === "useful").length;
  return section("hidden", "Hidden rules of the task", el("p", { class: "prose" }, `About: ${view.task.hidden.join(", ")}.${judged ? ` The agent asked for ${useful} of ${view.task.hidden.length}.` : ""}`));
}

function truthSection(view) {
  if (!view.task.truth || view.code !== undefined && !view.pictures) return null;
  const language = looksLikeMarkup(view.task.truth) ? "html" : "python";
  return section("truth", view.pictures ? "Reference page" : "Reference solution", view.pictures ? fold("Source of the reference page", () => codeBlock(view.task.truth, language)) : codeBlock(view.task.truth, language));
}

function fieldsSection(view) {
  const fields = view.fields && Object.keys(view.fields).length ? view.fields : null;
  if (!fields) return null;
  return section("fields", "Other fields", fold(Object.keys(fields).join(", ").slice(0, 200), () => el("pre", { class: "code", tabindex: "0" }, longText(JSON.stringify(fields, null, 2), (text) => el("code", {}, plainText(text))))));
}
