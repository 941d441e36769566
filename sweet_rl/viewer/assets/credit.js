// Credit: a turn's advantage as a colour, a length and a number; each token's log-ratio; the candidates in their order.

const ORACLE = { useful: "✓ useful", complete: "✓ complete", repeated: "↻ repeated", useless: "✗ useless", early: "✗ early" };
const oracleChip = (word) => el("span", { class: `oracle ${Object.hasOwn(ORACLE, word) ? `o-${word}` : ""}`, title: Object.hasOwn(WORDS, word) ? `By the hidden rules, this turn ${WORDS[word]}` : "" }, Object.hasOwn(ORACLE, word) ? ORACLE[word] : plainText(word.slice(0, 80)));

// The share of full colour that a value has on a scale: its square root, so that small values are still told apart.
const strength = (value, scale) => Math.sqrt(clamp(Math.abs(value) / (scale || 1), 0, 1));
const tint = (value, scale) => ({ "--credit": value < 0 ? "var(--minus)" : "var(--plus)", "--strength": `${Math.round(100 * strength(value, scale))}%` });

function advantageBar(value) {
  const width = 50 * clamp(Math.abs(value) / (state.scale || 1), 0.02, 1);
  return el("span", { class: "bar-zero", "aria-hidden": "true" }, el("i", { class: value < 0 ? "minus" : "plus", style: { width: `${width}%`, [value < 0 ? "right" : "left"]: "50%" } }));
}
// An advantage is made of tokens' log-ratios; the score of any other critic is only called a score.
const creditName = (credit) => (credit.tokens ? "Advantage" : "Score");
function advantageMark(credit) {
  if (!credit) return null;
  const what = credit.of === "candidate" ? ": that of the candidate that says the same" : credit.tokens ? ": mean log-ratio of its tokens, critic over reference" : " by the critic";
  return el("span", { class: "advantage", title: `${creditName(credit)} ${signed(credit.advantage, 3)}${what}` }, advantageBar(credit.advantage), el("b", {}, signed(credit.advantage)));
}

// The turns of a dialogue as bars around zero; a click goes to the turn. Dialogues beside each other have one scale.
function creditStrip(messages, beside = [messages]) {
  const agent = messages.filter((message) => message.turn !== undefined);
  if (!agent.some((message) => message.credit)) return null;
  const name = creditName(agent.find((message) => message.credit).credit);
  const scale = Math.max(0.05, ...beside.flat().map((message) => Math.abs(message.credit ? message.credit.advantage : 0)));
  return el("div", { class: "strip-box" }, el("h3", { class: "strip-title" }, `${name} by turn`),
    el("div", { class: "strip", role: "group", "aria-label": `${name} by turn` }, agent.map((message) => {
      const value = message.credit ? message.credit.advantage : null;
      const height = value === null ? 0 : 46 * clamp(Math.abs(value) / scale, 0.03, 1);
      return button([el("span", { class: "strip-bar", "aria-hidden": "true" }, value === null ? null : el("i", { class: value < 0 ? "minus" : "plus", style: { height: `${height}%`, [value < 0 ? "top" : "bottom"]: "50%" } })),
        el("span", { class: "strip-value" }, value === null ? "–" : signed(value)), el("span", { class: "strip-turn" }, String(message.turn + 1))],
      () => goToTurn(message.turn), { class: "strip-turn-button", "aria-label": `Turn ${message.turn + 1}, ${name.toLowerCase()} ${value === null ? "not known" : signed(value)}${message.oracle ? ", " + message.oracle : ""}`, "data-oracle": message.oracle });
    })));
}

const visibleToken = (text) => text.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥");
const ratioOf = (credit, i) => (credit.reference ? credit.critic[i] - credit.reference[i] : null);

