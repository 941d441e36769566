// Colours for Python and HTML: a tokenizer for each, which keeps every character of the text.

const PYTHON = /(?<comment>#[^\n]*)|(?<string>[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(?<number>\b(?:0[xob][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:e[+-]?\d+)?)j?\b)|(?<decorator>@[\w.]+)|(?<word>[\p{L}_][\p{L}\p{N}_]*)/gu;
const PYTHON_KEYWORDS = new Set("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield".split(" "));
const PYTHON_CONSTANTS = new Set(["True", "False", "None", "self", "cls"]);
const PYTHON_BUILTINS = new Set("abs all any bool bytes chr dict divmod enumerate filter float format frozenset getattr hasattr hash int isinstance issubclass iter len list map max min next object open ord pow print range repr reversed round set setattr sorted str sum super tuple type zip ValueError TypeError KeyError IndexError Exception ZeroDivisionError".split(" "));
const MARKUP = /(?<comment><!--[^]*?(?:-->|$))|(?<tag><\/?[a-zA-Z][^\s<>\/]*)|(?<string>=\s*(?:"[^"]*"?|'[^']*'?))|(?<entity>&[\w#]+;)|(?<close>\/?>)/gu;

function pythonTokens(text) {
  const tokens = [];
  let place = 0, previous = "";
  for (const match of text.matchAll(PYTHON)) {
    if (match.index > place) tokens.push(["", text.slice(place, match.index)]);
    const groups = match.groups;
    let kind = "";
    if (groups.word !== undefined) {
      const follows = text[match.index + match[0].length];
      if (PYTHON_KEYWORDS.has(match[0])) kind = "keyword";
      else if (PYTHON_CONSTANTS.has(match[0])) kind = "constant";
      else if (previous === "def" || previous === "class") kind = "defined";
      else if (PYTHON_BUILTINS.has(match[0]) && text[match.index - 1] !== ".") kind = "builtin";
      else if (follows === "(") kind = "call";
      previous = match[0];
    } else {
      kind = Object.keys(groups).find((name) => groups[name] !== undefined);
      previous = "";
    }
    tokens.push([kind, match[0]]);
    place = match.index + match[0].length;
  }
  tokens.push(["", text.slice(place)]);
  return tokens;
}

function markupTokens(text) {
  const tokens = [];
  let place = 0, inside = false;
  const rest = (end) => {
    const gap = text.slice(place, end);
    if (!gap) return;
    if (!inside) tokens.push(["", gap]);
    else for (const piece of gap.split(/([^\s=]+)/)) if (piece) tokens.push([/\S/.test(piece) ? "attribute" : "", piece]);
  };
  for (const match of text.matchAll(MARKUP)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if ((kind === "string" || kind === "close") && !inside) continue;
    rest(match.index);
    if (kind === "tag") inside = true;
    if (kind === "close") inside = false;
    tokens.push([kind === "tag" || kind === "close" ? "keyword" : kind === "entity" ? "constant" : kind, match[0]]);
    place = match.index + match[0].length;
  }
  rest(text.length);
  return tokens;
}

const looksLikeMarkup = (text) => /^\s*(?:<!doctype|<html|<!--|<[a-z][\w-]*[\s>])/i.test(text);
const tokensOf = (text, language) => (language === "html" ? markupTokens(text) : language === "python" ? pythonTokens(text) : [["", text]]);

function codeNodes(text, language) {
  return tokensOf(text, language).map(([kind, piece]) => (kind ? el("span", { class: `c-${kind}` }, plainText(piece)) : plainText(piece)));
}
function codeBlock(text, language) {
  const draw = (part) => el("code", {}, codeNodes(part, language));
  return el("pre", { class: "code", tabindex: "0", "aria-label": language ? `${language} code` : "code" }, longText(text, draw));
}

// A message as people read it: prose, fenced code, and the code after the answer's marker.
const FENCE = /^[ \t]*(```+|~~~+)([^\n`]*)\n([^]*?)(?:(?:^|\r?\n)[ \t]*\1[`~]*[ \t]*$|(?![^]))/gm; // closed by as long a fence, or by the end
const MARKER = "I WANT TO ANSWER:";
function prose(text) {
  return longText(text, (part) => el("p", { class: "prose", dir: "auto" }, plainText(part)));
}
function blocks(text) {
  const marker = text.indexOf(MARKER);
  if (marker < 0) return fenced(text);
  const before = text.slice(0, marker).trimEnd(), after = text.slice(marker + MARKER.length).replace(/^[ \t]*\n/, "");
  const label = el("p", { class: "marker" }, MARKER);
  return [...(before ? fenced(before) : []), label, ...(after.trim() ? fenced(after.replace(/^ +(?=\S)/, "")) : [])];
}
function fenced(text) {
  const nodes = [];
  let place = 0;
  for (const match of text.matchAll(FENCE)) {
    plainOrCode(text.slice(place, match.index), nodes);
    const named = match[2].trim().toLowerCase();
    const language = /^(html|xml|svg)/.test(named) || looksLikeMarkup(match[3]) ? "html" : "python";
    nodes.push(codeBlock(match[3], language));
    place = match.index + match[0].length;
  }
  plainOrCode(text.slice(place), nodes);
  return nodes;
}
function plainOrCode(text, nodes) {
  const trimmed = text.replace(/^\n+/, "").trimEnd();
  if (!trimmed) return;
  if (/^\s*(?:<!doctype|<html)/i.test(trimmed)) nodes.push(codeBlock(trimmed, "html"));
  else if (/^(?:(?:from|import) \w|(?:async )?def \w+\(|class \w+[(:]|@\w+\n)/.test(trimmed)) nodes.push(codeBlock(trimmed, "python"));
  else nodes.push(...prose(trimmed));
}
