// Why does it look there? Arcs between the words of a sentence, and the score of one of them in its four parts, from the
// record why-smollm2. Parts there are hundredths of a nat relative to the row's mean, attention is in ten-thousandths.
Play.viewer("why", async root => {
  "use strict";
  const { element } = Play, MOST = 6, SVG = "http://www.w3.org/2000/svg";
  await Play.load("why-smollm2.js");
  const { values, arrays } = Play.models["why-smollm2"];
  const sentences = JSON.parse(values.sentences), heads = JSON.parse(values.heads);
  const parts = Play.array(arrays.parts), attention = Play.array(arrays.attention), targets = Play.array(arrays.targets);
  const entries = attention.length / heads.length, state = JSON.parse(root.dataset.start);
  const starts = sentences.map((_, s) => sentences.slice(0, s).reduce((sum, words) => sum + words.length * (words.length + 1) / 2, 0));
  for (const [key, text] of Object.entries(Play.recall("why"))) if (Object.hasOwn(state, key) && /^\d{1,2}$/.test(text)) state[key] = Number(text);
  const most = (key, count) => { state[key] = Math.min(state[key], count - 1); };
  most("sentence", sentences.length);
  most("head", heads.length);
  most("word", sentences[state.sentence].length);
  most("to", state.word + 1);

  // ---- numbers ----
  const place = (i, j) => starts[state.sentence] + i * (i + 1) / 2 + j;
  const share = (i, j) => attention[state.head * entries + place(i, j)] / 1e4;
  const score = (i, j) => Array.from({ length: 4 }, (_, p) => parts[(p * heads.length + state.head) * entries + place(i, j)]);
  const ranked = i => Array.from({ length: i + 1 }, (_, j) => j).sort((a, b) => share(i, b) - share(i, a));
  root.numbers = { share, score };

  // ---- controls ----
  const restart = () => { [state.to] = ranked(state.word); };
  const clearest = () => {       // the word that gives most of its attention to one between the first and itself
    const words = sentences[state.sentence], shares = words.map((word, i) => (/\w/.test(word) ? Math.max(0, ...ranked(i).filter(j => j && j < i).map(j => share(i, j))) : 0));
    return shares.indexOf(Math.max(...shares));
  };
  const sentence = element("select", { "aria-label": "Sentence", onchange() { state.sentence = Number(this.value); state.word = clearest(); spell(); restart(); show(); } },
    ...sentences.map((words, s) => element("option", { value: s }, words.join(" ").replace(/ (?=[.,?])| \u00b7/g, ""))));
  sentence.value = state.sentence;
  const head = Play.choice({ name: "Head", look: "play-buttons", value: String(state.head), change: value => { state.head = Number(value); restart(); show(); },
    options: heads.map(([, , name], k) => ({ value: String(k), label: name })) });
  const arcs = document.createElementNS(SVG, "svg"), line = element("div", { class: "play-arcs" }), about = element("p", { class: "play-legend" });
  const looked = element("div"), said = element("p", { class: "play-said", role: "status" }), body = element("tbody"), { link, set } = Play.permalink("why", root);
  arcs.setAttribute("aria-hidden", "true");
  const copy = element("button", { type: "button", async onclick() {
    link.click();
    try { await navigator.clipboard.writeText(link.href); copy.textContent = "Copied"; } catch { /* the address bar has it */ }
  } }, "Copy link");
  const image = element("button", { type: "button", onclick: save }, "Save as an image");
  root.replaceChildren(element("p", { class: "play-prompt" }, "Click a word: where does it look, and why?"), element("div", { class: "play-bar-top" }, sentence), head.whole,
    line, element("p", { class: "play-head" }, "It looks most at"), looked, said, element("table", {}, body), element("details", {}, element("summary", {}, "More: this head in other texts"), about), element("p", { class: "play-bar-top" }, copy, image, link));

  let boxes = [], pick = null;
  function spell() {             // the sentence as a choice of the word that looks
    const words = sentences[state.sentence];
    most("word", words.length);
    boxes = words.map(word => element("span", { class: "play-word" }, word));
    pick = Play.choice({ name: "Word that looks", look: "play-line", value: String(state.word), change: value => { state.word = Number(value); restart(); show(); },
      options: words.map((word, i) => ({ value: String(i), label: `${word}, word ${i + 1}`, shown: [boxes[i]] })) });
    line.replaceChildren(arcs, pick.whole);
  }

  // ---- drawing ----
  const percent = x => (x < .01 ? "less than 1\u00a0%" : `${Math.round(100 * x)}\u00a0%`);
  const number = x => `${x < 0 ? "\u2212" : "+"}${(Math.abs(x) / 100).toFixed(2)}`;
  const name = i => `\u201c${sentences[state.sentence][i]}\u201d`;
  const middle = (i, frame) => { const box = boxes[i].getBoundingClientRect(); return [box.left + box.width / 2 - frame.left, box.top - frame.top]; };
  function draw() {
    const frame = line.getBoundingClientRect();
    if (root.hidden || !frame.width) return;
    arcs.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    arcs.replaceChildren(...ranked(state.word).filter(j => j !== state.word && share(state.word, j) >= .01).map(j => {
      const [[a, b], [c, d]] = [middle(state.word, frame), middle(j, frame)], arc = document.createElementNS(SVG, "path");
      arc.setAttribute("d", `M${a} ${b}Q${(a + c) / 2} ${Math.min(b, d) - Math.min(20 + Math.abs(a - c) / 4, 70)} ${c} ${d}`);
      arc.setAttribute("stroke-width", 1 + 9 * share(state.word, j));
      arc.setAttribute("class", j === state.to ? "chosen" : "");
      return arc;
    }));
  }
  function tell() {
    const { word: i, to: j } = state, its = score(i, j), total = its.reduce((a, b) => a + b), [layer, at] = heads[state.head];
    const [before, first, same, then] = targets.subarray(4 * state.head), back = i - j, words = back === 1 ? "one word" : `${back} words`;
    const reasons = ["what the two words are", `how much any word here would look at ${name(j)}`,
      `the distance for any two words, ${back ? `${words} back` : "none"}`, `how far back ${name(i)} itself tends to look`];
    // The last two know the place and not the word, so they count as one reason.
    const [content, habit, ...places] = its, groups = [content, habit, places[0] + places[1]], best = groups.indexOf(Math.max(...groups));
    about.textContent = `Layer ${layer}, head ${at}. In ${values.passages} other pieces of prose the first token gets ${percent(first)} of its attention, and the token before ${percent(before)}. If the token that looks occurred before, its earlier copy gets ${percent(same)}, and the token after that copy ${percent(then)}.`;
    said.textContent = `${name(i)} gives ${i === j ? "itself" : name(j)} ${percent(share(i, j))} of its attention. Each word it sees gets a score, and the higher the score, the larger the share. This score is ${(Math.abs(total) / 100).toFixed(2)} ${total < 0 ? "below" : "above"} their average. `
      + (groups[best] <= 0 ? "No part speaks for it." : `The main reason: ${["what the two words are.", "any word would look there.", "where it stands."][best]}`)
      + (j === 0 && i > 0 && first > .1 ? ` (In other texts, too, the first token gets ${percent(first)} of this head\u2019s attention.)` : "");
    const whole = groups[2], widest = Math.max(...its.map(Math.abs), Math.abs(whole), 1);
    const bar = part => element("span", { class: "play-length", style: `width: ${(4 * Math.abs(part) / widest).toFixed(2)}em; background: var(${part < 0 ? "--play-accent" : "--play-shuffled"})` });
    const entry = (reason, part, look, known) => element("tr", { class: look }, element("th", { scope: "row" }, reason), element("td", known ? { "data-part": part } : {}, bar(part), ` ${number(part)}`));
    body.replaceChildren(entry(reasons[0], content, "", true), entry(reasons[1], habit, "", true), entry("where it stands:", whole, ""),
      ...places.map((part, p) => entry(reasons[2 + p], part, "play-of-above", true)),
      element("tr", {}, element("th", { scope: "row" }, "together: the score, counted from the average"), element("td", {}, number(total))));
  }
  function show() {
    const choices = ranked(state.word).slice(0, MOST);
    if (!choices.includes(state.to)) choices.push(state.to);
    looked.replaceChildren(Play.choice({ name: "Word that is looked at", look: "play-buttons", value: String(state.to), change: value => { state.to = Number(value); show(); looked.querySelector(":checked").focus(); },
      options: choices.map(j => ({ value: String(j), label: `${sentences[state.sentence][j]}${j === state.word ? " (itself)" : ""} ${percent(share(state.word, j))}` })) }).whole);
    boxes.forEach((box, j) => box.style.setProperty("--share", `${j <= state.word ? Math.round(90 * share(state.word, j)) : 0}%`));
    tell();
    draw();
    set(state);
    copy.textContent = "Copy link";
  }

  // ---- the sentence and its arcs as a file ----
  function picture() {
    const frame = line.getBoundingClientRect(), look = getComputedStyle(root), whole = arcs.cloneNode(true), high = Math.round(frame.height + 30);
    const put = (text, x, y, weight) => {
      const made = document.createElementNS(SVG, "text");
      for (const [key, value] of Object.entries({ x, y, fill: look.color, "text-anchor": "middle", "font-family": "sans-serif", "font-size": 14, "font-weight": weight })) made.setAttribute(key, value);
      made.textContent = text;
      whole.append(made);
    };
    for (const arc of whole.children) { arc.setAttribute("fill", "none"); arc.setAttribute("stroke", look.getPropertyValue(arc.classList.contains("chosen") ? "--play-mark" : "--play-soft")); arc.setAttribute("stroke-opacity", .7); }
    boxes.forEach((box, i) => { const [x, y] = middle(i, frame); put(sentences[state.sentence][i], x, y + 18, i === state.word || i === state.to ? 700 : 400); });
    put(`SmolLM2, head ${heads[state.head].slice(0, 2).join(".")}: where ${name(state.word)} looks`, frame.width / 2, high - 8, 400);
    for (const [key, value] of Object.entries({ xmlns: SVG, width: Math.round(frame.width), height: high, viewBox: `0 0 ${frame.width} ${high}`, style: `background: ${look.backgroundColor}` })) whole.setAttribute(key, value);
    return new XMLSerializer().serializeToString(whole);
  }
  function save() {
    const address = URL.createObjectURL(new Blob([picture()], { type: "image/svg+xml" }));
    element("a", { href: address, download: "why.svg" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  root.numbers.picture = picture;
  spell();
  show();
  Play.redraw(root, draw);
});
