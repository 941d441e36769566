// Where entries come from: the blocks of this file, or the server that this page came from.

async function unpack(id) {
  const text = atob(byId(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// What the search looks through; the server looks through the same texts.
function textsOf(view) {
  if (view.kind === "comparison") return view.runs.flatMap((run) => textsOf({ ...run, kind: "dialogue" }));
  if (view.kind === "pair") return [view.id, ...view.chosen.map((m) => m.text), ...view.rejected.slice(view.shared).map((m) => m.text)];
  const texts = [view.id, view.task.description, ...view.messages.map((m) => m.text), view.answer || ""];
  for (const message of view.messages) for (const candidate of message.candidates || []) if (view.kind === "candidates") texts.push(candidate.text);
  return texts;
}
const wordsOf = (query) => [...query.matchAll(/"([^"]+)"|(\S+)/g)].map((m) => (m[1] || m[2]).toLowerCase());

class FileSource {
  constructor() { this.chunks = new Map(); this.texts = []; }

  async open(onRows) {
    const index = await unpack("index");
    this.starts = [0];
    for (const size of index.chunks) this.starts.push(this.starts[this.starts.length - 1] + size);
    onRows({ ...index, done: true });
  }

  async chunk(number) {
    if (!this.chunks.has(number)) {
      if (this.chunks.size > 12) this.chunks.delete(this.chunks.keys().next().value);
      this.chunks.set(number, unpack(`chunk-${number}`));
    }
    return this.chunks.get(number);
  }

  async entry(number) {
    let chunk = 0;
    while (this.starts[chunk + 1] <= number) chunk++;
    return (await this.chunk(chunk))[number - this.starts[chunk]];
  }

  async search(query) {
    const words = wordsOf(query);
    for (let chunk = 0; chunk + 1 < this.starts.length; chunk++) {
      const start = this.starts[chunk];
      if (this.texts.length > start) continue;
      const views = await unpack(`chunk-${chunk}`); // meanwhile another search may have read it
      views.forEach((view, i) => { this.texts[start + i] = textsOf(view).join("\n\0").toLowerCase(); });
    }
    const found = [];
    this.texts.forEach((text, number) => { if (words.every((word) => text.includes(word))) found.push(number); });
    return { found, upto: this.texts.length };
  }

  picture(name) {
    const block = byId(`picture-${name}`); // there is none for a page that could not be drawn
    return block ? `data:image/png;base64,${block.textContent}` : "data:,";
  }
}

class ServedSource {
  async ask(address) {
    const response = await fetch(address);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || `the server said ${response.status}`);
    return answer;
  }

  async open(onRows) {
    let from = 0;
    for (;;) {
      const part = await this.ask(`index?from=${from}`);
      from += part.rows.length;
      onRows(part);
      if (part.done) return;
      if (!part.rows.length) await new Promise((done) => setTimeout(done, 150));
    }
  }

  entry(number) { return this.ask(`entry/${number}`); }
  search(query) { return this.ask(`search?q=${encodeURIComponent(query)}`); }
  picture(name) { return `picture/${name}`; }
}
