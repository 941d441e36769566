// One message of a dialogue.

const SPEAKERS = { user: "Human", assistant: "Agent", system: "System", hint: "Reference solution, shown to the critic", text: "Text" };
const LONG_OPENING = 1400;

function messageView(message, view, options = {}) {
  const agent = message.turn !== undefined, credit = message.credit;
  const name = SPEAKERS[message.role] || message.role;
  const label = `${name}${agent ? `, turn ${message.turn + 1}` : ""}${credit ? `, ${creditName(credit).toLowerCase()} ${signed(credit.advantage)}` : ""}${message.oracle ? `, ${message.oracle}` : ""}`;
  const head = el("header", { class: "said-by" }, el("span", { class: "who" }, name), agent ? el("span", { class: "turn-number" }, String(message.turn + 1)) : null,
    advantageMark(credit), message.oracle ? oracleChip(message.oracle) : null, message.finish === "length" ? el("span", { class: "cut", title: "The token limit ended this message" }, "cut by the token limit") : null);
  const body = el("div", { class: "bubble" });
  const draw = () => clear(body, options.body ? options.body(message) : credit && credit.tokens && state.tokens ? tokenText(credit) : messageBody(message, view));
  draw();
  const article = el("article", { class: `message m-${message.role} ${agent ? "m-agent" : ""} ${credit ? "credited" : ""}`, id: agent && !options.side ? `turn-${message.turn}` : null, tabindex: "-1", "aria-label": label, style: credit ? tint(credit.advantage, state.scale) : {} }, head, body);
  const more = [];
  if (message.candidates) more.push(fold(`${plural(message.candidates.length, "candidate")}`, () => candidateList(message.candidates, message.text), view.kind === "candidates", "fold-candidates"));
  const prompt = promptOf(message, view);
  if (prompt !== null && !options.side) more.push(fold("Exact prompt", () => el("pre", { class: "code exact", tabindex: "0" }, longText(prompt, (text) => el("code", {}, plainText(text)))), false, "fold-prompt"));
  if (more.length) article.append(el("footer", { class: "message-more" }, more));
  return article;
}

function messageBody(message, view) {
  if (message.role === "hint" || (message.role !== "assistant" && message.text.length > LONG_OPENING && view.messages && view.messages[0] === message)) {
    return [fold(message.role === "hint" ? "Show" : "Instructions", () => blocks(message.text), false, "fold-opening"), message.role === "hint" ? null : el("p", { class: "quiet prose", dir: "auto" }, message.text.slice(0, 240) + "…")];
  }
  if (!message.text.trim()) return [el("p", { class: "quiet" }, message.text ? "(only spaces)" : "(nothing)")];
  return message.picture ? pageMessage(message) : message.role === "assistant" || view.kind !== "dialogue" ? blocks(message.text) : fenced(message.text);
}

const promptOf = (message, view) => (message.prompt === undefined ? null : typeof message.prompt === "string" ? message.prompt : view.prompt.slice(0, message.prompt));

// Content that is made when it is first opened.
function fold(label, make, open, name) {
  const details = el("details", { class: `fold ${name || ""}`, open }, el("summary", {}, label));
  let made = false;
  const fill = () => { if (details.open && !made) { made = true; details.append(el("div", { class: "fold-body" }, make())); } };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}
