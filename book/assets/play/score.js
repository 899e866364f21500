// One score in four parts: two words, four numbers that the reader moves, and what they make of scores and weights.
// Word A is 0 and word B is 1 in the one coordinate that this head reads; a query is factor times word plus bias, and so is a key.
Play.viewer("score", async root => {
  "use strict";
  const { element, scoreColour } = Play, MOST = 4, WORDS = ["A", "B"];
  const NAMES = { wq: "query factor", bq: "query bias", wk: "key factor", bk: "key bias" };
  const PARTS = { content: "content", semi: "semi-bias", side: "query side", constant: "constant" };
  const START = JSON.parse(root.dataset.start), state = { ...START };
  for (const [key, text] of Object.entries(Play.recall("score")))
    if (Object.hasOwn(state, key) && /^-?\d$/.test(text) && Math.abs(Number(text)) <= MOST) state[key] = Number(text);
  let before = { ...state }, moving = null;           // the numbers when the slider that moves was touched first

  // ---- the mathematics ----
  const square = entry => [0, 1].map(i => [0, 1].map(j => entry(i, j)));
  const parts = ({ wq, bq, wk, bk }) => ({ content: square((i, j) => wq * i * wk * j), semi: square((i, j) => bq * wk * j),
    side: square(i => wq * i * bk), constant: square(() => bq * bk) });
  const scores = s => square((i, j) => (s.wq * i + s.bq) * (s.wk * j + s.bk));
  const weights = s => scores(s).map(row => {
    const powers = row.map(x => Math.exp(x - Math.max(...row))), total = powers[0] + powers[1];
    return powers.map(x => x / total);
  });
  root.numbers = { parts: () => parts(state), scores: () => scores(state), weights: () => weights(state) };

  // ---- controls ----
  const slider = key => Play.slider({ label: NAMES[key][0].toUpperCase() + NAMES[key].slice(1), min: -MOST, max: MOST, step: 1, value: state[key],
    text: said, change: value => change(key, value) });
  const said = x => String(x).replace("-", "\u2212"), percent = x => `${Math.round(100 * x)}\u00a0%`;
  const sliders = Object.fromEntries(Object.keys(NAMES).map(key => [key, slider(key)]));
  const again = element("button", { type: "button", onclick: () => {
    Object.assign(state, START);
    [before, moving] = [{ ...state }, null];
    for (const key of Object.keys(NAMES)) sliders[key].set(state[key]);
    show();
  } }, "Start again");
  function change(key, value) {
    if (key !== moving) [before, moving] = [{ ...state }, key];
    state[key] = value;
    show();
  }

  // ---- matrices: a table each, so that a screen reader can read them too ----
  function matrix(title) {
    const cells = square(() => element("td")), table = element("table", { class: "play-matrix" }, element("caption", {}, title),
      element("tr", {}, element("td"), ...WORDS.map(word => element("th", { scope: "col" }, `at ${word}`))),
      ...WORDS.map((word, i) => element("tr", {}, element("th", { scope: "row" }, word), ...cells[i])));
    return { table, fill(values, text, colour) {
      values.forEach((row, i) => row.forEach((x, j) => {
        cells[i][j].textContent = text(x);
        cells[i][j].style.cssText = colour(x);
      }));
    } };
  }
  function ink(colour) {                               // black or white, whichever stands out more from it
    const [r, g, b] = colour.match(/\d+/g).map(x => (x / 255 <= .04 ? x / 3300 : ((x / 255 + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b < .179 ? "#fff" : "#000";
  }
  const painted = colour => `background: ${colour}; color: ${ink(colour)}`;
  const sum = matrix("score"), each = Object.fromEntries(Object.entries(PARTS).map(([key, name]) => [key, matrix(name)])), after = matrix("weights");
  const sign = text => element("span", { class: "play-sign", "aria-hidden": "true" }, text);
  const line = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("score", root);
  root.replaceChildren(
    element("p", { class: "play-prompt" }, "Guess: where will A look when you drag the query bias to 0? Then drag it, and the key bias too."),
    element("div", { class: "play-two" }, element("div", {}, sliders.wq.whole, sliders.bq.whole), element("div", {}, sliders.wk.whole, sliders.bk.whole)), line,
    element("div", { class: "play-equation" }, sum.table, ...Object.values(each).flatMap((part, k) => [sign(k ? "+" : "="), part.table])),
    element("div", { class: "play-equation" }, element("p", {}, "A softmax makes weights of each row of scores:"), after.table),
    element("p", { class: "play-presets" }, again), link);

  // ---- what is shown ----
  function tell() {
    const now = weights(state), then = weights(before), moved = [0, 1].map(i => Math.abs(now[i][1] - then[i][1]) > 5e-4);
    if (!moving || state[moving] === before[moving]) return "A row is the word that looks. Each entry is the query of that word times the key of the other, for instance "
      + `${said(state.wq + state.bq)} times ${said(state.wk + state.bk)} where B looks at B.`;
    const what = `You moved the ${NAMES[moving]} from ${said(before[moving])} to ${said(state[moving])}. `;
    if (!moved[0] && !moved[1]) {
      const same = String(scores(state)) === String(scores(before));
      return what + (same ? "Nothing changed: no score, no weight." : "Scores changed, but no weight did: each row went up or down as a whole.");
    }
    return what + WORDS.map((word, i) => (moved[i] ? `${word} now gives B ${percent(now[i][1])} of its weight; it was ${percent(then[i][1])}.`
      : `The weights of ${word} stayed as they were.`)).join(" ");
  }
  function show() {
    const now = parts(state), all = scores(state), limit = Math.max(1, ...[all, ...Object.values(now)].flat(2).map(Math.abs));
    const coloured = x => painted(scoreColour(x, limit));
    sum.fill(all, said, coloured);
    for (const [key, part] of Object.entries(each)) part.fill(now[key], said, coloured);
    after.fill(weights(state), percent, x => painted(Play.weightColour(x)));
    line.textContent = tell();
    set(state);
  }
  show();
});
