"""Which scripts of a page may run (its Content-Security-Policy), and the scripts that make pictures repeatable.

Without JavaScript no script of a page runs, with one exception: a page that loads Tailwind's play script
(cdn.tailwindcss.com) gets that script, and of its own scripts only a `tailwind.config = {...}` of plain values,
recognised by grammar and allowed by checksum. Neither can be made to run other code.
"""

import base64
import hashlib
import json
import re

_PASSIVE = (
    "default-src 'none'; img-src http: https: data: blob:; style-src http: https: data: 'unsafe-inline'; "
    "font-src data:; media-src 'none'; frame-src 'none'; object-src 'none'; connect-src 'none'; "
    "worker-src 'none'; form-action 'none'; webrtc 'block'"
)
_PLAY_SCRIPT = "cdn.tailwindcss.com"
_BEFORE_PLAY_SCRIPT = re.compile(r"<script\s(?:[^>]*\s)?src\s*=\s*[\"']?\s*(?:https?:)?//")
_TAG_LENGTH = 300  # longest distance of an address from the start of its script tag, in characters
# Only values: no call, no operator, no template, no name except as a key.
_CONFIG_START = re.compile(r"\s*(?:window\.)?tailwind\.config\s*=")
_CONFIG_TOKEN = re.compile(
    r"""\s+ | [{}\[\],:;] | //[^\n<]*\n | /\*(?:[^*<]|\*(?!/))*\*/ | "[^"\\\n<]*" | '[^'\\\n<]*'
      | -?[0-9]+(?:\.[0-9]+)? | [A-Za-z_$][\w$]*(?=\s*:) | (?:true|false|null)(?![\w$])""",
    re.VERBOSE,
)

