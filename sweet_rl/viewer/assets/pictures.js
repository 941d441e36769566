// Design dialogues: every turn's page and the reference page as pictures, beside and over each other, and their difference.

const MODES = [["side", "Side by side"], ["overlay", "Overlay"], ["difference", "Difference"]];

function pageMessage(message) {
  const place = message.text.indexOf(message.page);
  const words = (message.text.slice(0, place) + message.text.slice(place + message.page.length)).replace(/```\w*\n?/g, "").trim();
  const candidate = message.turn === null, label = candidate ? "This candidate's page" : `Page of turn ${message.turn + 1}`;
  return [words ? blocks(words) : null, thumbnail(message.picture, label, candidate ? null : () => pickTurn(message.turn)), fold("Page source", () => codeBlock(message.page, "html"))];
}

function thumbnail(picture, label, onclick) {
  if (!picture.name) return el("p", { class: "no-picture" }, `No picture: ${picture.failure || "the page was not drawn"}`);
  const image = el("img", { src: state.source.picture(picture.name), alt: label, width: picture.width, height: picture.height, loading: "lazy" });
  if (!onclick) return el("span", { class: "thumbnail" }, image);
  return button(image, onclick, { class: "thumbnail", "aria-label": `${label}: compare with the reference` });
}

function pictureStage(view) {
  const { reference, turns } = view.pictures;
  if (!turns.length) return el("p", { class: "end-note" }, "No turn holds a page.");
  if (!turns.some((turn) => turn.turn === state.turn)) state.turn = turns[turns.length - 1].turn;
  const box = el("section", { class: "stage", id: "stage", tabindex: "-1", "aria-label": "The page beside the reference" });
  const draw = () => {
    const turn = turns.find((t) => t.turn === state.turn) || turns[turns.length - 1];
    const modes = el("div", { class: "choices", role: "group", "aria-label": "How to compare" }, MODES.map(([mode, label]) => button(label, () => { state.mode = mode; draw(); saveAddress(); }, { class: "choice", "aria-pressed": String(state.mode === mode), "data-mode": mode })));
    const strip = el("div", { class: "film", role: "group", "aria-label": "Turns" }, turns.map((t) => button([
      t.name ? el("img", { src: state.source.picture(t.name), alt: "", loading: "lazy" }) : el("span", { class: "no-picture" }, "no picture"),
      el("span", { class: "film-turn" }, `Turn ${t.turn + 1}`), el("span", { class: "number" }, t.similarity === undefined ? "" : fixed(t.similarity, 3))],
    () => { state.turn = t.turn; draw(); saveAddress(); }, { class: "frame", "aria-pressed": String(t === turn), "aria-label": `Turn ${t.turn + 1}${t.similarity === undefined ? "" : `, similarity ${fixed(t.similarity, 3)}`}` })));
    const line = similarityLine(turns, turn);
    clear(box, el("div", { class: "stage-head" }, el("h3", {}, `Turn ${turn.turn + 1} and the reference`), modes), el("div", { class: "stage-strip" }, strip, line), comparison(reference, turn));
  };
  view.drawStage = draw;
  draw();
  return box;
}

function pickTurn(number) {
  state.turn = number;
  if (state.view && state.view.drawStage) state.view.drawStage();
  byId("stage").scrollIntoView({ block: "start" });
  byId("stage").focus({ preventScroll: true });
  saveAddress();
}

function comparison(reference, turn) {
  if (!turn.name || !reference.name) return el("div", { class: "side" }, figureOf(turn, `Turn ${turn.turn + 1}`), figureOf(reference, "Reference"));
  if (state.mode === "overlay") return overlay(reference, turn);
  if (state.mode === "difference") return pixelDifference(reference, turn);
  return el("div", { class: "side" }, figureOf(turn, `Turn ${turn.turn + 1}`), figureOf(reference, "Reference"));
}
const figureOf = (picture, caption) => el("figure", {}, el("figcaption", {}, caption), picture.name ? el("img", { src: state.source.picture(picture.name), alt: `${caption}, a page of ${picture.width} by ${picture.height} pixels`, width: picture.width, height: picture.height }) : el("p", { class: "no-picture" }, `No picture: ${picture.failure || "not drawn"}`));

function overlay(reference, turn) {
  const top = el("img", { src: state.source.picture(turn.name), alt: `Turn ${turn.turn + 1}`, class: "over" });
  const stack = el("div", { class: "stack" }, el("img", { src: state.source.picture(reference.name), alt: "Reference" }), top, el("i", { class: "edge", "aria-hidden": "true" }));
  const wipe = (value) => { stack.style.setProperty("--wipe", `${value}%`); };
  const slider = el("input", { type: "range", min: 0, max: 100, value: state.wipe, id: "wipe", "aria-label": "How much of the turn's page covers the reference, in percent", oninput: () => { state.wipe = Number(slider.value); wipe(state.wipe); } });
  wipe(state.wipe);
  return el("div", { class: "overlay" }, el("label", { class: "slider" }, el("span", {}, `Turn ${turn.turn + 1}`), slider, el("span", {}, "Reference")), stack);
}

// Each pixel's largest channel difference over a dark ghost of the reference; what one page has below the other's end counts as different.
function pixelDifference(reference, turn) {
  const canvas = el("canvas", { class: "difference", role: "img" }), words = el("p", { class: "quiet", role: "status", id: "pixel-words" }, "Comparing…");
  const load = (name) => new Promise((resolve, reject) => { const image = new Image(); image.onload = () => resolve(image); image.onerror = reject; image.src = state.source.picture(name); });
  Promise.all([load(turn.name), load(reference.name)]).then(([one, other]) => {
    const width = Math.max(one.naturalWidth, other.naturalWidth), height = Math.max(one.naturalHeight, other.naturalHeight);
    const pixels = (image) => {
      const sheet = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
      sheet.drawImage(image, 0, 0);
      return sheet.getImageData(0, 0, width, height).data;
    };
    const a = pixels(one), b = pixels(other);
    canvas.width = width; canvas.height = height;
    const sheet = canvas.getContext("2d"), result = sheet.createImageData(width, height), out = result.data;
    let different = 0;
    for (let i = 0; i < a.length; i += 4) {
      const d = a[i + 3] !== b[i + 3] ? 255 : Math.max(Math.abs(a[i] - b[i]), Math.abs(a[i + 1] - b[i + 1]), Math.abs(a[i + 2] - b[i + 2]));
      if (d > 8) different++;
      // over the reference's ghost, from red to pale yellow: brightness alone tells the amount
      const t = d / 255, ghost = d > 8 ? 0 : 22 + 0.2 * (0.2126 * b[i] + 0.7152 * b[i + 1] + 0.0722 * b[i + 2]);
      out[i] = ghost || 255 * Math.min(1, 0.35 + 1.3 * t); out[i + 1] = ghost || 255 * t ** 1.3; out[i + 2] = ghost || 140 * t; out[i + 3] = 255;
    }
    sheet.putImageData(result, 0, 0);
    const share = different / (width * height);
    words.textContent = share ? `${percent(share, share < 0.001 ? 3 : 1)} of the pixels differ.` : "No pixel differs.";
    canvas.setAttribute("aria-label", words.textContent);
  }).catch(() => { words.textContent = "The pictures could not be read."; });
  return el("div", { class: "pixel" }, words, canvas);
}

function similarityLine(turns, chosen) {
  const known = turns.filter((turn) => turn.similarity !== undefined);
  if (known.length < 2) return null;
  const width = 220, height = 64, low = Math.min(...known.map((t) => t.similarity)), high = Math.max(...known.map((t) => t.similarity)), span = high - low || 1;
  const x = (i) => 10 + (i / (known.length - 1)) * (width - 20), y = (t) => height - 12 - ((t.similarity - low) / span) * (height - 24);
  return el("div", { class: "similarity" }, el("span", { class: "quiet" }, "Similarity to the reference"),
    chart(width, height, "Similarity by turn: " + known.map((t) => `turn ${t.turn + 1} ${fixed(t.similarity, 3)}`).join(", "),
      svg("path", { d: known.map((t, i) => `${i ? "L" : "M"}${x(i)} ${y(t)}`).join(""), class: "path" }),
      known.map((t, i) => svg("g", { class: "pick", onclick: () => pickTurn(t.turn) }, svg("title", {}, `turn ${t.turn + 1}: ${fixed(t.similarity, 3)}`), svg("circle", { cx: x(i), cy: y(t), r: t === chosen ? 5.5 : 3.5, class: t === chosen ? "dot" : "point" })))),
    el("div", { class: "ends" }, el("span", {}, fixed(known[0].similarity, 3)), el("span", {}, fixed(known[known.length - 1].similarity, 3))));
}
