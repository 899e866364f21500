// The score mixer: GPT-2's first layer, positions alone. T^p and T^pp in any mixture, the weights they lead to, and the
// positions as a curve in space. T^pp is a product of narrow factors (book.experiments.semi_bias_mixer states the error).
Play.viewer("mixer", async root => {
  "use strict";
  const { element, plot } = Play;
  await Play.load("semi-bias-mixer.js");
  const stored = Play.models["semi-bias-mixer"], { heads } = stored, [n] = stored.arrays.sigma.shape, ready = [];
  const [sigma, curve] = ["sigma", "curve"].map(name => Play.array(stored.arrays[name]));
  async function read(head) {      // each head's factors are a script of their own
    await Play.load(`semi-bias-mixer-${head}.js`);
    const { left, right, own } = Play.models[`semi-bias-mixer-${head}`].arrays;
    ready[head] ||= { left: Play.array(left), right: Play.array(right), own: Play.array(own), rank: left.shape[1] };
  }
  const sorted = Array.from(sigma).sort((a, b) => a - b), median = (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2;
  const NEAR = Math.round(stored.values.period / 4), REACH = 50, CLOSE = 3;
  const SLIDERS = { query: ["Query", 0, n - 1, 1], Tp: ["Ramp", 0, 2, .05], Tpp: ["Circle", 0, 2, .05],
    width: ["Token width", 0, 3, .1], sharpness: ["Sharpness", 0, 3, .05], turn: ["Turn the curve", -180, 180, 5] };
  const state = { mask: 1, query: 0, Tp: 1, Tpp: 1, width: 1, sharpness: 1, turn: 30, ...JSON.parse(root.dataset.start) };
  for (const [key, text] of Object.entries(Play.recall("mixer"))) {
    if (!Object.hasOwn(state, key)) continue;
    const x = Number(text), [, low, high] = SLIDERS[key] || [null, 0, key === "head" ? heads - 1 : 1];
    if (text.trim() && x >= low && x <= high) state[key] = ["head", "query", "mask"].includes(key) ? Math.round(x) : x;
  }
  await read(state.head);

  // ---- scores and weights of one query ----
  const divisor = j => Math.sqrt(sigma[j] ** 2 + (state.width * median) ** 2);
  function scores(head, i) {
    const { left, right, own, rank } = ready[head];
    const shrink = Float64Array.from({ length: n }, (_, j) => sigma[j] / divisor(j)), a = i * rank;
    const p = shrink.map((s, j) => state.Tp * own[j] * s);
    const pp = shrink.map((s, j) => {
      let sum = 0;
      for (let k = 0; k < rank; k++) sum += left[a + k] * right[j * rank + k];
      return state.Tpp * sum * s * shrink[i];
    });
    const seen = state.mask ? i + 1 : n, sum = p.map((s, j) => state.sharpness * (s + pp[j]));
    let top = -Infinity, total = 0;
    for (let j = 0; j < seen; j++) top = Math.max(top, sum[j]);
    const weights = sum.map((s, j) => (j < seen ? Math.exp(s - top) : 0));
    for (const w of weights) total += w;
    return { p, pp, sum, weights: weights.map(w => w / total), seen };
  }
  function peaks({ weights, seen }, i) {      // the largest weight near the query, and the largest farther away
    let near = i, far = -1;
    for (let j = 0; j < seen; j++) {
      if (Math.abs(i - j) <= NEAR) { if (weights[j] > weights[near]) near = j; }
      else if (far < 0 || weights[j] > weights[far]) far = j;
    }
    return { near, far };
  }
  root.scores = scores;
  root.peaks = peaks;

  // ---- controls ----
  const mixes = { circle: { Tp: 0, Tpp: 1 }, ramp: { Tp: 1, Tpp: 0 }, both: { Tp: 1, Tpp: 1 } };
  const mixed = () => Object.keys(mixes).find(name => mixes[name].Tp === state.Tp && mixes[name].Tpp === state.Tpp);
  const mixChoice = Play.choice({ name: "What makes the scores", look: "play-buttons", value: mixed(),
    options: [["circle", "The circle alone"], ["ramp", "The ramp alone"], ["both", "Both"]].map(([value, label]) => ({ value, label })),
    change: name => {
      Object.assign(state, mixes[name]);
      for (const part of ["Tp", "Tpp"]) sliders[part].set(state[part]);
      show();
    } });
  let asked;
  const headChoice = Play.choice({ name: "Head", look: "play-numbers", value: String(state.head),
    options: Array.from({ length: heads }, (_, h) => ({ value: String(h), label: `Head ${h}`, shown: [element("span", {}, String(h))] })),
    change: async value => {
      asked = value;
      await read(value);
      if (asked !== value) return;
      state.head = Number(value);
      show();
    } });
  const sliders = Object.fromEntries(Object.entries(SLIDERS).map(([key, [label, min, max, step]]) => [key,
    Play.slider({ label, min, max, step, value: state[key], change: x => { state[key] = x; mixChoice.set(mixed()); show(); } })]));
  const mask = Play.toggle({ label: "the query sees no later key (the mask)", checked: !!state.mask, change: on => { state.mask = Number(on); show(); } });
  const canvas = name => element("canvas", { "aria-hidden": "true", class: name });
  const [weightPlot, scorePlot, space] = ["play-plot", "play-plot", "play-space"].map(canvas);
  const [weightTitle, scoreTitle] = [0, 1].map(() => element("p", { class: "play-head" }));
  const said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("mixer", root);
  const key = (colour, text) => element("span", { class: "play-key" }, element("span", { style: `background: var(${colour})` }), text);
  const more = element("details", { class: "play-more" }, element("summary", {}, "More: other heads, the scores, any mixture, no mask"),
    element("div", { class: "play-two" },
      element("div", {}, element("p", { class: "play-head" }, "Head"), headChoice.whole, scoreTitle, scorePlot,
        element("p", { class: "play-legend" }, key("--play-p", "ramp"), key("--play-pp", "circle"), key("--play-ink", "sum"))),
      element("div", {}, ...["Tp", "Tpp", "width", "sharpness", "turn"].map(name => sliders[name].whole), mask.whole)),
    element("p", { class: "play-legend" }, `The circle\u2019s scores are kept as factors of rank ${ready[state.head].rank} in half precision. With tokens as wide as positions no query\u2019s attention is off by more than ${(100 * stored.values.total_variation).toFixed(1)}\u00a0% (total variation).`), link);
  more.addEventListener("toggle", () => draw());
  root.replaceChildren(element("p", { class: "play-prompt" }, "The circle alone sends query 700 far back. Guess: where does the ramp alone send it, and where do both? Then press."),
    mixChoice.whole, sliders.query.whole,
    element("div", { class: "play-two" }, element("div", {}, weightTitle, weightPlot, said),
      element("div", {}, element("p", { class: "play-head" }, "The positions in space, bright where the query looks"), space,
        element("p", { class: "play-legend" }, key("--play-mark", "the query"), key("--play-accent", "the key that it looks at most, if another")))), more);

  // ---- drawing ----
  function draw() {
    if (root.hidden) return;
    const i = state.query, now = scores(state.head, i), { near, far } = peaks(now, i), most = Math.max(...now.weights);
    const best = far >= 0 && now.weights[far] > now.weights[near] ? far : near;
    const marks = [[i, "--play-mark", "query"], ...(Math.abs(best - i) > n / 12 ? [[best, "--play-accent", "looks here"]] : [])];
    plot(weightPlot, { curves: [{ values: now.weights, colour: { circle: "--play-pp", ramp: "--play-p" }[mixed()] || "--play-mark" }], low: 0, high: most, marks });
    const level = values => { const shown = values.slice(0, now.seen), mean = shown.reduce((s, v) => s + v, 0) / shown.length; return values.map((v, j) => (j < now.seen ? v - mean : NaN)); };
    const lines = [level(now.p), level(now.pp), level(now.sum)], all = lines.flatMap(l => Array.from(l)).filter(isFinite);
    plot(scorePlot, { curves: ["--play-p", "--play-pp", "--play-ink"].map((colour, k) => ({ values: lines[k], colour })), low: Math.min(...all), high: Math.max(...all) });
    const [low, high] = [Math.min(...all), Math.max(...all)].map(x => x.toFixed(1).replace("-", "\u2212"));
    weightTitle.textContent = `Where query ${i} of head ${state.head} looks (top of the scale: ${percent(most)})`;
    scoreTitle.textContent = `Scores less their means, ${low} to ${high} nats`;
    drawSpace(now, most, best === i ? [[i, "--play-mark"]] : [[i, "--play-mark"], [best, "--play-accent"]]);
    tell(now, near, far);
  }
  function drawSpace(now, most, marks) {
    const on = Play.surface(space);
    if (!on) return;
    const { pen, box, look } = on;
    const angle = state.turn * Math.PI / 180, [c, s] = [Math.cos(angle), Math.sin(angle)];
    const spread = Math.max(...Array.from(curve).map(Math.abs)), unit = Math.min(box.width, box.height) * .42 / spread;
    const at = j => {
      const [x, y, z] = [curve[3 * j], curve[3 * j + 1], curve[3 * j + 2]], depth = s * x + c * y;
      return [box.width / 2 + unit * (c * x - s * y), box.height / 2 - unit * (.85 * z - .35 * depth)];
    };
    const stretch = (j, colour, width) => {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(...at(j - 1));
      pen.lineTo(...at(j));
      pen.stroke();
    };
    const [line, rim] = ["--play-line", "--play-soft"].map(name => look.getPropertyValue(name)), share = j => now.weights[j] / most;
    for (let j = 1; j < n; j++) stretch(j, j < now.seen ? rim : line, j < now.seen ? 4 + 4 * Math.sqrt(share(j)) : 1);
    for (let j = 1; j < now.seen; j++) stretch(j, Play.weightColour(share(j)), 2 + 4 * Math.sqrt(share(j)));  // the rim shows it in the dark
    for (const [j, colour] of marks) {
      pen.strokeStyle = look.getPropertyValue(colour);
      pen.lineWidth = 3;
      pen.beginPath();
      pen.arc(...at(j), 7, 0, 7);
      pen.stroke();
    }
  }
  const percent = x => `${(100 * x).toFixed(x < .0995 ? 2 : 1)}\u00a0%`;
  const MIXTURE = { circle: "The circle alone", ramp: "The ramp alone", both: "Ramp and circle together" };
  const where = (i, j) => (j === i ? "itself" : `key ${j}, ${Math.abs(i - j)} position${Math.abs(i - j) === 1 ? "" : "s"} ${j < i ? "back" : "ahead"}`);
  function tell(now, near, far) {
    const i = state.query, alias = far >= 0 && now.weights[far] > now.weights[near], top = alias ? far : near;
    const [mass, close] = [REACH, CLOSE].map(count => now.weights.slice(Math.max(0, i - count + 1), i + 1).reduce((s, w) => s + w, 0));
    Object.assign(root.dataset, { head: state.head, near, far, mass, close, alias });
    const turn = alias && Math.abs(Math.abs(i - far) - stored.values.period) < stored.values.period / 4 ? `, on the turn ${far < i ? "below" : "above"}` : "";
    said.textContent = `${MIXTURE[mixed()] || "This mixture"}: query ${i} looks most at ${where(i, top)}${turn}.`
      + ` Its nearest ${REACH} keys get ${percent(mass)} of its attention, and the nearest ${CLOSE} get ${percent(close)}.`;
  }
  function show() {
    draw();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
