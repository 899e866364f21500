// Live cells: the code of a story's cell becomes editable and runs in a Python inside the page, which needs no network and
// starts once a page, in a worker. Loaded when a reader presses "Change it" or "Try it" (book/_ext/live.py), as are Python,
// what it imports (book/_ext/live_shim.py, live_check.py), the weights that a cell asks for and what checks an answer.
(() => {
  "use strict";
  const FOLDER = new URL("live/", document.currentScript.src).href;
  const made = (name, attributes, ...children) => {
    const element = Object.assign(document.createElement(name), attributes);
    element.append(...children);
    return element;
  };
  window.Live = { files: {} };

  // ---- in the worker: Python, and the loops over entries ----
  function inWorker() {
    let shim, space, turn = Promise.resolve();
    const unpack = async text => new Uint8Array(await new Response(new Blob([Uint8Array.from(atob(text), c => c.charCodeAt(0))])
      .stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
    const view = x => { const held = x.getBuffer("f64"), { data } = held; held.release(); return data; };
    const even = x => { const near = Math.round(x); return Math.abs(x % 1) === 0.5 && near % 2 ? near - 1 : near; };
    const OPS = {
      add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, truediv: (a, b) => a / b, pow: (a, b) => a ** b,
      floordiv: (a, b) => Math.floor(a / b), mod: (a, b) => a - b * Math.floor(a / b), lt: (a, b) => a < b, le: (a, b) => a <= b,
      gt: (a, b) => a > b, ge: (a, b) => a >= b, eq: (a, b) => a === b, ne: (a, b) => a !== b, and: (a, b) => a && b, or: (a, b) => a || b,
      exp: Math.exp, log: Math.log, sqrt: Math.sqrt, sin: Math.sin, cos: Math.cos, tanh: Math.tanh, abs: Math.abs, trunc: Math.trunc,
      neg: a => -a, pos: a => a, not: a => !a, bool: a => a !== 0, round: even, where: (mask, a, b) => mask ? b : a,
    };
    const sum = line => line.reduce((total, x) => total + x, 0), mean = line => sum(line) / line.length;
    const most = (line, better) => line.reduce((best, x, n) => better(x, line[best]) || x !== x ? n : best, 0);
    const argmax = line => most(line, (x, y) => x > y), argmin = line => most(line, (x, y) => x < y);
    const WHOLE = {
      sum, mean, argmax, argmin, amax: line => line[argmax(line)], amin: line => line[argmin(line)], max: line => line[argmax(line)], min: line => line[argmin(line)],
      median: line => line.sort()[(line.length - 1) >> 1], std: line => { const m = mean(line); return Math.sqrt(sum(line.map(x => (x - m) ** 2)) / (line.length - 1)); },
    };
    const spots = (axes, start) => JSON.parse(axes).reduce((found, axis) => {
      const steps = axis.places ?? Array.from({ length: axis[2] }, (_, n) => axis[0] + n * axis[1]), next = new Int32Array(found.length * steps.length);
      for (let k = 0, i = 0; i < found.length; i++) for (let j = 0; j < steps.length; j++) next[k++] = found[i] + steps[j];
      return next;
    }, Int32Array.of(start));
    const kernels = {
      each(out, op, x, y = 0, z = 0) {
        const [a, b] = [x, y].map(v => typeof v === "number" ? [v] : view(v)), f = OPS[op], o = view(out), s = +(a.length > 1), t = +(b.length > 1);
        for (let i = 0; i < o.length; i++) o[i] = f(a[i * s], b[i * t], z);
      },
      reduce(out, op, x, size, step) {
        const o = view(out), a = view(x), f = WHOLE[op];
        for (let k = 0; k < o.length; k++) {
          const line = new Float64Array(size), first = Math.floor(k / step) * size * step + k % step;
          for (let n = 0; n < size; n++) line[n] = a[first + n * step];
          o[k] = f(line);
        }
      },
      take(out, x, axes, start) { const o = view(out), a = view(x), at = spots(axes, start); for (let i = 0; i < o.length; i++) o[i] = a[at[i]]; },
      put(x, values, axes, start) { const o = view(x), a = view(values), at = spots(axes, start); for (let i = 0; i < a.length; i++) o[at[i]] = a[i]; },
      multiply(out, x, y, n, m, p) {
        const o = view(out), a = view(x), b = view(y);
        for (let r = 0; r * p < o.length; r++)
          for (let k = 0; k < m; k++) {
            const factor = a[r * m + k], row = (Math.floor(r / n) * m + k) * p;
            for (let j = 0; j < p; j++) o[r * p + j] += factor * b[row + j];
          }
      },
    };
    async function start(files) {
      const inside = {}, kinds = { wasm: "application/wasm", json: "application/json" };
      for (const name in files) inside[name] = await unpack(files[name]);
      const nameOf = address => String(address.url ?? address).split("/").pop();
      self.fetch = async address => new Response(inside[nameOf(address)], { headers: { "content-type": kinds[nameOf(address).split(".").pop()] ?? "" } });
      const load = name => import(URL.createObjectURL(new Blob([inside[name]], { type: "text/javascript" })));
      const { loadPyodide } = await load("pyodide.mjs"), { default: createPyodideModule } = await load("pyodide.asm.mjs");
      const python = await loadPyodide({ indexURL: "https://no.network/", createPyodideModule });
      for (const name in inside) if (name.endsWith(".py")) python.FS.writeFile(name, inside[name]);
      shim = python.pyimport("live_shim");
      Object.assign(shim, { kernels, check: python.pyimport("live_check") });
      space = shim.begin();
    }
    async function answer({ engine, name, file, cell, called, block }) {
      if (engine) await start(engine);
      else if (file) shim.files.set(name, await unpack(file));
      else return JSON.parse(shim.run(cell, space, called, block));
    }
    onmessage = ({ data }) => { turn = turn.then(() => answer(data)).then(said => postMessage({ said }), error => postMessage({ failed: String(error) })); };
  }

  // ---- in the page: one worker, one question at a time ----
  let worker = null, turn = Promise.resolve();
  const script = name => Live.files[name] ? null : new Promise((done, failed) => document.head.append(made("script", {
    src: `${FOLDER}${name}.js`, onload: done, onerror: () => failed(Error(`${name}.js could not be read`)),
  })));
  const ask = question => new Promise((done, failed) => {
    worker.onmessage = ({ data }) => data.failed ? failed(Error(data.failed)) : done(data.said);
    worker.onerror = event => failed(Error(event.message ?? "this browser starts no worker here"));
    worker.stopped = failed;
    worker.postMessage(question);
  });
  function stop() {
    worker?.terminate();
    worker?.stopped(Error("stopped"));
    worker = null;
    forget(0);
  }
  async function evaluate(state, say) {
    if (!worker) {
      say("Python starts, once a page: that takes up to half a minute ...");
      await script("engine");
      worker = new Worker("data:text/javascript," + encodeURIComponent(`(${inWorker})()`), { type: "module" });
      await ask({ engine: Live.files.engine });
    }
    if (state.check) await script(state.check);
    for (;;) {
      say("It runs ...");
      const said = await ask({ cell: state.text(), called: state.name, block: Live.files[state.check] });
      if (!said.missing) return said;
      say("Weights are read ...");
      await script(said.missing);
      await ask({ name: said.missing, file: Live.files[said.missing] });
    }
  }

  // ---- what a cell draws ----
  const STOPS = { weights: "00224e1a386f434e6c61656f7d7c789b9476bcae6cdec958fee838", scores: "40004b7f3c8dae8bbddec9e2f6f7f6cbeac57ec37f29844000441b" };
  const stops = Object.fromEntries(Object.entries(STOPS).map(([kind, hex]) => [kind, hex.match(/.{6}/g).map(stop => [0, 2, 4].map(k => parseInt(stop.slice(k, k + 2), 16)))]));
  function colour({ kind, limit, power }, value) {
    const place = kind === "scores" ? (1 + value / limit) / 2 : Math.max(0, value / limit) ** power, at = 8 * Math.min(1, Math.max(0, place)) || 0;
    const low = Math.min(7, Math.floor(at)), [one, two] = [stops[kind][low], stops[kind][low + 1]];
    return one.map((channel, k) => Math.round(channel + (at - low) * (two[k] - channel)));
  }
  function tableOf(figure, { values, columns, texts }, names) {
    const rows = values.map((row, i) => made("tr", {}, ...(names.length ? [made("th", { textContent: names[i] })] : []), ...row.map((value, j) => {
      const blank = figure.masked && value === 0, channels = colour(figure, value), cell = made("td", { textContent: texts[i * row.length + j] ?? "" });
      if (!blank) cell.style.background = `rgb(${channels})`;
      cell.style.color = 0.299 * channels[0] + 0.587 * channels[1] + 0.114 * channels[2] < 117 ? "#fff" : "#000";
      return cell;
    })));
    const below = columns.length ? [made("tr", {}, ...(names.length ? [made("td")] : []), ...[...columns].map(name => made("th", { textContent: name })))] : [];
    return made("table", {}, made("tbody", {}, ...rows, ...below));
  }
  function imageOf(figure, { values, title }) {
    const wide = values[0].length, canvas = made("canvas", { width: wide, height: values.length, role: "img" });
    canvas.setAttribute("aria-label", `${title}: ${values.length} rows, ${wide} columns`);
    const context = canvas.getContext("2d"), image = context.createImageData(wide, values.length);
    values.forEach((row, i) => row.forEach((value, j) => {
      if (!(figure.masked && value === 0)) image.data.set([...colour(figure, value), 255], 4 * (i * wide + j));
    }));
    context.putImageData(image, 0, 0);
    canvas.style.aspectRatio = wide > 4 * values.length ? 2.5 : wide / values.length;
    return canvas;
  }
  function drawn(figure) {
    const parts = figure.panels.flatMap((panel, n) => {
      const small = Math.max(panel.values.length, panel.values[0].length) <= 24;
      const element = made("div", { className: "live-panel" }, made("p", { textContent: panel.title }), small ? tableOf(figure, panel, n ? [] : figure.rows) : imageOf(figure, panel));
      element.panel = panel;
      return n ? [made("span", { textContent: figure.signs?.[n - 1] ?? "" }), element] : [element];
    });
    const ends = [figure.kind === "scores" ? -figure.limit : 0, figure.limit].map(x => x.toPrecision(3).replace(/\.?0+$/, "").replace("-", "\u2212"));
    const steps = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(k => `rgb(${stops[figure.kind][k]}) ${12.5 * (figure.power === 0.5 ? k * k / 8 : k)}%`);
    const bar = made("span", { className: "live-bar" });
    bar.style.background = `linear-gradient(to right, ${steps})`;
    return made("div", { className: "live-figure" }, ...parts, made("p", { className: "live-scale" }, ends[0], bar, `${ends[1]} ${figure.label ?? ""}`));
  }

  // ---- the cells of the page ----
  const states = [...document.querySelectorAll(".cell.tag_live"), ...document.querySelectorAll(".check")].map((cell, n) => {
    const code = cell.querySelector(".cell_input pre").textContent.trimEnd();
    const check = cell.matches(".check") && "check." + [...code.matchAll(/^def (\w+)/gm)].at(-1)[1];
    return { cell, code, check, label: check ? "Check" : "Run", name: check ? "your code" : `cell ${n + 1}`, text: () => code, ran: false, wrong: 0 };
  });
  const forget = first => states.slice(first).forEach(state => { state.ran = false; });
  function show(state, said, before = "") {
    const out = [];
    for (const part of said.outputs)
      if (typeof part !== "string") out.push(drawn(part));
      else if (out.at(-1)?.tagName === "PRE") out.at(-1).append(part);
      else out.push(made("pre", {}, part));
    if (said.error) out.push(made("pre", { className: "live-error", textContent: before + said.error }));
    if (state.check && !said.right && ++state.wrong > 1)
      out.push(made("details", {}, made("summary", {}, "A solution"), made("pre", {}, said.solution)));
    state.out.replaceChildren(...out);
  }
  async function run(state) {
    const place = states.indexOf(state), began = performance.now();
    state.button.textContent = "Stop";
    try {
      for (const earlier of state.check ? [] : states.slice(0, place).filter(other => !other.ran)) {  // quietly
        const said = await evaluate(earlier, state.say);
        if (said.error) { show(state, { outputs: [], error: said.error }, "A cell above, which this one needs, raises\n"); state.say("It raised."); return; }
        earlier.ran = true;
      }
      forget(place);
      const said = await evaluate(state, state.say);
      show(state, said);
      state.ran = !said.error;
      state.say(said.error ? "It raised." : said.verdict ?? `It ran in ${((performance.now() - began) / 1000).toFixed(1)} s.${said.outputs.length || !states[place + 1] ? "" : " It prints nothing itself: run the next cell."}`);
    } catch (error) {
      if (worker) stop();
      state.say(error.message === "stopped" ? "Stopped. Its names are forgotten." : `Python can't run here (${error.message}). The notebook at the end of the page runs with the package.`);
    } finally { state.button.textContent = state.label; }
  }
  function open(state, button) {
    const area = made("textarea", { value: state.code, spellcheck: false, rows: state.code.split("\n").length + 1 });
    area.setAttribute("aria-label", "The code of this cell");
    const status = made("span", { role: "status" });
    Object.assign(state, {
      text: () => area.value, say: text => { status.textContent = text; }, out: made("div", { className: "live-out" }),
      button: made("button", { type: "button", onclick: () => state.button.textContent === "Stop" ? stop() : start() }, state.label),
    });
    const start = () => { turn = turn.then(() => run(state)); };
    area.oninput = () => { forget(states.indexOf(state)); area.rows = area.value.split("\n").length + 1; };
    area.onkeydown = event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) { event.preventDefault(); start(); } };
    state.added = [made("div", { className: "live-editor" }, area, made("p", {}, state.button, button, status)), state.out];
    state.cell.querySelector(".cell_input").after(...state.added);
    state.cell.classList.add("live-on");
    state.check ? area.focus() : start();
  }
  Live.toggle = (cell, button) => {
    const state = states.find(other => other.cell === cell);
    if (!state.added) open(state, button);
    else {
      cell.querySelector(".cell_input").after(button);
      state.added.forEach(element => element.remove());
      Object.assign(state, { added: null, text: () => state.code });
      cell.classList.remove("live-on");
      forget(states.indexOf(state));
    }
    button.textContent = state.added ? "Put it back" : state.check ? "Try it" : "Change it";
  };
})();
