// Making elements. Text from the data reaches the page here only, as text nodes and attribute values.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const clear = (node, ...children) => { node.replaceChildren(...children.flat(3).filter((c) => c)); return node; };
const button = (label, onclick, attributes) => el("button", { type: "button", onclick, ...attributes }, label);

const count = (number) => number.toLocaleString("en");
const plural = (number, word, words) => `${count(number)} ${number === 1 ? word : words || word + "s"}`;
// A number as Python writes it: 96.25 lies in the middle, and becomes 96.2, whose digit is even; toFixed makes it 96.3.
function fixed(value, digits) {
  const exact = value.toFixed(digits + 40), below = exact.slice(0, -40).replace(/\.$/, "");
  return exact.endsWith("5" + "0".repeat(39)) && /[02468]$/.test(below) ? below : value.toFixed(digits);
}
const signed = (value, digits = 2) => {
  const text = fixed(Math.abs(value), digits);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
};
const percent = (share, digits = 1) => `${fixed(100 * share, digits)} %`;
const decimal = (value) => (Number.isInteger(value) ? String(value) : fixed(value, 2).replace(/0$/, ""));
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const announce = (text) => { byId("said").textContent = text; };
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

// Long texts are shown from their beginning, the rest when asked for: a line of ten million characters is legal.
const SHOWN_AT_ONCE = 20000;
function longText(text, draw) {
  if (text.length <= SHOWN_AT_ONCE * 1.25) return [draw(text)];
  const holder = el("div", { class: "long" }, draw(text.slice(0, SHOWN_AT_ONCE)));
  let shown = SHOWN_AT_ONCE;
  const more = button("", () => {
    const next = Math.min(text.length, shown + 5 * SHOWN_AT_ONCE);
    more.before(el("span", { class: "plain" }, text.slice(shown, next)));
    shown = next;
    label();
  }, { class: "more" });
  const label = () => {
    if (shown >= text.length) more.remove();
    else more.textContent = `Show more: ${count(shown)} of ${count(text.length)} characters are shown`;
  };
  label();
  holder.append(more);
  return [holder];
}

// Characters that change how others are shown, or are not shown at all, get a visible stand-in beside the text.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\r(?!\n)|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "g");
const hexOf = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
function plainText(text) {
  if (!HIDDEN.test(text)) return [text];
  const pieces = [];
  let place = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (match.index > place) pieces.push(text.slice(place, match.index));
    pieces.push(el("span", { class: "unprintable", title: "a character that is not shown" }, hexOf(match[0])));
    place = match.index + 1;
  }
  pieces.push(text.slice(place));
  return pieces;
}