# Runs before the scripts of a page. Time: a fixed clock, 60 frames per second of virtual time, observers that look once
# in each of these frames, and no other clock. Chance: fixed random numbers. Machine: constants in `navigator`.
STEADY = """(() => {
  let state = 42;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const start = Date.now(), later = setTimeout, never = clearTimeout, every = setInterval, stop = clearInterval;
  const now = () => Date.now() - start;
  Math.random = random;
  Crypto.prototype.getRandomValues = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = random() * 256;
    return array;
  };
  window.requestAnimationFrame = (callback) => later(() => callback(now()), 16);
  window.cancelAnimationFrame = (number) => never(number);
  window.requestIdleCallback = (callback) => later(() => callback({didTimeout: false, timeRemaining: () => 10}), 16);
  window.cancelIdleCallback = (number) => never(number);

  const define = (owner, name, get) => Object.defineProperty(owner, name, {get, configurable: true});
  for (const [name, {value}] of Object.entries(Object.getOwnPropertyDescriptors(Performance.prototype))) {
    if (typeof value === "function") Performance.prototype[name] = name === "now" ? now : () => [];
    else delete Performance.prototype[name];
  }
  define(Performance.prototype, "timeOrigin", () => start);
  define(Event.prototype, "timeStamp", now);
  define(AnimationTimeline.prototype, "currentTime", now);
  for (const name of ["id", "key"]) define(NavigationHistoryEntry.prototype, name, () => "");
  window.PerformanceObserver = class { observe() {} disconnect() {} takeRecords() { return []; } };
  window.WeakRef = class { constructor(target) { this.deref = () => target; } };
  window.FinalizationRegistry = class { register() {} unregister() {} };
  const same = ["userAgent", "appName", "appCodeName", "appVersion", "product", "productSub", "vendor", "vendorSub",
    "language", "languages", "onLine", "cookieEnabled", "doNotTrack", "javaEnabled", "sendBeacon", "vibrate"];
  for (const name of Object.getOwnPropertyNames(Navigator.prototype)) {
    if (name !== "constructor" && !same.includes(name)) delete Navigator.prototype[name];
  }
  const machine = {hardwareConcurrency: 4, deviceMemory: 8, maxTouchPoints: 0, platform: "Linux x86_64"};
  for (const [name, value] of Object.entries(machine)) define(Navigator.prototype, name, () => value);

  // `look` returns a target's entry, and the text that has changed when the entry is to be reported.
  const observer = (look, unseen) => class {
    #callback; #options; #seen = new Map(); #timer;
    constructor(callback, options = {}) { this.#callback = callback; this.#options = options; }
    observe(target) {
      if (!this.#seen.has(target)) this.#seen.set(target, unseen);
      this.#timer ??= every(() => this.#report(), 16);
    }
    unobserve(target) { this.#seen.delete(target); }
    disconnect() { this.#seen.clear(); stop(this.#timer); this.#timer = undefined; }
    takeRecords() { return []; }
    #report() {
      const entries = [];
      for (const [target, before] of this.#seen) {
        const [entry, state] = look(target, this.#options);
        this.#seen.set(target, state);
        if (state !== before) entries.push({target, time: now(), ...entry});
      }
      if (entries.length) this.#callback.call(this, entries, this);
    }
  };
  const clip = (box, by, margins = [0, 0, 0, 0]) => {
    const [top, right, bottom, left] = margins;
    const x = Math.max(box.left, by.left - left), y = Math.max(box.top, by.top - top);
    return new DOMRect(x, y, Math.min(box.right, by.right + right) - x, Math.min(box.bottom, by.bottom + bottom) - y);
  };
  window.IntersectionObserver = observer((target, {root, rootMargin = "0px", threshold = 0}) => {
    const box = target.getBoundingClientRect();
    const rootBounds = root?.getBoundingClientRect?.() ?? new DOMRect(0, 0, innerWidth, innerHeight);
    const sizes = rootMargin.trim().split(/\\s+/).map((size, i) =>
      parseFloat(size) * (size.endsWith("%") ? (i % 2 ? rootBounds.width : rootBounds.height) / 100 : 1));
    const [top, right = top, bottom = top, left = right] = sizes;
    let seen = clip(box, rootBounds, [top, right, bottom, left]);
    for (let above = target.parentElement; above && above !== root; above = above.parentElement) {
      if (above === document.body || above === document.documentElement) break;  // they do not clip
      if (getComputedStyle(above).overflow !== "visible") seen = clip(seen, above.getBoundingClientRect());
    }
    const touches = box.width + box.height > 0 && seen.width >= 0 && seen.height >= 0, area = box.width * box.height;
    const ratio = touches ? (area ? seen.width * seen.height / area : 1) : 0;
    const passed = touches ? [threshold].flat().filter((value) => ratio >= value).length : 0;
    const intersectionRect = touches ? seen : new DOMRect();
    const entry = {boundingClientRect: box, rootBounds, intersectionRect, intersectionRatio: ratio};
    return [{...entry, isIntersecting: passed > 0}, `${passed}`];
  });
  window.ResizeObserver = observer((target) => {
    const style = getComputedStyle(target), size = (name) => parseFloat(style[name]) || 0;
    const wide = size("paddingLeft") + size("paddingRight"), high = size("paddingTop") + size("paddingBottom");
    const width = target.clientWidth - wide, height = target.clientHeight - high;
    const box = (width, height) => [{inlineSize: width, blockSize: height}];
    const entry = {contentRect: new DOMRect(size("paddingLeft"), size("paddingTop"), width, height)};
    const sizes = {contentBoxSize: box(width, height), borderBoxSize: box(target.offsetWidth, target.offsetHeight)};
    return [{...entry, ...sizes}, `${width} ${height}`];
  }, "0 0");
})()"""

# Properties by which a style may depend on what was on the screen and when, with the values by which it does not.
STILL = {
    "content-visibility": ["visible", "hidden"],
    "animation-timeline": ["auto", "none"],
    "animation-trigger": ["none"],
}

