// The report: test tasks side by side, and buttons that copy a command.

const state = { scale: 0, tokens: true };
const goToTurn = () => {}; // the strip of each agent leads to its own messages, below

// ---- dialogues

function agentView(view, name, chosen, views) {
  const chat = el("div", { class: "chat" }, view.messages.map((message) => messageView(message, view, { side: true })));
  const strip = creditStrip(view.messages, views.map((v) => v.messages)), turns = [...chat.querySelectorAll(".m-agent")];
  if (strip) strip.querySelectorAll("button").forEach((bar, turn) => bar.addEventListener("click", () => { turns[turn].scrollIntoView({ block: "center" }); turns[turn].focus({ preventScroll: true }); }));
  if (view.failure) chat.append(el("div", { class: "failure", role: "note" }, "The dialogue failed: ", plainText(String(view.failure.kind || "unknown"))));
  if (view.ending === "turn_limit" && !view.answer) chat.append(el("p", { class: "end-note" }, "The turns were over before there was an answer."));
  const folds = [[testsSection(view), "Unit tests"], [answerSection(view), "Answer beside the reference solution"]].filter(([part]) => part);
  for (const [part] of folds) part.removeAttribute("id"); // each agent has one
  return el("section", { class: `agent ${chosen ? "chosen" : ""}`, "aria-label": name },
    el("h3", {}, plainText(name)), outcomeLine(view), strip, chat, folds.map(([part, label]) => fold(label, () => part)));
}

function drawTask(data, number, agent) {
  const views = data.tasks[number], task = views[0].task;
  const picks = el("div", { class: "picks" }, data.groups.filter((group) => group.shown.length).map((group) => el("div", { class: "pick-group" },
    el("span", {}, plainText(group.label), ` (${count(group.tasks)})`),
    el("div", {}, group.shown.map((place) => button(`Task ${place + 1}`, () => drawTask(data, place, agent), { "aria-pressed": String(place === number) }))))));
  const agents = el("div", { class: "agents", role: "group", "aria-label": "Agent" }, data.names.map((name, place) =>
    button(plainText(name), () => drawTask(data, number, place), { "aria-pressed": String(place === agent) })));
  hideTip();
  clear(byId("tasks"), el("p", { class: "quiet" }, `${data.how} `, plainText(data.credit)), picks,
    el("div", { class: "task-box" }, el("h3", { class: "entry-title", dir: "auto" }, plainText(task.title)), hiddenRules(task), agents,
      el("div", { class: "sides", style: { "--sides": views.length } }, views.map((view, place) => agentView(view, data.names[place], place === agent, views)))));
  document.documentElement.dataset.shown = String(number);
}
const hiddenRules = (task) => (task.hidden ? el("p", { class: "quiet" }, `Hidden rules, which the human tells when asked: ${task.hidden.join(", ")}.`) : null);

async function showDialogues() {
  const data = await unpack("side-by-side");
  const sizes = data.tasks.flat().flatMap((view) => view.messages).filter((message) => message.credit).map((message) => Math.abs(message.credit.advantage)).sort((a, b) => a - b);
  state.scale = sizes.length ? Math.max(0.02, sizes[Math.floor(0.95 * (sizes.length - 1))]) : 0;
  drawTask(data, 0, data.names.length - 1);
}

// ---- commands

function copy(event) {
  const source = event.currentTarget, label = source.textContent;
  const done = (words) => { source.textContent = words; announce(words); setTimeout(() => { source.textContent = label; }, 1500); };
  (navigator.clipboard ? navigator.clipboard.writeText(source.dataset.text) : Promise.reject()).then(() => done("Copied"), () => done("Select it by hand"));
}
for (const source of document.querySelectorAll(".copy")) source.addEventListener("click", copy);

addEventListener("scroll", hideTip, { passive: true });
if (byId("side-by-side")) showDialogues();
else document.documentElement.dataset.shown = "page";
