// A sentence, one head's scores in their parts, and two switches. Behind "more": every head, further switches, predictions.
Play.viewer("sentence", async root => {
  "use strict";
  const { element, paint, weightColour, scoreColour } = Play, LONGEST = 48, SHOWN = 5, LONG = "long_b_K";
  const MODELS = { "gpt2-mini": "gpt2-mini, learned positions", "neox-mini": "neox-mini, rotary positions" };
  const chosen = Play.recall("sentence").model;
  let model = await Play.model(Object.hasOwn(MODELS, chosen ?? "") ? chosen : "gpt2-mini");
  const { layers, heads } = model.config;
  const start = JSON.parse(root.dataset.start), recalled = Play.recall("sentence");
  const SWITCHES = [["b_Q", "query bias", "Q"], ["b_K", "key bias", "K"], ["b_V", "value bias", "V"], ["positions", "positions"],
    ["T^p", "semi-bias of positions"], ["T^pp", "score of position against position"]];
  const PARTS = [["weights", "weights", "attention weights"], ["scores", "score", "scores"],
    ["content", "content", "content"], ["semiBias", "semi-bias", "key semi-bias"], ["constants", "constants", "row constants"]];
  const whole = (text, below, fallback) => { const x = Number(text); return text !== undefined && Number.isInteger(x) && x >= 0 && x < below ? x : fallback; };
  const state = { text: recalled.text ?? start.text, layer: whole(recalled.layer, layers, start.layer),
    head: whole(recalled.head, heads, start.head), query: whole(recalled.query, LONGEST, start.query), key: whole(recalled.key, LONGEST, start.key),
    part: PARTS.some(p => p[0] === recalled.part) ? recalled.part : "weights",
    off: new Set((recalled.off || "").split(" ").filter(name => name === LONG || SWITCHES.some(s => s[0] === name))) };
  let tokens = [], full = null, now = null, words = [];

  // ---- controls ----
  const input = element("input", { type: "text", id: `${root.id}-text`, autocomplete: "off", spellcheck: "false",
    "aria-describedby": `${root.id}-note` });
  input.value = state.text;
  const note = element("p", { class: "play-note", id: `${root.id}-note`, role: "status" });
  const small = name => element("canvas", { "aria-hidden": "true", class: name });
  const headChoice = Play.sheet({ layers, heads, layer: state.layer, head: state.head, look: "play-heads",
    change: (layer, head) => { Object.assign(state, { layer, head }); show(); } });
  const partMaps = PARTS.map(() => small("play-part")), partNames = PARTS.map(([, label]) => element("span", {}, label));
  const partChoice = Play.choice({ name: "Part that the large map shows", look: "play-parts", value: state.part,
    options: PARTS.map(([value, label, title], k) => ({ value, label, title, shown: [partMaps[k], partNames[k]] })),
    change: value => { state.part = value; show(); } });
  const symbol = ([, words, low]) => (low ? [`${words} b`, element("sub", {}, low)] : [words]);
  const EQUATION = [["", "scores", "score"], ["=", "content", "content"], ["+", "semiBias", "semi-bias"], ["+", "constants", "constants"],
    ["\u2192", "weights", "attention"]];
  const equationMaps = EQUATION.map(() => small("play-part")), equationNames = EQUATION.map(([, , label]) => element("span", {}, label));
  const equation = element("div", { class: "play-sum", role: "img", "aria-label":
    "The score is the sum of content, semi-bias and constants; a softmax makes the attention of it." },
  ...EQUATION.flatMap(([sign], k) => [...(sign ? [element("b", { "aria-hidden": "true" }, sign)] : []),
    element("div", {}, equationMaps[k], equationNames[k])]));
  const toggles = SWITCHES.map(one => Play.toggle({ label: symbol(one), checked: !state.off.has(one[0]),
    change: on => { state.off[on ? "delete" : "add"](one[0]); compute(); } }));
  const long = Play.toggle({ label: "a long key bias", checked: state.off.has(LONG),
    change: on => { state.off[on ? "add" : "delete"](LONG); compute(); } });
  const modelChoice = Play.choice({ name: "Model", look: "play-buttons", value: model.name,
    options: Object.entries(MODELS).map(([value, label]) => ({ value, label })),
    change: async value => {
      try {
        model = await Play.model(value);
        tokens = [];
        compute();
      } catch (error) {
        note.textContent = `${error.message}.`;
        modelChoice.set(model.name);
      }
    } });
  const map = Play.map({ label: "Attention map: rows are queries, columns are keys; arrow keys move", side: 64,
    size: () => tokens.length, cell: () => [state.query, state.key],
    move: (i, j) => { if (i !== state.query || j !== state.key) { state.query = i; state.key = j; show(); } } });
  const legend = element("p", { class: "play-legend" }), line = element("div", { class: "play-words" });
  const said = element("p", { class: "play-said", role: "status" }), effect = element("p", { class: "play-effect", role: "status" });
  const table = element("table", { class: "play-next" }), { link, set } = Play.permalink("sentence", root);
  const more = element("details", { class: "play-more" }, element("summary", {}, "More: every head, another model, what it predicts"),
    modelChoice.whole,
    element("div", { class: "play-two play-three" },
      element("div", {}, map.whole, legend, said),
      element("div", {}, element("p", { class: "play-head" }, "The heads: two layers of eight"), headChoice.whole,
        element("p", { class: "play-head" }, "One score, its parts"), partChoice.whole,
        element("fieldset", { class: "play-switches" }, element("legend", {}, "Also in the model"), ...toggles.slice(1).map(t => t.whole))),
      element("div", { class: "play-third" }, table)),
    link);
  more.open = ["model", "layer", "head", "key", "part"].some(key => key in recalled && String(recalled[key]) !== String(start[key] ?? { model: "gpt2-mini", part: "weights" }[key]));
  root.replaceChildren(
    element("div", { class: "play-top" }, element("label", { for: input.id }, "Type your own sentence"), input, note),
    line, equation, element("p", { class: "play-prompt" }, "Will the attention change if every key gets the same long bias? Guess, then try both switches."),
    element("div", { class: "play-pair", role: "group", "aria-label": "Biases" }, long.whole, toggles[0].whole),
    effect, more);

  // ---- computing ----
  function compute() {
    const ids = model.tokenizer.encode(state.text);
    if (!ids.length) { note.textContent = "Type at least one letter."; input.setAttribute("aria-invalid", "true"); return; }
    input.removeAttribute("aria-invalid");
    note.textContent = ids.length > LONGEST ? `These are ${ids.length} tokens; the first ${LONGEST} are shown.` : "";
    const read = ids.slice(0, LONGEST);
    if (read.join() !== tokens.map(t => t.id).join()) {
      full = model.run(read);
      tokens = read.map(id => ({ id, text: model.tokenizer.decode(id) }));
      spell();
    }
    now = state.off.size ? model.run(read, state.off) : full;
    show();
  }
  const bare = text => text.trim() || "\u21b5".repeat(text.split("\n").length - 1) || "\u2423";
  function spell() {             // the sentence as a choice of the query
    state.query = Math.min(state.query, tokens.length - 1);
    words = tokens.map((token, i) => element("span", { class: "play-word" }, bare(token.text)));
    const pick = Play.choice({ name: "Query", look: "play-line", value: String(state.query),
      options: tokens.map((token, i) => ({ value: String(i), label: `${bare(token.text)}, position ${i}`, shown: [words[i]] })),
      change: value => { state.query = Number(value); show(); } });
    line.replaceChildren(element("p", { class: "play-head" }, "Click a word, and colour shows where it looks"), pick.whole);
    line.pick = pick;
  }

  // ---- drawing ----
  const partName = part => (part === "constants" && model.config.rotary ? "terms with b_K" : PARTS.find(p => p[0] === part)[2]);
  const cells = (part, i, j) => now.layers[state.layer][state.head][part][i][j];
  function scale() {             // colours: each part less its mean over what is seen, one scale for all
    const means = {}, seen = tokens.flatMap((_, i) => tokens.slice(0, i + 1).map((__, j) => [i, j]));
    for (const [part] of PARTS) means[part] = seen.reduce((sum, [i, j]) => sum + cells(part, i, j), 0) / seen.length;
    const far = part => Math.max(...seen.map(([i, j]) => Math.abs(cells(part, i, j) - means[part])));
    return { means, most: Math.max(far("content"), far("semiBias")) };
  }
  function draw() {
    if (!now || root.hidden) return;
    const n = tokens.length, { means, most } = scale();
    const colour = part => (i, j) => (j > i ? null : part === "weights" ? weightColour(cells(part, i, j)) : scoreColour(cells(part, i, j) - means[part], most));
    paint(map.canvas, { rows: n, columns: n, side: 64, labels: tokens.map(t => bare(t.text)), mark: [state.query, state.key], colour: colour(state.part) });
    PARTS.forEach(([part], k) => paint(partMaps[k], { rows: n, columns: n, colour: colour(part) }));
    EQUATION.forEach(([, part], k) => paint(equationMaps[k], { rows: n, columns: n, colour: colour(part) }));
    headChoice.thumbs.forEach((canvas, k) => {
      const its = now.layers[Math.floor(k / heads)][k % heads].weights;
      paint(canvas, { rows: n, columns: n, colour: (i, j) => (j > i ? null : weightColour(its[i][j])) });
    });
    const end = state.part === "weights" ? ["0", "1"] : [(-most).toFixed(1), `${most.toFixed(1)} nats`];
    const bar = element("span", { class: `play-bar ${state.part === "weights" ? "weights" : "scores"}`, "aria-hidden": "true" });
    const stops = state.part === "weights" ? Array.from({ length: 9 }, (_, k) => weightColour(k / 8)) : Play.SCORES;
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const title = partName(state.part) + (state.part === "weights" ? "" : ", less their mean");
    legend.replaceChildren(...[title, end[0], bar, end[1]].map(part => element("span", {}, part)));
  }
  const number = x => (Math.abs(x) < .005 ? "0.00" : x.toFixed(2)).replace("-", "\u2212");
  function tell() {
    const i = state.query = Math.min(state.query, tokens.length - 1), j = state.key = Math.min(state.key, i);
    const name = k => `\u201c${bare(tokens[k].text)}\u201d`, at = part => cells(part, i, j);
    said.replaceChildren(element("b", {}, `${name(i)} to ${name(j)}`), `: content ${number(at("content"))} + semi-bias ${number(at("semiBias"))} + ${model.config.rotary ? "terms with b_K" : "constants"} ${number(at("constants"))} = score ${number(at("scores"))} nats; weight ${at("weights").toFixed(2)}.`);
    if (state.part !== "weights") {
      const apart = at(state.part) - scale().means[state.part];
      said.append(` The cell\u2019s colour is for ${apart < 0 ? "" : "+"}${number(apart)}, the ${partName(state.part)} less its mean over the map.`);
    }
    words.forEach((word, k) => {
      const weight = k <= i ? cells("weights", i, k) : 0;
      word.style.setProperty("--share", `${Math.round(100 * Math.sqrt(weight))}%`);
    });
    line.pick.set(String(i));
    headChoice.set(state.layer, state.head);
  }
  function predict() {
    const before = full.next(state.query), after = now === full ? before : now.next(state.query);
    const best = Array.from(after.keys()).sort((a, b) => after[b] - after[a]).slice(0, SHOWN);
    const percent = x => `${(100 * x).toFixed(1)}\u00a0%`;
    const row = id => {
      const cell = element("td", { "data-value": after[id], style: `--share: ${100 * after[id]}%` }, percent(after[id]));
      return element("tr", {}, element("th", { scope: "row" }, bare(model.tokenizer.decode(id))),
        element("td", { "data-value": before[id] }, percent(before[id])), cell);
    };
    table.replaceChildren(element("caption", {}, `What ${model.name} predicts after \u201c${bare(tokens[state.query].text)}\u201d, position ${state.query}`),
      element("thead", {}, element("tr", {}, ...["next", "whole", "as switched"].map(t => element("th", { scope: "col" }, t)))),
      element("tbody", {}, ...best.map(row)));
    let moved = 0, shifted = 0;
    after.forEach((p, id) => { shifted += Math.abs(p - before[id]) / 2; });
    now.layers.forEach((layer, l) => layer.forEach((head, h) => head.weights.forEach((row, i) => row.forEach((a, j) => {
      moved = Math.max(moved, Math.abs(a - full.layers[l][h].weights[i][j])); }))));
    Object.assign(effect.dataset, { moved, shifted });
    effect.textContent = happened(moved, shifted, [before, after].map(next => next.indexOf(Math.max(...next))));
  }
  function happened(moved, shifted, guesses) {  // in plain words
    const off = SWITCHES.filter(s => state.off.has(s[0])).map(([, words]) => `the ${words}`);
    const turned = model.config.rotary ? " In this model positions turn the keys, so what the key bias adds is not constant along a row." : "";
    if (!state.off.size) return `The model is as it was trained.${turned || " Its own key bias is almost zero, so its constants are too."}`;
    const listed = off.length > 1 ? `${off.slice(0, -1).join(", ")} and ${off.at(-1)}` : off[0];
    const put = [...(state.off.has(LONG) ? ["With a long key bias"] : []), ...(off.length ? [`${state.off.has(LONG) ? "w" : "W"}ithout ${listed}`] : [])].join(" and ");
    const without = `${put}, `;
    const far = Math.max(...tokens.map((_, i) => Math.abs(now.layers[state.layer][state.head].scores[i][0] - full.layers[state.layer][state.head].scores[i][0])));
    if (moved < 1e-9 && shifted < 1e-9) return far < .1 ? `${without}nothing changed: no attention weight, no prediction.${turned}`
      : `${without}the scores of this head moved by up to ${far.toFixed(1)}, and nothing came of it: no attention weight changed, no prediction.${turned}`;
    const i = state.query, name = k => `\u201c${bare(tokens[k].text)}\u201d`;
    const row = run => Array.from({ length: i + 1 }, (_, j) => run.layers[state.layer][state.head].weights[i][j]);
    const [was, is] = [row(full), row(now)], top = values => values.indexOf(Math.max(...values)), percent = x => `${Math.round(100 * x)}\u00a0%`;
    const looks = top(was) === top(is)
      ? Math.max(...is.map((a, j) => Math.abs(a - was[j]))) < .005 ? `${name(i)} still looks where it looked`
        : `${name(i)} still looks most at ${name(top(is))}, now with ${percent(is[top(is)])} of its attention instead of ${percent(was[top(is)])}`
      : `${name(i)} looks most at ${name(top(is))}, no longer at ${name(top(was))}`;
    const [first, then] = guesses.map(id => `\u201c${bare(model.tokenizer.decode(id))}\u201d`);
    const says = first === then ? `The model\u2019s first guess for the next word stays ${then}` : `The model\u2019s first guess for the next word is ${then}, no longer ${first}`;
    return `${without}${looks}. ${says}${guesses[0] === guesses[1] ? ", with another probability" : ""}.${turned}`;
  }
  function show() {
    partNames.at(-1).textContent = equationNames[3].textContent = model.config.rotary ? "with b_K" : "constants";
    toggles.forEach(({ box, whole }, k) => {
      box.disabled = k > 3 && !!model.config.rotary;
      whole.title = box.disabled ? "neox-mini has no table of positions, so its scores have no such term" : "";
    });
    tell();
    draw();
    predict();
    set({ text: state.text, model: model.name, layer: state.layer, head: state.head, query: state.query, key: state.key, part: state.part, off: [...state.off].join(" ") });
  }
  input.addEventListener("input", () => {   // what is typed last is what the model goes on from
    Object.assign(state, { text: input.value, query: LONGEST });
    compute();
  });
  compute();
  if (!now) { state.text = input.value = start.text; compute(); }   // a link to an empty sentence
  more.addEventListener("toggle", draw);
  Play.redraw(root, draw);
});
