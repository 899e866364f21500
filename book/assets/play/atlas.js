// The atlas of heads: every head of MiniLM and gpt2-mini on four sentences, from the record atlas-heads.
Play.viewer("atlas", async root => {
  "use strict";
  const { element, paint, weightColour } = Play;
  await Play.load("atlas-heads.js");
  const { values, arrays } = Play.models["atlas-heads"], start = JSON.parse(root.dataset.start);
  const GATES = values.gates.split(", "), BUILT = values.constructed.split(", "), SIDE = 64;
  const NAMES = { minilm: "MiniLM", "gpt2-mini": "gpt2-mini" };
  const LOOKS = [["weights", "weights"], ["moved", "weights times values"], ["gates", "gates"]];
  const models = Object.fromEntries(Object.keys(NAMES).map(name => {
    const get = key => Play.array(arrays[`${name}_${key}`]);
    const keys = ["weights", "gates", "lengths", "shares", "content", "entropy", "nearest", "distance", "effect"];
    const [, layers, heads, size] = arrays[`${name}_weights`].shape;
    return [name, { tokens: JSON.parse(values[`${name}_tokens`]), layers, heads, size, ...Object.fromEntries(keys.map(key => [key, get(key)])) }];
  }));
  const state = { ...start, query: 1, key: 0, look: "weights" };
  delete state.colours;
  for (const [key, text] of Object.entries(Play.recall("atlas"))) {
    if (!Object.hasOwn(state, key)) continue;
    if (key === "model" ? Object.hasOwn(models, text) : key === "look" ? LOOKS.some(look => look[0] === text) : /^\d{1,2}$/.test(text))
      state[key] = typeof state[key] === "number" ? Number(text) : text;
  }
  const now = () => models[state.model], tokens = () => now().tokens[state.sentence];
  function settle() {              // whatever a link or another model says, the state is one that exists
    const most = { layer: now().layers, head: now().heads, sentence: now().tokens.length };
    for (const [key, count] of Object.entries(most)) state[key] = Math.min(state[key], count - 1);
    for (const key of ["query", "key"]) state[key] = Math.min(state[key], tokens().length - 1);
  }
  settle();
  const at = (layer, head, i, j) => (((state.sentence * now().layers + layer) * now().heads + head) * now().size + i) * now().size + j;
  const weight = (layer, head, i, j) => (now().weights[at(layer, head, i, j)] / 255) ** 2;
  const length = (layer, head, j) => now().lengths[((state.sentence * now().layers + layer) * now().heads + head) * now().size + j];
  const seen = (i, j) => state.model === "minilm" || j <= i;
  function moved(layer, head, i) { // the row's shares of what the values, after W_O, carry to the query
    const row = tokens().map((_, j) => weight(layer, head, i, j) * length(layer, head, j)), sum = row.reduce((s, a) => s + a, 0);
    return row.map(a => a / sum);
  }
  root.numbers = { weight, moved, length };

  // ---- controls ----
  const modelChoice = Play.choice({ name: "Model", look: "play-buttons", value: state.model,
    options: Object.entries(NAMES).map(([value, name]) => ({ value, label: name, shown: [element("span", {}, `${name}: ${models[value].layers} layers of ${models[value].heads} heads`)] })),
    change: value => { state.model = value; settle(); build(); } });
  const sentence = element("select", { "aria-label": "Sentence", onchange: () => { state.sentence = Number(sentence.value); settle(); words(); show(); } });
  const lookChoice = Play.choice({ name: "Colours", look: "play-buttons", value: state.look,
    options: LOOKS.map(([value, label]) => ({ value, label })), change: value => { state.look = value; show(); } });
  const map = Play.map({ label: "Attention map: rows are queries, columns are keys; arrow keys move", side: SIDE, size: () => tokens().length,
    cell: () => [state.query, state.key], move: (i, j) => { if (i !== state.query || j !== state.key) { state.query = i; state.key = j; show(); } } });
  const sheet = element("div"), line = element("div", { class: "play-words" }), legend = element("p", { class: "play-legend" });
  const said = element("p", { class: "play-said", role: "status" }), facts = element("table", { class: "play-facts" }), title = element("p", { class: "play-head", role: "status" });
  const { link, set } = Play.permalink("atlas", root);
  const page = (name, text) => element("a", { href: name }, text);
  root.replaceChildren(element("div", { class: "play-bar-top" }, modelChoice.whole, sentence), sheet,
    element("div", { class: "play-two" }, element("div", {}, title, lookChoice.whole, map.whole, legend, said, line),
      element("div", {}, facts, element("p", { class: "play-effect" }, "More on gates in ", page("evidence/bert-gates.html", "their evidence"), ", on parts of scores in ",
        page("evidence/one-score-four-parts.html", "How much each part of a score explains"), ", on entropy in ", page("entropy.html", "the story on sharp heads")))), link);
  let spans = [], pick = null, heads = null;
  function build() {
    sentence.replaceChildren(...now().tokens.map((list, k) => element("option", { value: k }, list.filter(t => !/^\[|^$/.test(t)).join(" ").replaceAll(" ##", ""))));
    const { layers, heads: each } = now();
    heads = Play.sheet({ layers, heads: each, layer: state.layer, head: state.head, change: (layer, head) => { Object.assign(state, { layer, head }); show(); } });
    sheet.replaceChildren(heads.whole);
    words();
    show();
  }
  function words() {
    spans = tokens().map(token => element("span", { class: "play-word" }, token));
    pick = Play.choice({ name: "Query", look: "play-line", value: String(state.query), options: tokens().map((token, i) => ({ value: String(i), label: `${token}, position ${i}`, shown: [spans[i]] })),
      change: value => { state.query = Number(value); show(); } });
    line.replaceChildren(element("p", { class: "play-head" }, "The query (outlined), and what it attends to"), pick.whole);
  }

  // ---- drawing ----
  function colour(layer, head, look = state.look) {
    if (look === "gates") return (i, j) => { const g = now().gates[at(layer, head, i, j)]; return g ? start.colours[g - 1] : null; };
    const rows = look === "moved" ? tokens().map((_, i) => moved(layer, head, i)) : null;
    return (i, j) => (seen(i, j) ? weightColour(rows ? rows[i][j] : weight(layer, head, i, j)) : null);
  }
  function draw() {
    if (root.hidden) return;
    const n = tokens().length;
    heads.thumbs.forEach((canvas, k) => paint(canvas, { rows: n, columns: n, colour: colour(Math.floor(k / now().heads), k % now().heads) }));
    paint(map.canvas, { rows: n, columns: n, side: SIDE, labels: tokens(), mark: [state.query, state.key], colour: colour(state.layer, state.head) });
    if (state.look === "gates") {
      const first = at(0, 0, 0, 0), each = now().layers * now().heads * now().size ** 2;  // of all heads: the sheet shows them too
      const used = [...new Set(now().gates.slice(first, first + each))].filter(Boolean).sort();
      legend.replaceChildren(...used.map(g => element("span", { class: "play-key" }, element("span", { class: "chip", style: `background: ${start.colours[g - 1]}` }), GATES[g - 1])));
    } else {
      const bar = element("span", { class: "play-bar", "aria-hidden": "true", style: `background: linear-gradient(to right, ${Array.from({ length: 9 }, (_, k) => weightColour(k / 8)).join(",")})` });
      legend.replaceChildren(...[state.look === "moved" ? "share of what the values carry" : "attention weight", "0", bar, "1"].map(part => element("span", {}, part)));
    }
  }
  const percent = x => `${(100 * x).toFixed(0)}\u00a0%`;
  function tell() {
    const { layer, head, query: i, key: j } = state, k = layer * now().heads + head, m = now(), name = a => `\u201c${tokens()[a]}\u201d`;
    title.textContent = `${NAMES[state.model]}, layer ${layer}, head ${head}`;
    const gate = m.gates[at(layer, head, i, j)];
    said.replaceChildren(element("b", {}, `${name(i)} to ${name(j)}`), gate ? `: weight ${weight(layer, head, i, j).toFixed(3)}, ${moved(layer, head, i)[j].toFixed(3)} with the values\u2019 lengths; ${gate === GATES.length ? "left in the residual, no gate" : `gate: ${GATES[gate - 1]}`}.` : ": a later key, which the query does not see.");
    spans.forEach((span, key) => span.style.setProperty("--share", `${Math.round(70 * Math.sqrt(weight(layer, head, i, key)))}%`));
    pick.set(String(i));
    const shares = GATES.map((gateName, g) => [gateName, m.shares[k * GATES.length + g], g]).filter(x => x[1] >= .005).sort((a, b) => b[1] - a[1]);
    const row = (label, value, chip = null) => element("tr", {}, element("th", { scope: "row" }, ...(chip ? [element("span", { class: "chip", style: `background: ${chip}` })] : []), label), element("td", {}, value));
    const lost = state.model === "minilm" ? [m.effect[k].toFixed(4), "1 \u2212 cosine of the sentence"] : [m.effect[k].toFixed(3), "nats per token"];
    facts.replaceChildren(element("caption", {}, "This head, mean of the four sentences"), element("tbody", {},
      ...shares.map(([gateName, share, g]) => row(g === GATES.length - 1 ? "residual, no gate" : `${gateName} gate`, percent(share), start.colours[g])),
      row("content in the scores, counted from 0 (rest: semi-bias)", percent(m.content[k])), row("entropy, of the largest possible", percent(m.entropy[k])),
      row("nearest constructed head", `${BUILT[m.nearest[k]]}, ${percent(m.distance[k])} elsewhere`), row(`lost when silenced, ${lost[1]}`, lost[0])));
  }
  function show() {
    sentence.value = String(state.sentence);
    heads.set(state.layer, state.head);
    draw();
    tell();
    set(state);
  }
  build();
  Play.redraw(root, draw);
});
