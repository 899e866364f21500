// The sink as a volume control: one row of one map of MiniLM with the length of what each token brings, and how far the
// sentence turns as the sink's weight is left out, shared out, or kept while the others are turned up. From the record
// bert-gates-sink-dial.
Play.viewer("sink", async root => {
  "use strict";
  const { element } = Play;
  await Play.load("bert-gates-sink-dial.js");
  const { values, arrays } = Play.models["bert-gates-sink-dial"];
  const effect = Play.array(arrays.effect), weights = Play.array(arrays.weights), lengths = Play.array(arrays.lengths);
  const tokens = JSON.parse(values.tokens), amounts = arrays.effect.shape[1], n = tokens.length;
  const FAR = 0.05, WAYS = [["out", "leave it out"], ["shared", "share it among the others"], ["louder", "keep it, turn the others up"]];
  const state = JSON.parse(root.dataset.start);
  for (const [key, text] of Object.entries(Play.recall("sink"))) {
    if (key === "way" && WAYS.some(way => way[0] === text)) state.way = text;
    if (key === "amount" && /^\d{1,3}$/.test(text) && Number(text) <= 100 && Number(text) % 10 === 0) state.amount = Number(text);
  }

  // ---- the mathematics: new weights of the row, and the recorded effect ----
  function row(way = state.way, amount = state.amount) {
    const taken = amount / 100 * weights[0], up = 1 / (1 - taken);
    if (way === "out") return Array.from(weights, (w, k) => (k ? w : w - taken));
    if (way === "shared") return Array.from(weights, (w, k) => (k ? w : w - taken) * up);
    return Array.from(weights, (w, k) => (k ? w * up : (w - taken) * up + taken));
  }
  const turned = (way = state.way, amount = state.amount) => effect[WAYS.findIndex(one => one[0] === way) * amounts + Math.round(amount / 100 * (amounts - 1))];
  root.numbers = { row, turned };

  // ---- controls ----
  const way = Play.choice({ name: "What to do with its weight", look: "play-buttons", value: state.way, change: x => { state.way = x; show(); },
    options: WAYS.map(([value, label]) => ({ value, label })) });
  const amount = Play.slider({ label: "How much of it", min: 0, max: 100, step: 10, value: state.amount, unit: " %", change: x => { state.amount = x; show(); } });
  const body = element("tbody"), said = element("p", { class: "play-said", role: "status" }), { link, set } = Play.permalink("sink", root);
  const head = ["token", "weight", "what arrives from it"].map(words => element("th", { scope: "col" }, words));
  root.replaceChildren(element("p", {}, `Here are three things to do with the weight of ${tokens[0]}, in every layer. Choose one and move the slider: how far does the vector of a text turn?`),
    way.whole, amount.whole, element("table", {}, element("thead", {}, element("tr", {}, ...head)), body), said, link);

  const widest = Math.max(...weights), most = Math.max(...Array.from(weights, (w, k) => w * lengths[k])) * 2;
  const bar = (share, colour, words = "") => element("td", {}, words, element("span", { class: "play-length", style: `width: calc(${Math.min(share, 1).toFixed(3)} * min(9em, 22vw)); background: var(${colour})` }));
  function show() {
    const now = row();
    body.replaceChildren(...tokens.map((token, k) => element("tr", {}, element("th", { scope: "row", style: "white-space: nowrap; overflow-wrap: normal" }, token),
      bar(now[k] / widest, k ? "--play-pp" : "--play-accent", `${(100 * now[k]).toFixed(0)}\u00a0% `), bar(now[k] * lengths[k] / most, k ? "--play-pp" : "--play-accent"))));
    const far = turned(), angle = (180 / Math.PI * Math.acos(1 - far)).toFixed(0);
    said.textContent = state.amount === 0 ? "Nothing is taken yet: every text is as it was."
      : `The vector of a text turns by ${far.toFixed(3)} on average over 24 texts, an angle of about ${angle} degree${angle === "1" ? "" : "s"}. ` +
        (state.way === "out" ? "The others keep their weights, and next to nothing changes."
          : `${state.way === "louder" ? `Nothing was taken from ${tokens[0]}. All the same, the` : "The"} others get ${(now[1] / weights[1]).toFixed(2)} times their weight in this row` +
            (far < FAR ? ". That is too little to turn the vector far." : ", and the vector is another one."));
    set({ way: state.way, amount: state.amount });
  }
  show();
});
