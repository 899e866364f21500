// The parts of a layer as switches: the residual by layer of MiniLM and of its controls, from the record
// bert-rank-switches. Residuals there are logarithms to base 10. What the record has besides (linear MLPs, LayerNorms
// without their learned factors, deeper random stacks) isn't shown: each would need a story of its own.
Play.viewer("switches", async root => {
  "use strict";
  const { element, plot } = Play;
  await Play.load("bert-rank-switches.js");
  const { values, arrays } = Play.models["bert-rank-switches"], FLOOR = -13, GAIN = 1;
  const [MLPS, LEVELS] = ["mlps", "rungs"].map(name => JSON.parse(values[name]));
  const data = Object.fromEntries(["trained", "controls"].map(name => [name, Play.array(arrays[name])]));
  const states = arrays.trained.shape.at(-1), seeds = arrays.controls.shape[1];
  const COLOURS = ["--play-pp", "--play-random", "--play-large", "--play-shuffled"];
  const WORDS = { random: "small random weights", "random, as large": "random weights as large as MiniLM\u2019s", permuted: "MiniLM\u2019s weights, shuffled" };
  const PARTS = { skip: "skip connections", mlp: "MLPs", norm: "LayerNorms" }, ON = { skip: 1, mlp: MLPS.indexOf("GELU"), norm: 1 };
  const start = JSON.parse(root.dataset.start), state = Object.fromEntries(Object.keys(PARTS).map(key => [key, start[key]]));
  for (const [key, text] of Object.entries(Play.recall("switches"))) {
    if (Object.hasOwn(ON, key) && ["0", String(ON[key])].includes(text)) state[key] = Number(text);
  }

  // ---- residuals: one list of curves per network, a curve per seed ----
  const places = 2 * MLPS.length * 2 * 2, place = s => ((s.skip * MLPS.length + s.mlp) * 2 + s.norm) * 2 + GAIN;
  const curve = (name, index) => Array.from(data[name].subarray(index * states, (index + 1) * states));
  const networks = s => [{ name: "MiniLM", runs: [curve("trained", place(s))] }, ...LEVELS.map((name, r) => ({ name: WORDS[name] ?? name,
    runs: Array.from({ length: seeds }, (_, k) => curve("controls", (r * seeds + k) * places + place(s))) }))];
  const mean = runs => runs[0].map((_, l) => runs.reduce((sum, run) => sum + run[l], 0) / runs.length);
  root.numbers = { networks: s => networks({ ...state, ...s }), mean };

  // ---- controls ----
  const toggles = Object.entries(PARTS).map(([key, label]) =>
    Play.toggle({ label, checked: state[key] > 0, change: on => { state[key] = on ? ON[key] : 0; show(); } }).whole);
  const canvas = element("canvas", { "aria-hidden": "true", class: "play-plot play-tall" }), title = element("p", { class: "play-head", role: "status" });
  const table = element("table"), note = element("p", { class: "play-legend" }), { link, set } = Play.permalink("switches", root);
  root.replaceChildren(element("p", { class: "play-prompt" }, "With all parts, two of the four networks make their words nearly the same. Which switch makes all four do so?"),
    element("fieldset", { class: "play-switches" }, element("legend", {}, "Beside attention"), ...toggles), title, canvas, table, note, link);

  // ---- drawing ----
  const small = power => String(power).replace(/./g, c => "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"["-0123456789".indexOf(c)]);
  const said = log => (log >= -2 ? (10 ** log).toFixed(2) : log < -6 ? "about 0" : `10${small(Math.round(log))}`);
  const floor = shown => Math.max(FLOOR, Math.floor(Math.min(-1, ...shown.flatMap(each => each.runs.flat()))));
  function draw() {
    if (root.hidden) return;
    const shown = networks(state), low = floor(shown);
    const step = low < -8 ? 4 : low < -3 ? 2 : 1, powers = Array.from({ length: Math.floor(-low / step) + 1 }, (_, k) => -k * step);
    const thin = shown.flatMap(({ runs }, k) => (runs.length > 1 ? runs.map(run => ({ values: run, colour: COLOURS[k], width: .5 })) : []));
    const thick = shown.map(({ runs }, k) => ({ values: mean(runs), colour: COLOURS[k], width: k ? 2 : 3 })).reverse();
    plot(canvas, { curves: [...thin, ...thick], low, high: .15, ends: ["before the first layer", `after layer ${states - 1}`],
      levels: powers.map(power => [power, power ? `10${small(power)}` : "1"]) });
  }
  const chip = k => element("span", { class: "chip", style: `background: var(${COLOURS[k]})` });
  function tell() {
    const lowest = floor(networks(state)), span = lowest > -2 ? "0.1" : `10${small(lowest)}`;
    const last = states - 1, whole = networks(ON), parts = Object.keys(PARTS).filter(key => state[key]).map(key => PARTS[key]);
    title.textContent = `Spread with ${["attention", ...parts].join(", ")}; axis from ${span} to 1`;
    table.replaceChildren(element("thead", {}, element("tr", {}, ...["spread after the last layer", "with these parts", "range of five draws", "with all parts"].map(text => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...networks(state).map(({ name, runs }, k) => {
        const ends = runs.map(run => run[last]).sort((a, b) => a - b), [low, high] = [ends[0], ends.at(-1)].map(said);
        return element("tr", {}, element("td", {}, chip(k), name), element("td", { "data-log": mean(runs)[last] }, said(mean(runs)[last])),
          element("td", {}, ends.length < 2 ? "\u2013" : low === high ? low : `${low} to ${high}`), element("td", {}, said(mean(whole[k].runs)[last])));
      })));
    note.textContent = "Thick lines are means over four documents; a thin line is one of five random draws.";
  }
  function show() {
    draw();
    tell();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
