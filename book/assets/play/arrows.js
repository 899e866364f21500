// A rotary kernel as the sum of turning arrows: one per pair of coordinates, laid end to end. How far they reach to the
// right is what the kernel adds to the score of a key at that distance, up to a number: the pairs that hardly turn over
// these distances (by less than a tenth of a radian) are left out. From the record rotary-smollm2-arrows.
Play.viewer("arrows", async root => {
  "use strict";
  const { element, plot } = Play, DISTANCES = 64, FULL = 2 * Math.PI, FAST = 8;
  await Play.load("rotary-smollm2-arrows.js");
  const { arrays } = Play.models["rotary-smollm2-arrows"], [heads, every] = arrays.length.shape;
  const [length, angle, turn, names] = ["length", "angle", "turn", "head"].map(name => Play.array(arrays[name]));
  const pairs = turn.filter(each => each * (DISTANCES - 1) >= .1).length;
  const KINDS = [
    { label: `the ${FAST} fastest`, from: 0, to: FAST, colour: "--play-p", said: "By the fast arrows alone, a" },
    { label: `the ${pairs - FAST} next`, from: FAST, to: pairs, colour: "--play-pp", said: "By the next arrows alone, a" },
    { label: `all ${pairs}`, from: 0, to: pairs, colour: "--play-ink", said: "A" }];
  const state = { ...JSON.parse(root.dataset.start) };
  const LIMITS = { distance: DISTANCES, pairs: KINDS.length, random: 2, head: heads };
  for (const [key, text] of Object.entries(Play.recall("arrows")))
    if (Object.hasOwn(LIMITS, key) && /^\d{1,3}$/.test(text) && Number(text) < LIMITS[key]) state[key] = Number(text);

  // ---- the mathematics ----
  const DRAWN = Array.from({ length: pairs }, (_, f) => FULL * ((f + 1) * .381966 % 1));  // as good as random, and the same for all
  function steps(distance, kind = state.pairs) {
    const { from, to } = KINDS[kind], at = state.head * every;
    return Array.from({ length: to - from }, (_, k) => {
      const f = from + k, where = (state.random ? DRAWN[f] : angle[at + f]) + turn[f] * distance;
      return [length[at + f] * Math.cos(where), length[at + f] * Math.sin(where), KINDS[f < FAST ? 0 : 1].colour];
    });
  }
  const kernel = kind => Array.from({ length: DISTANCES }, (_, d) => steps(d, kind).reduce((sum, [x]) => sum + x, 0));
  function reach() {              // the box that holds the arrows at every distance: left, right, down, up
    const box = [0, 0, 0, 0];
    for (let d = 0; d < DISTANCES; d++) {
      const here = [0, 0];
      for (const step of steps(d)) for (const k of [0, 1]) {
        here[k] += step[k];
        box[2 * k] = Math.min(box[2 * k], here[k]);
        box[2 * k + 1] = Math.max(box[2 * k + 1], here[k]);
      }
    }
    return box;
  }
  root.kernel = kernel;

  // ---- controls ----
  const select = key => value => { state[key] = Number(value); show(); };
  const distance = Play.slider({ label: "Distance", min: 0, max: DISTANCES - 1, step: 1, value: state.distance, text: d => `${d} back`, change: select("distance") });
  const choose = (key, name, labels) => Play.choice({ name, look: "play-buttons", value: String(state[key]),
    options: labels.map((label, k) => ({ value: String(k), label })), change: select(key) });
  const shown = choose("pairs", "Arrows", KINDS.map(kind => kind.label));
  const random = choose("random", "Angles", ["angles as trained", "angles at random"]);
  const head = choose("head", "Head", Array.from({ length: heads }, (_, k) => `layer ${names[2 * k]}, head ${names[2 * k + 1]}`));
  const [plane, curve] = ["play-space", "play-space"].map(look => element("canvas", { "aria-hidden": "true", class: look }));
  const said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("arrows", root);
  const chip = colour => element("span", { class: "chip", style: `background: var(${colour})` });
  root.replaceChildren(
    element("p", { class: "play-effect" }, "Drag the distance: the key moves away, and each arrow turns at its own speed. ", element("b", {}, "Guess: which arrows make the peak at one back, the fastest or the next ones?")),
    distance.whole, shown.whole, element("div", { class: "play-two" },
      element("div", {}, element("p", { class: "play-head" }, "The arrows, laid end to end"), plane,
        element("p", { class: "play-legend" }, element("span", {}, chip(KINDS[0].colour), "fast"), element("span", {}, chip(KINDS[1].colour), "slower"))),
      element("div", {}, element("p", { class: "play-head" }, "Their reach to the right, at every distance"), curve)),
    said, random.whole,
    element("details", {}, element("summary", {}, "More: other heads that look at the word before"), head.whole), link);

  // ---- drawing: the curves of all arrows and of some have one scale ----
  function draw() {
    if (root.hidden) return;
    const lines = KINDS.map((_, kind) => kernel(kind)), all = lines.flat(), low = Math.min(...all), high = Math.max(...all);
    plot(curve, { curves: [{ values: lines[state.pairs], colour: KINDS[state.pairs].colour, width: 2 }], low, high,
      marks: [[state.distance, "--play-mark", ""]], ends: ["0 back", `${DISTANCES - 1} back`],
      levels: [[high, `${high.toFixed(1)} nats`], [0, "0"], [low, `${low.toFixed(1)} nats`.replace("-", "\u2212")]].filter(([value], k) => k === 1 || Math.abs(value) > .15 * (high - low)) });
    drawPlane();
  }
  function drawPlane() {
    const on = Play.surface(plane);
    if (!on) return;
    const { pen, box, look } = on, [left, right, down, up] = reach();
    const unit = .9 * Math.min(box.width / (right - left), (box.height - 20) / (up - down));
    const start = [box.width / 2 - unit * (left + right) / 2, (box.height - 20) / 2 + unit * (down + up) / 2];
    const colour = name => look.getPropertyValue(name);
    const line = (name, width, ...points) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.beginPath();
      points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.stroke();
    };
    line("--play-line", 1, [start[0], 6], [start[0], box.height - 20]);
    line("--play-line", 1, [6, start[1]], [box.width - 6, start[1]]);
    pen.font = `11px ${look.fontFamily}`;
    pen.fillStyle = look.color;
    pen.textAlign = "right";
    pen.fillText("more to the right: a higher score", box.width - 6, box.height - 6);
    const parts = steps(state.distance), end = parts.reduce((sum, [x]) => sum + unit * x, start[0]);
    line("--play-line", 9, start, [end, start[1]]);
    let here = start;
    for (const [x, y, of] of parts) {
      const next = [here[0] + unit * x, here[1] - unit * y], far = unit * Math.hypot(x, y), back = Math.min(7, far / 2), way = Math.atan2(next[1] - here[1], next[0] - here[0]);
      line(of, 2, here, next);
      line(of, 2, ...[.45, 0, -.45].map(bend => (bend ? [next[0] - back * Math.cos(way + bend), next[1] - back * Math.sin(way + bend)] : next)));
      here = next;
    }
    line("--play-ink", 1, [here[0], start[1]], here);
  }
  function tell() {
    const values = kernel(state.pairs), d = state.distance, best = values.indexOf(Math.max(...values)), less = values[best] - values[d], { said: who } = KINDS[state.pairs];
    Object.assign(root.dataset, { best, less });
    const nats = less.toFixed(1), factor = Math.exp(less), times = factor < 9.5 ? factor.toFixed(1) : Number(factor.toPrecision(2)).toLocaleString("en");
    const where = k => (k ? `${k} back` : "at the query\u2019s own place");
    said.textContent = d === best ? `${who} key ${where(d)} gets the most.`
      : `${who} key ${where(d)} gets ${nats} nats less than the key ${where(best)}, the best distance. ${nats === "0.0" ? "That makes no difference." : `By itself that divides its weight by ${times}.`}`;
  }
  function show() {
    draw();
    tell();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
