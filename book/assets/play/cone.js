// The rows of a layer as directions in space, and the cone around their mean: MiniLM beside one of its controls, from the
// record bert-normality-directions. A row's first coordinate is the cosine of its angle with the mean direction.
Play.viewer("cone", async root => {
  "use strict";
  const { element } = Play;
  await Play.load("bert-normality-directions.js");
  const { values, arrays } = Play.models["bert-normality-directions"], rows = Play.array(arrays.rows), index = Play.array(arrays.index);
  const [NETWORKS, TOKENS, TEXTS] = ["networks", "tokens", "texts"].map(name => JSON.parse(values[name])), [, texts, states, n] = arrays.rows.shape;
  const LOOKS = [["angles", "true angles"], ["flat", "flat projection"]], TURN = 10, RAY = Math.PI / 180, TRAINED = 0;
  const FIRST = { network: 1, yaw: -180, pitch: -90 }, LAST = { network: NETWORKS.length - 1, text: texts - 1, layer: states - 1, row: n - 1, yaw: 180, pitch: 90 };
  const WORDS = { random: "small random weights", "random, as large": "random weights as large as MiniLM's", permuted: "MiniLM's weights, shuffled" };
  const state = JSON.parse(root.dataset.start);
  for (const [key, text] of Object.entries(Play.recall("cone"))) {
    if (key === "look" ? LOOKS.some(look => look[0] === text) : Object.hasOwn(LAST, key) && /^-?\d{1,3}$/.test(text) && Number(text) <= LAST[key] && Number(text) >= (FIRST[key] ?? 0))
      state[key] = key === "look" ? text : Number(text);
  }

  // ---- the mathematics: resultant length, mean cosine, what the three axes hold ----
  function measure(network = state.network, text = state.text, layer = state.layer) {
    const start = ((network * texts + text) * states + layer) * n * 3;
    const points = Array.from({ length: n }, (_, i) => Array.from(rows.subarray(start + 3 * i, start + 3 * i + 3)));
    const resultant = points.reduce((sum, p) => sum + p[0], 0) / n, spread = n * (1 - resultant ** 2);
    const held = points.reduce((sum, p) => sum + (p[0] - resultant) ** 2 + p[1] ** 2 + p[2] ** 2, 0) / spread;
    return { points, resultant, held, cosine: (n * resultant ** 2 - 1) / (n - 1), index: index[(network * texts + text) * states + layer],
      inside: points.filter(p => p[0] >= resultant).length };
  }
  // On the screen a row stands at its true angle with the mean, in the direction of its two other coordinates; or flat.
  function placed([c, y, z]) {
    if (state.look === "flat") return [c, y, z];
    const far = Math.hypot(y, z), stretch = far ? Math.sqrt(Math.max(1 - c * c, 0)) / far : 0;
    return [c, y * stretch, z * stretch];
  }
  root.numbers = { measure, placed };

  // ---- controls ----
  const name = layer => (layer ? `layer ${layer - 1}` : "embeddings"), wrap = angle => ((angle + 540) % 360) - 180;
  const turn = (yaw, pitch) => { state.yaw = wrap(state.yaw + yaw); state.pitch = Math.min(Math.max(state.pitch + pitch, -90), 90); show(); };
  const layerSlider = Play.slider({ label: "Layer", min: 0, max: states - 1, step: 1, value: state.layer, text: name, change: x => { state.layer = x; show(); } });
  const rowSlider = Play.slider({ label: "Word", min: 0, max: n - 1, step: 1, value: state.row, text: i => TOKENS[state.text][i], change: x => { state.row = x; show(); } });
  const network = Play.choice({ name: "Beside MiniLM", look: "play-buttons", value: String(state.network), change: x => { state.network = Number(x); show(); },
    options: NETWORKS.map((label, k) => ({ value: String(k), label: WORDS[label] })).slice(1) });
  const look = Play.choice({ name: "Projection", look: "play-buttons", value: state.look, change: x => { state.look = x; show(); },
    options: LOOKS.map(([value, label]) => ({ value, label })) });
  const text = element("select", { "aria-label": "Text", onchange: () => { state.text = Number(text.value); rowSlider.set(state.row); show(); } }, ...TEXTS.map((title, k) => element("option", { value: k }, title)));
  const clouds = ["MiniLM, trained", ""].map((title, k) => {
    const canvas = element("canvas", { "aria-hidden": "true" }), head = element("p", { class: "play-head" }, title);
    const space = element("div", { class: "play-cone", tabindex: "0", role: "application", "aria-roledescription": "space",
      "aria-label": `Vectors of ${k ? "the other network" : "MiniLM"} in space: arrow keys turn both, or drag` }, canvas);
    return { canvas, head, space, whole: element("div", {}, head, space), which: () => (k ? state.network : TRAINED) };
  });
  const button = (label, shown, yaw, pitch) => element("button", { type: "button", "aria-label": label, onclick: () => turn(yaw, pitch) }, shown);
  const buttons = element("p", { class: "play-presets" }, button("Turn left", "\u2190", -TURN, 0), button("Turn right", "\u2192", TURN, 0), button("Tilt up", "\u2191", 0, -TURN), button("Tilt down", "\u2193", 0, TURN),
    element("button", { type: "button", onclick: () => { Object.assign(state, { yaw: 30, pitch: 20 }); show(); } }, "From the side"),
    element("button", { type: "button", onclick: () => { Object.assign(state, { yaw: 0, pitch: 90 }); show(); } }, "From above"));
  const facts = element("table"), said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("cone", root);
  const key = (colour, words) => element("span", { class: "play-key" }, element("span", { class: "chip", style: `background: var(${colour})` }), words);
  const more = element("details", { class: "play-more" }, element("summary", {}, "More: turn the clouds, another text, one word, the numbers"), buttons,
    element("div", { class: "play-two" }, element("div", {}, text, rowSlider.whole, look.whole), element("div", {}, facts)));
  root.replaceChildren(element("p", { class: "play-prompt" }, element("b", {}, "Move the layer to the end."), " Each dot is a word. Which cloud will close, the trained one or the random one? Guess first."),
    layerSlider.whole, network.whole, element("div", { class: "play-clouds" }, ...clouds.map(cloud => cloud.whole)),
    element("p", { class: "play-legend" }, key("--play-pp", "word nearer to the mean direction than the average word"), key("--play-p", "word further from it"), key("--play-accent", "mean direction; the ring stands as far from it as the average word")), said,
    element("p", { class: "play-legend" }, "Each word stands at its true angle with the mean direction. Around it, words are placed by the two directions in which they differ most. One word is named, so that you can follow it."), more, link);
  let drag = null;
  for (const { canvas, space } of clouds) {
    canvas.addEventListener("pointerdown", event => { drag = [event.clientX, event.clientY, state.yaw, state.pitch]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => {
      if (!drag) return;
      state.yaw = wrap(Math.round(drag[2] + (event.clientX - drag[0]) / 2));
      state.pitch = Math.round(Math.min(Math.max(drag[3] + (event.clientY - drag[1]) / 2, -90), 90));
      show();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drag = null; });
    space.addEventListener("keydown", event => {
      const by = { ArrowLeft: [-TURN, 0], ArrowRight: [TURN, 0], ArrowUp: [0, -TURN], ArrowDown: [0, TURN] }[event.key];
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      turn(...by);
    });
  }

  // ---- drawing: the mean direction points up ----
  function draw() {
    if (!root.hidden) clouds.forEach(cloud => paint(cloud.canvas, cloud.which()));
  }
  function paint(canvas, which) {
    const on = Play.surface(canvas);
    if (!on) return;
    const { pen, box, look: style } = on;
    const colour = variable => style.getPropertyValue(variable), { points, resultant } = measure(which), unit = Math.min(box.width, box.height) * .44;
    const [sy, cy, sp, cp] = [Math.sin(state.yaw * RAY), Math.cos(state.yaw * RAY), Math.sin(state.pitch * RAY), Math.cos(state.pitch * RAY)];
    const see = ([up, y, z]) => {    // right, down and towards the reader
      const [right, depth] = [cy * y - sy * z, sy * y + cy * z];
      return [box.width / 2 + unit * right, box.height / 2 - unit * (cp * up - sp * depth), cp * depth + sp * up];
    };
    const line = (from, to, stroke, width) => {
      pen.strokeStyle = stroke;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(...see(from).slice(0, 2));
      pen.lineTo(...see(to).slice(0, 2));
      pen.stroke();
    };
    const sine = Math.sqrt(1 - resultant ** 2), rim = Array.from({ length: 73 }, (_, k) => [resultant, sine * Math.cos(5 * k * RAY), sine * Math.sin(5 * k * RAY)]);
    pen.strokeStyle = colour("--play-line");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.arc(box.width / 2, box.height / 2, unit, 0, 7);
    pen.stroke();
    pen.fillStyle = colour("--play-accent");
    pen.globalAlpha = .05;
    for (let k = 0; k < 72; k++) {
      pen.beginPath();
      for (const corner of [[0, 0, 0], rim[k], rim[k + 1]]) pen.lineTo(...see(corner).slice(0, 2));
      pen.fill();
    }
    pen.globalAlpha = 1;
    rim.slice(1).forEach((corner, k) => line(rim[k], corner, colour("--play-accent"), 1));
    for (let k = 0; k < 72; k += 6) line([0, 0, 0], rim[k], colour("--play-line"), .7);
    const shown = points.map((p, i) => ({ p: placed(p), i, inside: p[0] >= resultant })).sort((a, b) => see(a.p)[2] - see(b.p)[2]);
    for (const { p, i, inside } of shown) {
      const [x, y, near] = see(p), ink = colour(inside ? "--play-pp" : "--play-p"), own = i === state.row;
      line([0, 0, 0], p, ink, own ? 2 : .5);
      pen.fillStyle = ink;
      pen.beginPath();
      pen.arc(x, y, own ? 6 : 3 + near, 0, 7);
      pen.fill();
      if (own) {
        pen.fillStyle = style.color;
        pen.font = `600 13px ${style.fontFamily}`;
        pen.textAlign = x > box.width / 2 ? "right" : "left";
        pen.fillText(TOKENS[state.text][i], x + (x > box.width / 2 ? -9 : 9), y - 7);
      }
    }
    line([0, 0, 0], [resultant, 0, 0], colour("--play-accent"), 5);
  }
  const percent = x => `${(100 * x).toFixed(0)}\u00a0%`;
  const angle = x => `${(Math.acos(Math.min(x, 1)) / RAY).toFixed(0)}\u00b0`;
  function tell() {
    const both = clouds.map(cloud => measure(cloud.which())), row = (label, value) => element("tr", {}, element("td", {}, label), ...both.map(m => element("td", {}, value(m))));
    const other = WORDS[NETWORKS[state.network]];
    clouds[1].head.textContent = other[0].toUpperCase() + other.slice(1);
    facts.replaceChildren(element("caption", {}, `${n} vectors, ${name(state.layer)}: MiniLM, and the network beside it`), element("tbody", {}, row("cone index, length of the sum of vectors", m => m.index.toFixed(1)),
      row("resultant length of unit vectors", m => m.resultant.toFixed(3)), row("mean cosine of two vectors", m => m.cosine.toFixed(3)), row("half angle of the cone", m => angle(m.resultant)),
      row("words inside it", m => `${m.inside} of ${n}`), row("share of the variance on the three axes", m => percent(m.held)),
      row(`\u201c${TOKENS[state.text][state.row]}\u201d and the mean`, m => angle(m.points[state.row][0]))));
    const [trained, random] = both.map(m => m.cosine), near = Math.abs(trained - random) < .05;
    said.textContent = `${state.layer ? `After layer ${state.layer - 1}` : "Before the first layer"} two words of MiniLM have a mean cosine of ${trained.toFixed(2)}. With ${other} it is ${random.toFixed(2)}`
      + (near ? ": about as much." : trained < random ? ": its words point more the same way." : ": its words point less the same way.");
  }
  function show() {
    text.value = String(state.text);
    draw();
    tell();
    set(state);
  }
  show();
  Play.redraw(root, draw);
});
