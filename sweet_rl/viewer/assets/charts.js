// Small charts, drawn as SVG. Each has its figures in words for those who do not see it.

const chart = (width, height, label, ...children) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart", role: "img", "aria-label": label }, ...children);

// Bars of a histogram, the filtered part solid over the whole; a click picks the bar's range.
function histogram({ values, some, edges, label, unit, ends, onpick }) {
  const width = 142, height = 46, bins = edges.length - 1;
  const counted = (numbers) => {
    const bars = new Array(bins).fill(0);
    for (const value of numbers) {
      let bin = 0;
      while (bin < bins - 1 && value >= edges[bin + 1]) bin++;
      bars[bin]++;
    }
    return bars;
  };
  const all = counted(values), part = counted(some), most = Math.max(1, ...all), step = width / bins;
  const bars = all.map((n, i) => {
    const tall = n ? Math.max(2, (n / most) * height) : 0, solid = part[i] ? Math.max(2, (part[i] / most) * height) : 0;
    const single = i === bins - 1 && Math.max(...values) === edges[i];
    const range = single || (edges[i + 1] - edges[i] === 1 && Number.isInteger(edges[i]) && bins > 1) ? `${edges[i]}` : `${decimal(edges[i])} to ${decimal(edges[i + 1])}`;
    return svg("g", { class: onpick ? "pick" : "", onclick: onpick ? () => onpick(edges[i], edges[i + 1], i === bins - 1) : null },
      svg("title", {}, `${range} ${unit}: ${count(part[i])} of ${count(n)}`),
      svg("rect", { x: i * step, y: 0, width: step, height, class: "hit" }),
      svg("rect", { x: i * step + 0.75, y: height - tall, width: Math.max(1, step - 1.5), height: tall, rx: 1.5, class: "whole" }),
      svg("rect", { x: i * step + 0.75, y: height - solid, width: Math.max(1, step - 1.5), height: solid, rx: 1.5, class: "solid" }));
  });
  return el("div", {}, chart(width, height + 1, label, bars, svg("line", { x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5, class: "axis" })),
    el("div", { class: "ends" }, ends.map((end) => el("span", {}, end))));
}

function evenEdges(values, most) {
  const low = Math.min(...values), high = Math.max(...values);
  const whole = Number.isInteger(low) && Number.isInteger(high);
  const step = whole ? Math.ceil((high - low + 1) / most) : (high - low) / most || 1;
  const bins = whole ? Math.ceil((high - low + 1) / step) : most;
  return Array.from({ length: bins + 1 }, (_, i) => low + i * step);
}

// A share with its interval as a whisker on a line from 0 to 1.
function whisker(estimate) {
  const width = 142, at = (share) => 4 + share * (width - 8);
  return chart(width, 18, `${percent(estimate.mean)}, 95 % interval ${percent(estimate.low)} to ${percent(estimate.high)}`,
    svg("line", { x1: 4, x2: width - 4, y1: 9, y2: 9, class: "axis" }),
    svg("rect", { x: at(estimate.low), y: 5, width: Math.max(2, at(estimate.high) - at(estimate.low)), height: 8, rx: 4, class: "range" }),
    svg("circle", { cx: at(estimate.mean), cy: 9, r: 3.5, class: "dot" }));
}

// Means around zero with their quartiles: one bar a turn, or a word.
function aroundZero(rows, key, label, onpick) {
  const width = 142, height = 46, step = width / Math.max(rows.length, 4);
  const most = Math.max(1e-9, ...rows.flatMap((row) => [Math.abs(row.mean), Math.abs(row.low), Math.abs(row.high)]));
  const y = (value) => height / 2 - (clamp(value, -most, most) / most) * (height / 2 - 1);
  const bars = rows.map((row, i) => svg("g", { class: onpick ? "pick" : "", onclick: onpick ? () => onpick(row) : null },
    svg("title", {}, `${key === "turn" ? "turn " + (row.turn + 1) : row.word}: mean ${signed(row.mean)}, middle half ${signed(row.low)} to ${signed(row.high)}, of ${count(row.n)}`),
    svg("rect", { x: i * step, y: 0, width: step, height, class: "hit" }),
    svg("rect", { x: i * step + step * 0.18, y: Math.min(y(0), y(row.mean)), width: step * 0.64, height: Math.max(1.5, Math.abs(y(row.mean) - y(0))), rx: 1.5, class: row.mean < 0 ? "minus" : "plus" }),
    svg("line", { x1: (i + 0.5) * step, x2: (i + 0.5) * step, y1: y(row.low), y2: y(row.high), class: "quartiles" })));
  return chart(width, height + 1, label, svg("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2, class: "axis" }), bars);
}

// A dialogue's advantages in one row of the list.
function sparkline(advantages, scale) {
  const step = 6, height = 28, width = Math.max(10, advantages.length * step);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "spark", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2, class: "axis" }),
    advantages.map((value, i) => {
      if (value === null) return null;
      const tall = Math.max(1, (Math.min(Math.abs(value), scale) / scale) * (height / 2));
      return svg("rect", { x: i * step + 0.5, y: value < 0 ? height / 2 : height / 2 - tall, width: step - 1, height: tall, class: value < 0 ? "minus" : "plus" });
    }));
}

// A reward as a ring that fills; solved is a full disc with a tick, so that it is told by its form too.
function rewardMark(reward, ending) {
  const round = 2 * Math.PI * 7;
  if (ending === "failed") return svg("svg", { viewBox: "0 0 20 20", class: "reward broken", "aria-hidden": "true" }, svg("circle", { cx: 10, cy: 10, r: 7, class: "ring dashed" }), svg("path", { d: "M7 7l6 6M13 7l-6 6" }));
  if (reward === null || reward === undefined) return svg("svg", { viewBox: "0 0 20 20", class: "reward none", "aria-hidden": "true" }, svg("circle", { cx: 10, cy: 10, r: 7, class: "ring dashed" }));
  if (reward === 1) return svg("svg", { viewBox: "0 0 20 20", class: "reward solved", "aria-hidden": "true" }, svg("circle", { cx: 10, cy: 10, r: 8.5, class: "disc" }), svg("path", { d: "M6 10.3l2.8 2.8L14 7.6" }));
  return svg("svg", { viewBox: "0 0 20 20", class: "reward part", "aria-hidden": "true" }, svg("circle", { cx: 10, cy: 10, r: 7, class: "ring" }),
    svg("circle", { cx: 10, cy: 10, r: 7, class: "filled", "stroke-dasharray": `${clamp(reward, 0, 1) * round} ${round}`, transform: "rotate(-90 10 10)" }));
}