// A turn as its tokens, each tinted by its log-ratio; hover or arrow keys tell the figures.
function tokenText(credit) {
  const ratios = credit.tokens.map((_, i) => ratioOf(credit, i));
  const known = ratios.filter((r) => r !== null).map(Math.abs).sort((a, b) => a - b);
  const scale = Math.max(0.5, known[Math.floor(known.length * 0.95)] || 0);
  const spans = credit.tokens.slice(0, 4000).map((text, i) => {
    const span = el("span", { class: "token", "data-i": i, style: ratios[i] === null ? {} : tint(ratios[i], scale) }, text ? plainText(text) : "∅");
    if (/^\n+$/.test(text)) span.classList.add("break");
    if (/^<\|?[^\s<>]+>$/.test(text)) span.classList.add("special");
    return span;
  });
  const code = credit.tokens.join("").includes(MARKER);
  const box = el("div", { class: `tokens prose ${code ? "mono" : ""}`, tabindex: "0", role: "group", "aria-label": `${plural(spans.length, "token")}; left and right arrows tell each one's log-ratio` }, spans);
  if (credit.tokens.length > 4000) box.append(el("span", { class: "quiet" }, ` … ${count(credit.tokens.length - 4000)} tokens more`));
  let at = -1;
  const show = (i) => {
    if (at >= 0 && spans[at]) spans[at].classList.remove("at");
    at = i;
    spans[i].classList.add("at");
    showTip(spans[i], tokenTip(credit, i));
  };
  box.addEventListener("pointerover", (event) => { const token = event.target.closest(".token"); if (token) show(Number(token.dataset.i)); });
  box.addEventListener("pointerleave", () => { hideTip(); if (spans[at]) spans[at].classList.remove("at"); });
  box.addEventListener("blur", () => { hideTip(); if (spans[at]) spans[at].classList.remove("at"); });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(clamp(at + step, 0, spans.length - 1));
    announce(byId("tip").textContent);
  });
  return box;
}
function tokenTip(credit, i) {
  const ratio = ratioOf(credit, i);
  return [el("code", {}, visibleToken(credit.tokens[i]) || "∅"), ratio === null ? null : el("b", { class: ratio < 0 ? "minus" : "plus" }, signed(ratio, 3)),
    el("span", {}, `log π critic ${signed(credit.critic[i], 3)}`), credit.reference ? el("span", {}, `log π reference ${signed(credit.reference[i], 3)}`) : el("span", {}, "the reference's tokens are not known")];
}
function showTip(anchor, content) {
  const tip = clear(byId("tip"), content);
  tip.hidden = false;
  const box = anchor.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const above = box.top - own.height - 8;
  tip.style.setProperty("left", `${clamp(box.left + box.width / 2 - own.width / 2, 8, innerWidth - own.width - 8)}px`);
  tip.style.setProperty("top", `${above > 8 ? above : box.bottom + 8}px`);
}
const hideTip = () => { byId("tip").hidden = true; };

// A turn's candidates, best first, each with its half of the ranking and the number of pairs it is in.
function candidateList(candidates, said) {
  const drawn = candidates.some((candidate) => candidate.chosen !== undefined), ranked = candidates.some((candidate) => candidate.half);
  const halves = { chosen: drawn ? "Top half" : "Top half: what is chosen is drawn from here", middle: "Middle: never drawn", rejected: drawn ? "Bottom half" : "Bottom half: what is rejected is drawn from here" };
  const items = [];
  let half = null;
  candidates.forEach((candidate, rank) => {
    if (candidate.half && candidate.half !== half) {
      half = candidate.half;
      items.push(el("li", { class: `half h-${half}`, role: "presentation" }, halves[half]));
    }
    const role = drawn ? [candidate.chosen ? el("span", { class: "drawn d-chosen" }, `▲ chosen${candidate.chosen > 1 ? " ×" + candidate.chosen : ""}`) : null, candidate.rejected ? el("span", { class: "drawn d-rejected" }, `▼ rejected${candidate.rejected > 1 ? " ×" + candidate.rejected : ""}`) : null] : null;
    const same = candidate.text === said ? el("span", { class: "as-said" }, "as said") : null;
    const cut = candidate.finish === "length" ? el("span", { class: "cut" }, "cut") : null;
    const text = candidate.credit && candidate.credit.tokens && state.tokens ? tokenText(candidate.credit) : el("div", { class: "candidate-text" }, candidate.picture ? pageMessage({ ...candidate, turn: null }) : blocks(candidate.text));
    items.push(el("li", { class: `candidate ${ranked ? "c-" + candidate.half : ""}`, style: candidate.score === undefined ? {} : tint(candidate.score, state.scale) },
      el("div", { class: "candidate-head" }, el("span", { class: "rank" }, ranked ? `${rank + 1}` : `#${candidate.number}`), candidate.score === undefined ? null : [advantageBar(candidate.score), el("b", { class: "number" }, signed(candidate.score))], role, same, cut), text));
  });
  return el("ol", { class: "candidates" }, items);
}
