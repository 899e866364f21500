// What a word looks for and what it is told, for three words in the plane: the pattern as an arrow, scores, attention, and
// the messages that arrive. A query is twice the first number of a word plus the bias, a key is the second number; a
// message is twice the first number, in the second place.
Play.viewer("pattern", async root => {
  "use strict";
  const { element } = Play, WORDS = { a: [1, 0], b: [0, 1], c: [1, 1] }, NAMES = Object.keys(WORDS), BIAS = 1;
  const state = JSON.parse(root.dataset.start);
  for (const [key, text] of Object.entries(Play.recall("pattern"))) {
    if (key === "word" && NAMES.includes(text)) state.word = text;
    if (key === "bias" && /^[01]$/.test(text)) state.bias = text === "1";
  }

  // ---- the mathematics ----
  const own = word => [0, 2 * WORDS[word][0]], shared = () => [0, state.bias ? BIAS : 0], message = word => [0, 2 * WORDS[word][0]];
  const pattern = word => own(word).map((x, k) => x + shared()[k]);
  const scores = word => NAMES.map(other => pattern(word).reduce((sum, x, k) => sum + x * WORDS[other][k], 0));
  function attention(word) {
    const powers = scores(word).map(Math.exp), total = powers.reduce((sum, x) => sum + x, 0);
    return powers.map(x => x / total);
  }
  const received = word => [0, 1].map(k => attention(word).reduce((sum, x, j) => sum + x * message(NAMES[j])[k], 0));
  const all = of => NAMES.map(of);
  root.numbers = { patterns: () => all(pattern), scores: () => all(scores), attention: () => all(attention), messages: () => all(message), received: () => all(received) };

  // ---- controls ----
  const pick = Play.choice({ name: "The word that looks", look: "play-buttons", value: state.word, change: x => { state.word = x; show(); },
    options: NAMES.map(value => ({ value, label: `${value} looks` })) });
  const bias = Play.toggle({ label: "query bias", checked: state.bias, change: x => { state.bias = x; show(); } });
  const plane = element("canvas", { "aria-hidden": "true", class: "play-space" }), body = element("tbody"), said = element("p", { class: "play-said", role: "status" });
  const { link, set } = Play.permalink("pattern", root);
  const key = (colour, words) => element("span", { class: "play-key" }, element("span", { style: `background: var(${colour})` }), words);
  root.replaceChildren(
    element("p", { class: "play-prompt" }, "The arrow is what b looks for. Guess: where will b look without the query bias? Then take it away."),
    element("div", { class: "play-pair" }, pick.whole, bias.whole),
    element("div", { class: "play-two" },
      element("div", {}, plane, element("p", { class: "play-legend" }, key("--play-pp", "from the word"), key("--play-p", "from the query bias"))),
      element("div", {}, element("table", {}, element("thead", {}, element("tr", {}, ...["word", "score", "attention", "message"].map(words => element("th", { scope: "col" }, words)))), body), said)),
    link);

  // ---- drawing: the words as discs as large as the attention that they get, the pattern as one arrow or two ----
  function draw() {
    const on = root.hidden ? null : Play.surface(plane);
    if (!on) return;
    const { pen, box, look } = on, unit = Math.min((box.width - 60) / 4, (box.height - 40) / 3.2), from = [(box.width - 1.1 * unit) / 2, box.height - 20];
    const at = ([x, y]) => [from[0] + unit * x, from[1] - unit * y], colour = name => look.getPropertyValue(name);
    const line = (name, width, ...points) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.beginPath();
      points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.stroke();
    };
    line("--play-line", 1, at([-.4, 0]), at([1.6, 0]));
    line("--play-line", 1, at([0, -.2]), at([0, 3.2]));
    pen.font = `12px ${look.fontFamily}`;
    pen.textBaseline = "middle";
    NAMES.forEach((name, j) => {
      const [x, y] = at(WORDS[name]), size = 4 + 14 * Math.sqrt(attention(state.word)[j]);
      pen.fillStyle = colour("--play-accent");
      pen.globalAlpha = .45;
      pen.beginPath();
      pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
      pen.globalAlpha = 1;
      pen.fillStyle = look.color;
      pen.textAlign = "left";
      pen.fillText(name, x + size + 4, y);
    });
    pen.fillText("first number", ...at([1.65, 0]));
    pen.fillText("second number", from[0] + 8, 12);
    const arrow = (name, low, high) => {
      if (low === high) return;
      const [x, y] = at([0, high]);
      line(name, 4, at([0, low]), [x, y + 3]);
      line(name, 4, [x - 6, y + 9], [x, y + 2], [x + 6, y + 9]);
    };
    const end = own(state.word)[1];
    arrow("--play-pp", 0, end);
    arrow("--play-p", end, end + shared()[1]);
    pen.fillStyle = look.color;
    pen.textAlign = "right";
    const [x, y] = at([0, end + shared()[1]]);
    pen.fillText(`pattern (${pattern(state.word)})`.replace(",", ", "), x - 22, y + (end + shared()[1] ? 6 : -12));
  }
  const vector = v => `(${v.map(x => Number(x.toFixed(2))).join(", ")})`;
  function show() {
    const given = attention(state.word), sums = scores(state.word), arrives = vector(received(state.word));
    body.replaceChildren(...NAMES.map((name, j) => element("tr", {}, element("th", { scope: "row" }, `${name} ${vector(WORDS[name])}`), element("td", {}, String(sums[j])),
      element("td", { style: `--share: ${(100 * given[j]).toFixed(1)}%` }, `${(100 * given[j]).toFixed(0)}\u00a0%`), element("td", {}, vector(message(name))))));
    said.textContent = (pattern(state.word)[1] ? `${state.word} looks for ${vector(pattern(state.word))}: for words with a large second number.`
      : `${state.word} looks for nothing: its pattern is (0, 0), so it looks at all words alike.`) + ` Weighted by its attention, the messages add up to ${arrives}.`;
    draw();
    set({ word: state.word, bias: Number(state.bias) });
  }
  show();
  Play.redraw(root, draw);
});
