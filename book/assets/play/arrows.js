// A rotary kernel as the sum of a few turning arrows: one per pair of coordinates, laid end to end. How far they reach
// to the right is what a head adds to the score of a key at that distance. From the record rotary-bias-arrows.
Play.viewer("arrows", async root => {
  "use strict";
  const { element, plot } = Play, DISTANCES = 128, FULL = 2 * Math.PI;
  await Play.load("rotary-bias-arrows.js");
  const { arrays } = Play.models["rotary-bias-arrows"], [, layers, heads, pairs] = arrays.length.shape;
  const [length, angle, turn] = ["length", "angle", "turn"].map(name => Play.array(arrays[name]));
  const state = { ...JSON.parse(root.dataset.start) };
  const LIMITS = { distance: DISTANCES, source: 2, random: 2, layer: layers, head: heads };
  for (const [key, text] of Object.entries(Play.recall("arrows")))
    if (Object.hasOwn(LIMITS, key) && /^\d{1,3}$/.test(text) && Number(text) < LIMITS[key]) state[key] = Number(text);

  // ---- the mathematics ----
  const DRAWN = Array.from({ length: pairs }, (_, f) => FULL * ((f + 1) * .381966 % 1));  // as good as random, and the same for all
  const at = source => ((source * layers + state.layer) * heads + state.head) * pairs;
  function steps(distance, source = state.source) {
    return Array.from({ length: pairs }, (_, f) => {
      const where = (state.random ? DRAWN[f] : angle[at(source) + f]) + turn[f] * distance;
      return [length[at(source) + f] * Math.cos(where), length[at(source) + f] * Math.sin(where)];
    });
  }
  const kernel = source => Array.from({ length: DISTANCES }, (_, d) => steps(d, source).reduce((sum, [x]) => sum + x, 0));
  function reach() {              // how far any arrow's tip gets from the start, across and up, at any distance, of either kind
    const most = [0, 0];
    for (const source of [0, 1]) for (let d = 0; d < DISTANCES; d++) {
      const here = [0, 0];
      for (const step of steps(d, source)) for (const k of [0, 1]) most[k] = Math.max(most[k], Math.abs(here[k] += step[k]));
    }
    return most;
  }
  root.kernel = kernel;

  // ---- controls ----
  const select = key => value => { state[key] = Number(value); show(); };
  const distance = Play.slider({ label: "Distance", min: 0, max: DISTANCES - 1, step: 1, value: state.distance, text: d => `${d} back`, change: select("distance") });
  const choose = (key, name, labels) => Play.choice({ name, look: "play-buttons", value: String(state[key]),
    options: labels.map((label, k) => ({ value: String(k), label })), change: select(key) });
  const source = choose("source", "Arrows of", ["the two biases alone", "all that queries and keys have in common"]);
  const random = choose("random", "Angles", ["angles as trained", "angles at random"]);
  const layer = choose("layer", "Layer", Array.from({ length: layers }, (_, k) => `layer ${k}`));
  const head = choose("head", "Head", Array.from({ length: heads }, (_, k) => `head ${k}`));
  const [plane, curve] = ["play-space", "play-space"].map(look => element("canvas", { "aria-hidden": "true", class: look }));
  const said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("arrows", root);
  root.replaceChildren(
    element("p", { class: "play-effect" }, "Drag the distance: the key moves away and each arrow turns at its own speed. ", element("b", {}, "Guess: how much of the slope on the right is left with the two biases alone?")),
    distance.whole, element("div", { class: "play-two" },
      element("div", {}, element("p", { class: "play-head" }, "The arrows, laid end to end"), plane),
      element("div", {}, element("p", { class: "play-head" }, "Their reach to the right, at every distance"), curve)),
    said, source.whole, random.whole,
    element("details", {}, element("summary", {}, "More: other heads"), layer.whole, head.whole), link);

  // ---- drawing: both pictures have one scale for both kinds of arrows ----
  function draw() {
    if (root.hidden) return;
    const lines = [0, 1].map(kernel), all = lines.flat(), low = Math.min(...all), high = Math.max(...all);
    plot(curve, { curves: [{ values: lines[state.source], colour: "--play-pp", width: 2 }], low, high,
      marks: [[state.distance, "--play-mark", ""]], ends: ["0 back", `${DISTANCES - 1} back`],
      levels: [[high, `${high.toFixed(1)} nats`], [0, "0"], [low, `${low.toFixed(1)} nats`.replace("-", "\u2212")]].filter(([value], k) => k === 1 || Math.abs(value) > .15 * (high - low)) });
    drawPlane();
  }
  function drawPlane() {
    const on = Play.surface(plane);
    if (!on) return;
    const { pen, box, look } = on, [across, up] = reach(), unit = .46 * Math.min(box.width / across, box.height / up), middle = [box.width / 2, box.height / 2];
    const colour = name => look.getPropertyValue(name);
    const line = (name, width, ...points) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.beginPath();
      points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.stroke();
    };
    line("--play-line", 1, [middle[0], 6], [middle[0], box.height - 6]);
    line("--play-line", 1, [6, middle[1]], [box.width - 6, middle[1]]);
    pen.font = `11px ${look.fontFamily}`;
    pen.fillStyle = look.color;
    pen.textAlign = "right";
    pen.fillText("more to the right: a higher score", box.width - 6, box.height - 6);
    let here = middle;
    for (const [x, y] of steps(state.distance)) {
      const next = [here[0] + unit * x, here[1] - unit * y], far = unit * Math.hypot(x, y), back = Math.min(7, far / 2), way = Math.atan2(next[1] - here[1], next[0] - here[0]);
      line("--play-pp", 2, here, next);
      line("--play-pp", 2, ...[.45, 0, -.45].map(bend => (bend ? [next[0] - back * Math.cos(way + bend), next[1] - back * Math.sin(way + bend)] : next)));
      here = next;
    }
    line("--play-mark", 1, [here[0], middle[1]], here);
    line("--play-mark", 5, middle, [here[0], middle[1]]);
  }
  function tell() {
    const values = kernel(state.source), d = state.distance, best = values.indexOf(Math.max(...values)), less = values[best] - values[d];
    Object.assign(root.dataset, { best, less });
    const nats = less.toFixed(1), factor = Math.exp(less), times = factor < 9.5 ? factor.toFixed(1) : Number(factor.toPrecision(2)).toLocaleString("en");
    const where = k => (k ? `${k} back` : "at the query\u2019s own place");
    said.textContent = d === best ? `No key gets more of this head than the one ${where(d)}.`
      : `A key ${where(d)} gets ${nats} nats less than the key ${where(best)}, the best distance. ${nats === "0.0" ? "That makes no difference." : `By itself that divides its weight by ${times}.`}`;
  }
  function show() {
    draw();
    tell();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
