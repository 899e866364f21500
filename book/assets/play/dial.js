// The dial t: scores times t, from the plain mean (t = 0) over the head as it is (t = 1) to almost one key (t = 10), for
// MiniLM, gpt2-mini and their controls on one sentence, from the record weighted-mean-sentence.
Play.viewer("dial", async root => {
  "use strict";
  const { element, paint, plot, weightColour } = Play;
  await Play.load("weighted-mean-sentence.js");
  const { values, arrays } = Play.models["weighted-mean-sentence"], SIDE = 56, STEP = .02, LAST = 2;
  const NETWORKS = JSON.parse(values.networks), COLOURS = ["--play-accent", "--play-p", "--play-pp", "--play-soft"], NAMES = { minilm: "MiniLM", "gpt2-mini": "gpt2-mini" };
  const models = Object.fromEntries(Object.keys(NAMES).map(name => {
    const [, layers, heads, n] = arrays[`${name}_scores`].shape;
    return [name, { layers, heads, n, tokens: JSON.parse(values[`${name}_tokens`]), causal: name !== "minilm",
      scores: Play.array(arrays[`${name}_scores`]), products: Play.array(arrays[`${name}_products`]) }];
  }));
  const WORDS = { random: "untrained", "random, as large": "rescaled random", permuted: "shuffled" }, named = network => WORDS[network] || network;
  const state = { network: 0, ...JSON.parse(root.dataset.start) }, toDial = u => (u <= 1 ? u : 10 ** (u - 1));
  const toPlace = t => (t <= 1 ? t : 1 + Math.log10(t)), twoDigits = t => String(Number(t.toFixed(2)));
  for (const [key, text] of Object.entries(Play.recall("dial"))) {
    if (!Object.hasOwn(state, key)) continue;
    if (key === "model" ? Object.hasOwn(models, text) : key === "t" ? Number(text) >= 0 && Number(text) <= toDial(LAST) && text.trim() : /^\d{1,2}$/.test(text))
      state[key] = key === "model" ? text : Number(text);
  }
  const now = () => models[state.model];
  function settle() {
    for (const [key, count] of [["network", NETWORKS.length], ["layer", now().layers], ["head", now().heads], ["query", now().n], ["key", now().n]])
      state[key] = Math.min(state[key], count - 1);
  }
  settle();
  state.t = toDial(Math.round(toPlace(state.t) / STEP) * STEP);

  // ---- the mathematics: weights, entropy, distances of outputs ----
  const at = (network, layer, head) => ((network * now().layers + layer) * now().heads + head) * now().n ** 2;
  const seen = i => (now().causal ? i + 1 : now().n);
  function weights(t, network = state.network, layer = state.layer, head = state.head) {
    const { n, scores } = now(), start = at(network, layer, head), out = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      let total = 0;
      for (let j = 0; j < seen(i); j++) total += out[i * n + j] = Math.exp(t * scores[start + i * n + j]);
      for (let j = 0; j < seen(i); j++) out[i * n + j] /= total;
    }
    return out;
  }
  const rowShare = (map, i) => {
    let sum = 0;
    for (let j = 0; j < seen(i); j++) { const w = map[i * now().n + j]; if (w > 0) sum -= w * Math.log(w); }
    return sum / Math.log(seen(i));
  };
  function share(map) {            // mean entropy of the rows over the logarithm of their keys; a row of one key has none
    const rows = [...Array(now().n).keys()].filter(i => seen(i) > 1);
    return rows.reduce((sum, i) => sum + rowShare(map, i), 0) / rows.length;
  }
  function apart(one, other, network = state.network, layer = state.layer, head = state.head) {
    const { n, products } = now(), start = at(network, layer, head);
    let sum = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) for (let k = 0; k < n; k++)
      sum += (one[i * n + j] - other[i * n + j]) * products[start + j * n + k] * (one[i * n + k] - other[i * n + k]);
    return Math.sqrt(Math.max(sum, 0));
  }
  function distances(t) {          // of the output from the mean's and from the head's own, in units of these two's distance
    const [mean, own, here] = [0, 1, t].map(x => weights(x)), unit = apart(own, mean);
    return { mean: apart(here, mean) / unit, own: apart(here, own) / unit };
  }
  root.numbers = { weights, share: (t, ...which) => share(weights(t, ...which)), distances };

  // ---- controls ----
  const select = (key, change = () => {}) => value => { state[key] = value; change(); show(); };
  const modelChoice = Play.choice({ name: "Model", look: "play-buttons", value: state.model,
    options: Object.entries(NAMES).map(([value, label]) => ({ value, label })), change: value => { state.model = value; settle(); build(); } });
  const networkChoice = Play.choice({ name: "Weights", look: "play-buttons", value: String(state.network),
    options: NETWORKS.map((network, k) => ({ value: String(k), label: named(network) })), change: value => select("network")(Number(value)) });
  const dial = Play.slider({ label: "Dial", min: 0, max: LAST, step: STEP, value: toPlace(state.t), text: u => twoDigits(toDial(u)), change: u => select("t")(toDial(u)) });
  const preset = (text, t) => element("button", { type: "button", onclick: () => { dial.set(toPlace(t)); select("t")(t); } }, text);
  const map = Play.map({ label: "Attention map: rows are queries, columns are keys; arrow keys move", side: SIDE, size: () => now().n,
    cell: () => [state.query, state.key], move: (i, j) => { if (i !== state.query || j !== state.key) { state.query = i; state.key = j; show(); } } });
  const sheet = element("div"), row = element("ol", { class: "play-row" }), rowTitle = element("p", { class: "play-head" }), numbers = element("p"), curve = element("canvas", { "aria-hidden": "true", class: "play-plot" }), title = element("p", { class: "play-head" });
  const said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("dial", root);
  const key = (colour, text) => element("span", { class: "play-key" }, element("span", { style: `background: var(${colour})` }), text);
  const more = element("details", { class: "play-more" }, element("summary", {}, "More: other heads, another model, untrained weights, how even the rows are"),
    element("div", { class: "play-two" }, element("div", {}, modelChoice.whole, networkChoice.whole, sheet),
      element("div", {}, element("p", { class: "play-head" }, "Evenness of the rows, by dial (beyond 1 each step multiplies the dial)"), curve,
        element("p", { class: "play-legend" }, ...NETWORKS.map((network, k) => key(COLOURS[k], named(network)))), numbers)), link);
  root.replaceChildren(element("p", { class: "play-prompt" }, "At 1 you see the trained head. Where does the marked row look at 0, and where at 10? Guess, then drag the dial."),
    dial.whole, element("p", { class: "play-presets" }, preset("0: the plain mean", 0), preset("1: the head as trained", 1), preset("10: sharper still", 10)), said,
    element("div", { class: "play-two" }, element("div", {}, title, map.whole), element("div", {}, rowTitle, row)), more);
  let heads = null, curves = null;
  function build() {
    const { layers, heads: each } = now();
    heads = Play.sheet({ layers, heads: each, layer: state.layer, head: state.head, change: (layer, head) => { Object.assign(state, { layer, head }); show(); } });
    sheet.replaceChildren(heads.whole);
    show();
  }

  // ---- drawing ----
  const colours = own => (i, j) => (j < seen(i) ? weightColour(own[i * now().n + j]) : null);
  function draw() {
    if (root.hidden) return;
    const { n, tokens } = now(), which = [state.model, state.layer, state.head].join();
    heads.thumbs.forEach((canvas, k) => paint(canvas, { rows: n, columns: n, colour: colours(weights(state.t, state.network, Math.floor(k / now().heads), k % now().heads)) }));
    paint(map.canvas, { rows: n, columns: n, side: SIDE, labels: tokens, mark: [state.query, state.key], colour: colours(weights(state.t)) });
    if (curves?.which !== which) curves = { which, values: NETWORKS.map((_, k) =>
      Array.from({ length: LAST / STEP + 1 }, (__, m) => share(weights(toDial(m * STEP), k)))) };
    const spot = toPlace(state.t) / STEP, half = 1 / STEP;
    plot(curve, { curves: curves.values.map((list, k) => ({ values: list, colour: COLOURS[k], width: k === state.network ? 3 : 1.2 })), low: 0, high: 1,
      ends: ["0", "10"], marks: [...(Math.abs(spot - half) > half / 4 ? [[half, "--play-line", "1: as trained"]] : []), [spot, "--play-mark", twoDigits(state.t)]] });
  }
  const percent = x => `${(100 * x).toFixed(x < .0995 ? 1 : 0)}\u00a0%`, word = j => `\u201c${now().tokens[j]}\u201d`;
  function listRow(here) {         // the picked row in words, a bar each
    const { n, tokens } = now(), i = state.query;
    rowTitle.textContent = `Where ${word(i)}, word ${i + 1}, looks`;
    row.replaceChildren(...Array.from({ length: seen(i) }, (_, j) => element("li", { style: `--share: ${100 * here[i * n + j]}%` },
      element("span", {}, tokens[j]), element("span", {}, percent(here[i * n + j])))));
  }
  const place = () => (state.t === 0 ? "A plain mean:" : state.t < 1 ? "On the way:" : state.t === 1 ? "The head as it is:" : "Sharper than the head is:");
  function tell() {
    const { n } = now(), { query: i, key: j } = state, here = weights(state.t), d = distances(state.t);
    const shown = Array.from(here.slice(i * n, i * n + seen(i))), most = shown.indexOf(Math.max(...shown));
    title.textContent = `Rows look, columns are looked at: ${NAMES[state.model]}, ${named(NETWORKS[state.network])}, layer ${state.layer}, head ${state.head}`;
    const cell = j < seen(i) ? `${word(i)} gives ${percent(here[i * n + j])} of its weight to ${word(j)}.` : `${word(i)} does not see ${word(j)}, which comes later.`;
    said.replaceChildren(element("b", {}, place()), " ", state.t === 0 ? `each of the ${seen(i)} words that ${word(i)} sees gets ${percent(1 / seen(i))}, whatever it says.`
      : `${word(i)} now looks most at ${word(most)}, with ${percent(shown[most])} of its weight; in the plain mean that was ${percent(1 / seen(i))}.`, j === most || (state.t === 0 && j < seen(i)) ? "" : ` The marked cell: ${cell}`);
    numbers.textContent = `The evenness of the rows is ${share(here).toFixed(2)}. The head\u2019s output now lies ${d.mean.toFixed(2)} from the plain mean of the values and ${d.own.toFixed(2)} from what the trained head puts out; these two lie 1 apart.`;
    listRow(here);
  }
  function show() {
    heads.set(state.layer, state.head);
    draw();
    tell();
    set({ ...state, t: twoDigits(state.t) });
  }
  build();
  Play.redraw(root, draw);
});