# Runs before the picture, in a world that a page's scripts cannot reach. Fonts are waited for, nothing has the focus (a
# caret blinks), the properties of STILL have their values, animations are set to their end, those without an end to
# their start. The result is false if a font, or what is in a <details>, is still drawn or not by the moment.
SETTLE = """(async () => {
  document.activeElement?.blur();
  const settle = () => {
    for (let round = 0, moves = true; moves && round < 10; round++) {
      moves = false;
      for (const element of document.querySelectorAll("*")) {
        const style = getComputedStyle(element);
        for (const [name, values] of Object.entries(STILL)) {
          if ([...values, ""].includes(style.getPropertyValue(name))) continue;
          element.style?.setProperty(name, values[0], "important");  // above all rules, also those of layers
          moves = true;
        }
      }
      for (const animation of document.getAnimations({subtree: true})) {
        if (animation.playState === "finished") continue;
        if (animation.effect && animation.effect.getComputedTiming().endTime !== Infinity) animation.finish();
        else animation.cancel();
        moves = true;
      }
    }
  };
  const hasty = () => [...document.fonts].filter(({display}) => /optional|fallback/.test(display));
  if (hasty().length) {  // drawn only if it came within 0.1 s, unless this is changed before it comes: it comes again
    settle();  // a font that comes does not reach what is not on the screen
    const sheets = [...document.styleSheets, ...document.adoptedStyleSheets].filter(({disabled}) => !disabled);
    for (const sheet of sheets) sheet.disabled = true;
    document.documentElement.getBoundingClientRect();
    for (const sheet of sheets) sheet.disabled = false;
    for (const face of hasty()) face.display = "block";
  }
  await Promise.allSettled([...document.fonts].map((face) => face.load()));
  for (const text of document.querySelectorAll("marquee")) {  // not yet run in, whatever is in it
    const set = (name, value) => text.style.setProperty(name, value, "important");
    set("opacity", "0");
    set("contain", "paint");
    if (["inline", "contents"].includes(getComputedStyle(text).display)) set("display", "inline-block");
  }
  settle();
  for (const drawing of document.querySelectorAll("svg")) {
    drawing.pauseAnimations();
    drawing.setCurrentTime(0);
  }
  for (const bar of document.querySelectorAll("progress:indeterminate")) bar.value = 0;
  const seen = STILL["content-visibility"];
  const unseen = [...document.querySelectorAll("details")].filter(
    (one) => ![...seen, ""].includes(getComputedStyle(one, "::details-content").contentVisibility ?? ""));
  return !hasty().length && !unseen.length;
})()""".replace("STILL", json.dumps(STILL))


def uses_play_script(page: str) -> bool:
    """Whether the page loads Tailwind's play script."""
    text, place = page.lower(), -1
    while (place := text.find(_PLAY_SCRIPT, place + 1)) >= 0:
        tag = text.rfind("<script", max(place - _TAG_LENGTH, 0), place)
        if tag >= 0 and _BEFORE_PLAY_SCRIPT.fullmatch(text, tag, place):
            return True
    return False


def policy(page: str, javascript: bool) -> str:
    """The Content-Security-Policy of a page: pictures, styles, and the scripts that the module describes."""
    if javascript:
        return f"{_PASSIVE}; script-src http: https: data: blob: 'unsafe-inline' 'unsafe-eval'; sandbox allow-scripts"
    if uses_play_script(page):
        allowed = ["http://cdn.tailwindcss.com", "https://cdn.tailwindcss.com", *map(_checksum, plain_configs(page))]
        return f"{_PASSIVE}; script-src {' '.join(allowed)}; sandbox allow-scripts"
    return f"{_PASSIVE}; script-src 'none'; sandbox"


def plain_configs(page: str) -> list[str]:
    """The inline scripts of the page that only set `tailwind.config` to plain values."""
    page = page.replace("\r\n", "\n").replace("\r", "\n")  # as the browser reads it
    lower, found, place = page.lower(), [], 0
    while len(lower) == len(page) and (tag := lower.find("<script", place)) >= 0:
        start = lower.find(">", tag) + 1
        end = lower.find("</script", start)
        if start == 0 or end < 0:
            break
        if _is_plain_config(page[start:end]):
            found.append(page[start:end])
        place = end
    return found


def _is_plain_config(text: str) -> bool:
    found = _CONFIG_START.match(text)
    while found and found.end() < len(text):
        found = _CONFIG_TOKEN.match(text, found.end())
    return found is not None


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8', 'replace')).digest()).decode()}'"
