// What all viewers share: elements, controls, maps with their colours, links to a state, scripts loaded on first use.
// A page holds <div class="play" data-play="NAME">; the script of that viewer registers it with Play.viewer(NAME, make).
// The static picture beside it stays until the viewer has drawn itself, and comes back in print.
window.Play = (() => {
  "use strict";
  const HERE = document.currentScript.src.replace(/[^/]*$/, "");
  // cividis and PRGn at nine points, as matplotlib has them (tests/book/pages/test_play.py)
  const WEIGHTS = ["#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78", "#9b9476", "#bcae6c", "#dec958", "#fee838"];
  const SCORES = ["#40004b", "#7f3c8d", "#ae8bbd", "#dec9e2", "#f6f7f6", "#cbeac5", "#7ec37f", "#298440", "#00441b"];
  const makers = new Map(), loading = new Map();

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  // ---- scripts and data ----
  function load(file) {          // a script works from file:// where fetch does not
    if (!loading.has(file)) loading.set(file, new Promise((done, failed) => {
      document.head.append(element("script", { src: HERE + file, onload: done, onerror: () => {
        loading.delete(file);
        failed(new Error(`${file} could not be loaded`));
      } }));
    }));
    return loading.get(file);
  }
  function bytes(base64) {
    const text = atob(base64), out = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
    return out;
  }
  function halves(base64) {      // half precision to single precision
    const raw = new Uint16Array(bytes(base64).buffer), out = new Float32Array(raw.length);
    for (let i = 0; i < raw.length; i++) {
      const h = raw[i], exponent = (h >> 10) & 31, fraction = h & 1023;
      const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
      out[i] = h & 0x8000 ? -size : size;
    }
    return out;
  }

  function array({ dtype, data }) {   // of book.publish.record_script
    const kinds = { float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array };
    return dtype === "float16" ? halves(data) : new kinds[dtype](bytes(data).buffer);
  }

  // ---- colours ----
  function rgb(hex) { return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)); }
  function along(stops, share) { // share from 0 to 1
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    const [a, b] = [rgb(stops[low]), rgb(stops[low + 1])];
    return a.map((x, k) => Math.round(x + (at - low) * (b[k] - x)));
  }
  const css = colour => `rgb(${colour.join(",")})`;
  const weightColour = x => css(along(WEIGHTS, Math.sqrt(x)));
  const scoreColour = (x, limit) => css(along(SCORES, .5 + .5 * x / (limit || 1)));

  // ---- controls: native elements, so that keyboard and screen reader work as everywhere ----
  function slider({ label, min, max, step, value, unit = "", text = x => `${x}${unit}`, change }) {
    const said = element("output");
    const range = element("input", { type: "range", min, max, step, "aria-label": label });
    const say = () => { said.textContent = text(Number(range.value)); range.setAttribute("aria-valuetext", said.textContent); };
    range.value = value;
    range.addEventListener("input", () => { say(); change(Number(range.value)); });
    say();
    const whole = element("label", { class: "play-slider" }, element("span", {}, label), range, said);
    return { whole, range, set(x) { range.value = x; say(); }, get value() { return Number(range.value); } };
  }
  function toggle({ label, checked = true, change }) {
    const box = element("input", { type: "checkbox" });
    box.checked = checked;
    box.addEventListener("change", () => change(box.checked));
    const text = element("span");
    text.append(...[].concat(label));
    return { whole: element("label", { class: "play-toggle" }, box, text), box };
  }
  // One of several, as radio buttons whose labels may hold anything: arrow keys walk through them.
  let groups = 0;
  function choice({ name, options, value, change, look = "" }) {
    const group = `play-${++groups}`;
    const boxes = options.map(option => {
      const box = element("input", { type: "radio", name: group, value: option.value, "aria-label": option.label });
      box.checked = option.value === value;
      box.addEventListener("change", () => change(option.value));
      const shown = option.shown || [element("span", {}, option.label)];
      return { box, whole: element("label", { title: option.title || option.label }, box, ...shown) };
    });
    const whole = element("div", { class: `play-choice ${look}`, role: "radiogroup", "aria-label": name },
      ...boxes.map(b => b.whole));
    return { whole, set(x) { boxes.forEach((b, k) => { b.box.checked = options[k].value === x; }); } };
  }

  // All heads as small maps, a row per layer; `change(layer, head)` is told which was picked.
  function sheet({ layers, heads, layer, head, look = "play-sheet", change }) {
    const thumbs = Array.from({ length: layers * heads }, () => element("canvas", { "aria-hidden": "true", class: "play-thumb" }));
    const pick = choice({ name: "Head", look, value: `${layer}.${head}`, change: value => change(...value.split(".").map(Number)),
      options: thumbs.map((canvas, k) => ({ value: `${Math.floor(k / heads)}.${k % heads}`, label: `Layer ${Math.floor(k / heads)}, head ${k % heads}`, shown: [canvas] })) });
    pick.whole.style.gridTemplateColumns = `repeat(${heads}, minmax(0, 1fr))`;
    return { ...pick, thumbs, set: (l, h) => pick.set(`${l}.${h}`) };
  }

  // A canvas made as fine as the screen: what draws on it, its box and its style; null while it is not shown.
  function surface(canvas) {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    if (!box.width) return null;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    return { pen, box, look: getComputedStyle(canvas) };
  }

  // ---- maps: cells on a canvas; `colour(i, j)` is a CSS colour or null, `labels` stand at the left and on top ----
  function paint(canvas, { rows, columns, colour, labels = [], mark = null, side = 0 }) {
    const on = surface(canvas);
    if (!on) return;
    const { pen, box, look } = on;
    const [wide, high] = [(box.width - side) / columns, (box.height - side) / rows];
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const fill = colour(i, j);
      if (!fill) continue;
      pen.fillStyle = fill;
      pen.fillRect(side + j * wide, side + i * high, wide + .5, high + .5);
    }
    pen.fillStyle = look.color;
    pen.font = `${Math.min(11, Math.max(8, high - 2))}px ${look.fontFamily}`;
    const fits = text => { while (text.length > 1 && pen.measureText(text).width > side - 6) text = text.slice(0, -1); return text; };
    if (side && high >= 8) labels.forEach((label, i) => {
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(fits(label), side - 4, side + (i + .5) * high);
      pen.save();
      pen.translate(side + (i + .5) * wide, side - 4);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(fits(label), 0, 0);
      pen.restore();
    });
    if (mark) {
      pen.strokeStyle = look.getPropertyValue("--play-mark");
      pen.lineWidth = 2;
      pen.strokeRect(side + 1, side + mark[0] * high, columns * wide - 2, high);
      pen.strokeRect(side + mark[1] * wide, side + mark[0] * high, wide, high);
    }
  }
  // Curves over 0 .. n - 1 on a canvas: each is { values, colour, width }; `marks` are [position, colour, text]; `ends`
  // stand below the axis, left and right; `levels` are lines [value, text] across.
  function plot(canvas, { curves, low, high, marks = [], ends = null, levels = [] }) {
    const on = surface(canvas);
    if (!on) return;
    const { pen, box, look } = on, n = curves[0].values.length;
    const x = j => 4 + j / (n - 1) * (box.width - 8), y = v => box.height - 16 - (v - low) / (high - low || 1) * (box.height - 34);
    pen.font = `11px ${look.fontFamily}`;
    const line = (colour, width, points) => {
      pen.strokeStyle = look.getPropertyValue(colour) || colour;
      pen.lineWidth = width;
      pen.beginPath();
      points.forEach(([a, b], k) => (k ? pen.lineTo(a, b) : pen.moveTo(a, b)));
      pen.stroke();
    };
    if (!levels.length) line("--play-line", 1, [[x(0), y(Math.max(low, 0))], [x(n - 1), y(Math.max(low, 0))]]);
    pen.fillStyle = look.color;
    for (const [value, text] of levels) {
      line("--play-line", 1, [[x(0), y(value)], [x(n - 1), y(value)]]);
      pen.fillText(text, 4, y(value) - 3);
    }
    for (const { values, colour, width = 1.6 } of curves) line(colour, width, Array.from(values, (v, j) => [x(j), y(v)]).filter(p => isFinite(p[1])));
    for (const [at, colour, text] of marks) {
      line(colour, 1, [[x(at), 14], [x(at), box.height - 14]]);
      pen.fillStyle = look.color;
      pen.textAlign = at < n * .15 ? "left" : at > n * .85 ? "right" : "center";
      pen.fillText(text, x(at), 10);
    }
    pen.fillStyle = look.color;
    pen.textAlign = "left";
    const [left, right] = ends || ["key 0", String(n - 1)];
    pen.fillText(left, 2, box.height - 3);
    pen.textAlign = "right";
    pen.fillText(right, box.width - 2, box.height - 3);
  }
  // A map that a finger, a mouse or the arrow keys walk over; `move(i, j)` is told the cell.
  function map({ label, move, cell, size, side = 0 }) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    const whole = element("div", { class: "play-map", tabindex: "0", role: "application", "aria-label": label,
      "aria-roledescription": "map" }, canvas);
    const go = (i, j) => move(Math.min(Math.max(i, 0), size() - 1), Math.min(Math.max(j, 0), size() - 1));
    const point = event => {
      const box = canvas.getBoundingClientRect(), n = size();
      const at = (x, start, length) => Math.floor((x - start - side) / (length - side) * n);
      go(at(event.clientY, box.top, box.height), at(event.clientX, box.left, box.width));
    };
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointermove", event => { if (event.pointerType === "mouse") point(event); });
    whole.addEventListener("keydown", event => {
      const [i, j] = cell(), to = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1],
        ArrowRight: [i, j + 1], Home: [i, 0], End: [i, size() - 1] }[event.key];
      if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      go(...to);
    });
    return { whole, canvas };
  }

  // ---- links to a state: ?viewer.key=value#figure ----
  function recall(name) {
    const state = {};
    for (const [key, value] of new URLSearchParams(location.search))
      if (key.startsWith(`${name}.`)) state[key.slice(name.length + 1)] = value;
    return state;
  }
  function permalink(name, root) {
    const link = element("a", { class: "play-link", href: "#" }, "Link to this view");
    link.addEventListener("click", event => {
      event.preventDefault();
      history.replaceState(null, "", link.href);
      link.textContent = "The address bar has the link now";
    });
    const set = state => {
      const query = new URLSearchParams([...new URLSearchParams(location.search)].filter(([k]) => !k.startsWith(`${name}.`)));
      for (const [key, value] of Object.entries(state)) query.set(`${name}.${key}`, value);
      link.href = `${location.pathname}?${query}#${root.parentElement.closest("[id]")?.id || ""}`;
      link.textContent = "Link to this view";
    };
    return { link, set };
  }

  // ---- start each viewer when it comes into view ----
  function viewer(name, make) {
    makers.set(name, make);
    for (const root of document.querySelectorAll(`.play[data-play="${name}"]`)) watch(root, make);
  }
  function watch(root, make) {
    const start = async () => {
      try {
        await make(root);
        root.hidden = false;
        root.dataset.ready = "";
        root.dispatchEvent(new Event("shown"));
        root.closest("figure")?.classList.add("played");
      } catch (error) {          // the static picture stays
        root.replaceChildren(element("p", { class: "play-error" }, `This viewer did not start: ${error.message}.`));
        root.hidden = false;
        throw error;
      }
    };
    const seen = new IntersectionObserver(entries => {
      if (entries.some(entry => entry.isIntersecting)) { seen.disconnect(); start(); }
    }, { rootMargin: "300px" });
    seen.observe(root.closest("figure") || root.parentElement);
  }
  // Draw once the viewer is there, and again where the size or the colours of the page change.
  function redraw(root, draw) {
    root.addEventListener("shown", draw);
    new ResizeObserver(draw).observe(root);
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }
  return { element, load, bytes, halves, array, weightColour, scoreColour, slider, toggle, choice, sheet, surface, paint, plot, map, recall,
    permalink, viewer, redraw, models: {}, WEIGHTS, SCORES };
})();
