// The parts of a layer as switches: the residual by layer of MiniLM, of its controls, and of random stacks under every
// setting, from the record bert-rank-switches. Residuals there are logarithms to base 10.
Play.viewer("switches", async root => {
  "use strict";
  const { element, plot } = Play;
  await Play.load("bert-rank-switches.js");
  const { values, arrays } = Play.models["bert-rank-switches"], FLOOR = -16;
  const [MLPS, LEVELS, GAINS] = ["mlps", "rungs", "gains"].map(name => JSON.parse(values[name]));
  const data = Object.fromEntries(["trained", "controls", "stacks"].map(name => [name, Play.array(arrays[name])]));
  const states = { model: arrays.trained.shape.at(-1), random: arrays.stacks.shape.at(-1) }, seeds = arrays.controls.shape[1];
  const COLOURS = ["--play-pp", "--play-random", "--play-large", "--play-shuffled"], PARTS = ["skip", "mlp", "norm", "gain"];
  const WORDS = { random: "small random weights", "random, as large": "random weights as large as MiniLM\u2019s", permuted: "MiniLM\u2019s weights, shuffled" };
  const state = JSON.parse(root.dataset.start), LAST = { skip: 1, mlp: MLPS.length - 1, norm: 1, gain: 1 };
  for (const [key, text] of Object.entries(Play.recall("switches"))) {
    if (key === "of" ? Object.hasOwn(states, text) : Object.hasOwn(LAST, key) && /^\d$/.test(text) && Number(text) <= LAST[key]) state[key] = key === "of" ? text : Number(text);
  }

  // ---- residuals: one list of curves per network, a curve per seed ----
  const place = (s, gains) => ((s.skip * MLPS.length + s.mlp) * 2 + s.norm) * (gains ? 2 : 1) + (gains ? s.gain : 0);
  const curve = (name, index, n) => Array.from(data[name].subarray(index * n, (index + 1) * n));
  function networks(s) {
    if (s.of === "model") {
      const per = 2 * MLPS.length * 2 * 2, n = states.model, controls = LEVELS.map((name, r) => ({ name: WORDS[name] ?? name,
        runs: Array.from({ length: seeds }, (_, k) => curve("controls", (r * seeds + k) * per + place(s, true), n)) }));
      return [{ name: "MiniLM", runs: [curve("trained", place(s, true), n)] }, ...controls];
    }
    const per = 2 * MLPS.length * 2;
    return GAINS.map((gain, g) => ({ name: `random weights, scale ${gain}`,
      runs: Array.from({ length: seeds }, (_, k) => curve("stacks", (g * seeds + k) * per + place(s, false), states.random)) }));
  }
  const mean = runs => runs[0].map((_, l) => runs.reduce((sum, run) => sum + run[l], 0) / runs.length);
  root.numbers = { networks: s => networks({ ...state, ...s }), mean };

  // ---- controls ----
  const change = key => value => { state[key] = Number(value); show(); };
  const of = Play.choice({ name: "What is run", look: "play-buttons", value: state.of, change: value => { state.of = value; show(); },
    options: [["model", "MiniLM and random weights"], ["random", "deeper random networks"]].map(([value, label]) => ({ value, label })) });
  const toggles = [["skip", "skip connections"], ["norm", "LayerNorm"], ["gain", "its learned factors"]].map(([key, label]) =>
    [key, Play.toggle({ label, checked: !!state[key], change: change(key) })]);
  const mlp = Play.choice({ name: "MLP", look: "play-buttons", value: String(state.mlp), change: change("mlp"),
    options: MLPS.map((name, k) => ({ value: String(k), label: `MLP: ${name}`, shown: [element("span", {}, name === "none" ? "no MLP" : name === "linear" ? "linear MLP" : `MLP with ${name}`)] })) });
  const boxes = Object.fromEntries(toggles);
  const canvas = element("canvas", { "aria-hidden": "true", class: "play-plot play-tall" }), title = element("p", { class: "play-head", role: "status" });
  const table = element("table"), note = element("p", { class: "play-legend" }), { link, set } = Play.permalink("switches", root);
  root.replaceChildren(element("p", { class: "play-prompt" }, "Switch off the skip connections, and all lines fall to the floor. Can another switch lift MiniLM\u2019s again?"), of.whole, element("fieldset", { class: "play-switches" }, element("legend", {}, "Beside attention"), boxes.skip.whole, mlp.whole, boxes.norm.whole, boxes.gain.whole),
    title, canvas, table, note, link);

  // ---- drawing ----
  const describe = s => ["attention", ...(s.skip ? ["skip"] : []), ...(s.mlp ? [s.mlp === 1 ? "linear MLP" : "MLP"] : []),
    ...(s.norm ? [s.of === "model" && !s.gain ? "LayerNorm without its learned factors" : "LayerNorm"] : [])].join(" + ");
  const small = power => String(power).replace(/./g, c => "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"["-0123456789".indexOf(c)]);
  const said = log => (log >= -2 ? (10 ** log).toFixed(2) : log <= FLOOR + 1.5 ? "rounding error" : `10${small(Math.round(log))}`);
  const floor = shown => Math.max(FLOOR, Math.floor(Math.min(-1, ...shown.flatMap(each => each.runs.flat()))));
  function draw() {
    if (root.hidden) return;
    const shown = networks(state), low = floor(shown);
    const step = low < -8 ? 4 : low < -3 ? 2 : 1, powers = Array.from({ length: Math.floor(-low / step) + 1 }, (_, k) => -k * step);
    const thin = shown.flatMap(({ runs }, k) => (runs.length > 1 ? runs.map(run => ({ values: run, colour: COLOURS[k], width: .5 })) : []));
    const thick = shown.map(({ runs }, k) => ({ values: mean(runs), colour: COLOURS[k], width: k ? 2 : 3 })).reverse();
    plot(canvas, { curves: [...thin, ...thick], low, high: .15, ends: [state.of === "model" ? "embeddings" : "random rows", `after ${states[state.of] - 1} layers`],
      levels: powers.map(power => [power, power ? `10${small(power)}` : "1"]) });
  }
  const chip = k => element("span", { class: "chip", style: `background: var(${COLOURS[k]})` });
  function tell() {
    const lowest = floor(networks(state)), span = lowest > -2 ? "0.1" : `10${small(lowest)}`;
    const last = states[state.of] - 1, whole = networks({ ...state, skip: 1, mlp: MLPS.length - 1, norm: 1, gain: 1 });
    title.textContent = `Spread (how different the vectors are): ${describe(state)}; axis from ${span} to 1`;
    table.replaceChildren(element("thead", {}, element("tr", {}, ...["spread after the last layer", "with these parts", "range of five draws", "with all parts"].map(text => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...networks(state).map(({ name, runs }, k) => {
        const ends = runs.map(run => run[last]).sort((a, b) => a - b), [low, high] = [ends[0], ends.at(-1)].map(said);
        return element("tr", {}, element("td", {}, chip(k), name), element("td", { "data-log": mean(runs)[last] }, said(mean(runs)[last])),
          element("td", {}, ends.length < 2 ? "\u2013" : low === high ? low : `${low} to ${high}`), element("td", {}, said(mean(whole[k].runs)[last])));
      })));
    note.textContent = state.of === "model" ? "Thick lines are means over four documents; a thin line is one of five random draws. (The page averages over more documents, so its second digit may differ.) A LayerNorm multiplies each number by a learned factor; in random models this factor is one, and its switch changes nothing."
      : "Networks of twelve layers and width 64, five random draws of each. The scale in the table is that of their random matrices: a BERT begins its training at 0.55. Their LayerNorms multiply by one.";
  }
  function show() {
    boxes.gain.box.disabled = state.of !== "model" || !state.norm;
    draw();
    tell();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
