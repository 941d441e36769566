"""Which scripts of a page may run (its Content-Security-Policy), and the scripts that make pictures repeatable.

Without JavaScript no script of a page runs, with one exception: a page that loads Tailwind's play script
(cdn.tailwindcss.com) gets that script, and of its own scripts only a `tailwind.config = {...}` of plain values,
recognised by grammar and allowed by checksum. Neither can be made to run other code.
"""

import base64
import hashlib
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

# Runs before the scripts of a page: fixed clock and random numbers, 60 frames per second of virtual time.
STEADY = """(() => {
  let state = 42;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const start = Date.now(), later = setTimeout, never = clearTimeout;
  Math.random = random;
  Crypto.prototype.getRandomValues = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = random() * 256;
    return array;
  };
  performance.now = () => Date.now() - start;
  window.requestAnimationFrame = (callback) => later(() => callback(performance.now()), 16);
  window.cancelAnimationFrame = (number) => never(number);
})()"""

# Runs before the picture, in a world that a page's scripts cannot reach: animations are set to their end, those without
# an end to their start.
SETTLE = """(() => {
  // Scrolling drives no animation: whether its timeline is active yet is a matter of the moment.
  const still = new CSSStyleSheet();
  still.replaceSync("*, *::before, *::after { animation-timeline: auto !important }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
  for (const animation of document.getAnimations({subtree: true})) {
    if (animation.effect && animation.effect.getComputedTiming().endTime !== Infinity) animation.finish();
    else animation.cancel();
  }
  for (const drawing of document.querySelectorAll("svg")) {
    drawing.pauseAnimations();
    drawing.setCurrentTime(0);
  }
  for (const bar of document.querySelectorAll("progress:indeterminate")) bar.value = 0;
  for (const text of document.querySelectorAll("marquee")) text.style.visibility = "hidden";  // not yet run in
})()"""


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
