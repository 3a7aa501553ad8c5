"use strict";
// Everything that a page does: unpack its charts, draw those in view, filter, toggle series and theme, browse episodes.

const element = id => document.getElementById(id);
const series = JSON.parse(element("series").textContent);
const colour = Object.fromEntries(series.map(one => [one.name, one.colour]));
const hidden = new Set(); // series that the reader has switched off
const narrow = matchMedia("(max-width: 40rem)");
let charts, explorer;

// ---- unpacking: gzip in base64 is a third of the size, and the page stays one file that works offline

async function unpack(id) {
  const text = element(id).textContent;
  if (!text) return "null";
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function load() {
  if (typeof DecompressionStream === "undefined") throw new Error("it cannot unpack gzip");
  const [plotly, data] = await Promise.all(["plotly", "charts"].map(unpack));
  charts = JSON.parse(data);
  const script = document.createElement("script");
  script.textContent = plotly;
  document.head.append(script);
}

// ---- drawing

const probe = document.createElement("span"); // resolves a colour of the style sheet for the theme in force
const css = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };

function themed(layout) {
  const [ink, line, quiet, panel] = ["--ink", "--line", "--quiet", "--panel"].map(css);
  const made = { ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
    hoverlabel: { ...layout.hoverlabel, bgcolor: panel, bordercolor: line, font: { color: ink } } };
  for (const name of Object.keys(layout).filter(key => /^[xy]axis/.test(key)))
    made[name] = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, ...layout[name] };
  made.shapes = (layout.shapes || []).map(shape => ({ ...shape, line: { ...shape.line, color: quiet } }));
  return made;
}

// A trace says in `meta` whose it is; one that does not is a reference line.
const shown = figure => ({ ...figure, data: figure.data.map(trace => ({ ...trace, visible: !hidden.has(trace.meta),
  ...(trace.meta || trace.type !== "scatter" ? {} : { line: { ...trace.line, color: css("--quiet") } }) })) });

function figureOf(node) {
  if (!explorer && !node.dataset.chart) return null; // not unpacked yet
  if (node.dataset.panel) return panelFigure(Number(node.dataset.panel));
  return "bars" in node.dataset ? barsFigure() : shown(charts[node.dataset.chart]);
}

async function draw(node) {
  const figure = figureOf(node);
  if (!figure) return;
  const height = figure.layout.height;
  node.closest("figure").hidden = figure.data.length === 0;
  node.style.height = height ? `${height}px` : "";
  await Plotly.react(node, figure.data, themed(figure.layout), { responsive: true, displaylogo: false, displayModeBar: false });
  node.dataset.drawn = figure.data.filter(trace => trace.visible !== false).length;
}

// What is in view, or near it, is drawn at once, the rest when it comes there.
const inView = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) { inView.unobserve(target); draw(target); }
}, { rootMargin: "600px" });

function redraw(nodes = document.querySelectorAll(".chart")) {
  for (const node of nodes) {
    node.closest("figure").hidden = false;
    inView.unobserve(node);
    inView.observe(node);
  }
}

// ---- what the reader chose, in the address: a link to this view

const said = new URLSearchParams(location.hash.slice(1));

function remember() {
  const choices = [...document.querySelectorAll("select")].map(one => [one.id || one.dataset.filter, one.value]);
  if (hidden.size) choices.push(["hidden", [...hidden].join()]);
  history.replaceState(null, "", `#${new URLSearchParams(choices.filter(([, value]) => value))}`);
}

function recall(select) {
  const value = said.get(select.id || select.dataset.filter);
  if ([...select.options].some(option => option.value === value)) select.value = value;
}

// ---- legend and filters

function legend() {
  const group = document.querySelector(".legend");
  const button = (text, pressed) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", pressed);
    group.append(made);
    return made;
  };
  const press = () => buttons.forEach(one => one.setAttribute("aria-pressed", String(!hidden.has(one.textContent))));
  const change = () => { press(); show(); remember(); };
  if (series.length > 2) {
    button("All", () => { hidden.clear(); change(); });
    button("None", () => { series.forEach(one => hidden.add(one.name)); change(); });
  }
  const buttons = series.map(({ name }) => {
    const made = button(name, () => { hidden.delete(name) || hidden.add(name); change(); });
    made.style.setProperty("--series", colour[name]);
    return made;
  });
  const before = (said.get("hidden") || "").split(",");
  for (const { name } of series) if (before.includes(name)) hidden.add(name);
  press();
}

const filters = [...document.querySelectorAll("select[data-filter]")];
const fits = (tags, except) => filters.every(one =>
  one === except || !one.value || !tags[one.dataset.filter] || tags[one.dataset.filter] === one.value);
const sections = [...document.querySelectorAll("main section")];

function filter() {
  for (const one of filters) // a choice that the other filters leave nothing of cannot be made
    for (const option of [...one.options].slice(1)) {
      option.disabled = option.hidden = !sections.some(({ dataset }) => dataset[one.dataset.filter] === option.value && fits(dataset, one));
      if (option.selected && option.disabled) one.value = "";
    }
  show();
}

function show() {
  for (const section of sections) section.hidden = !fits(section.dataset);
  for (const row of document.querySelectorAll("tr[data-series]")) row.hidden = hidden.has(row.dataset.series);
  const tagged = sections.filter(section => section.dataset.scenario);
  const counts = [`${series.length - hidden.size} of ${series.length} ${element("status").dataset.series}`];
  if (tagged.length) counts.unshift(`${tagged.filter(section => !section.hidden).length} of ${tagged.length} scenarios`);
  element("status").textContent = `Showing ${counts.join(" and ")}.`;
  if (explorer) {
    offerEpisodes();
    items();
  }
  redraw();
}

// ---- the browser of episodes

const chosen = () => ({ episode: explorer.episodes.find(one => one.name === element("episode").value), layout: element("layout").value,
  pair: [element("first").value, element("second").value] });

function fill(id, options, value) {
  element(id).replaceChildren(...options.map(text => new Option(text, text, false, text === value)));
}

function offerEpisodes() {
  const before = element("episode").value, fitting = explorer.episodes.filter(one => fits(one.tags)).map(one => one.name);
  fill("episode", fitting, fitting.includes(before) ? before : fitting[0]);
}

async function browse() {
  explorer = JSON.parse(await unpack("explorer"));
  if (!explorer) return;
  offerEpisodes();
  const policies = series.map(one => one.name);
  fill("first", policies, explorer.first);
  fill("second", policies, explorer.second);
  fill("layout", ["overlaid", "side by side", "all that are shown"], "overlaid");
  const change = () => { items(); redraw(document.querySelectorAll(".chart[data-panel], .chart[data-bars]")); };
  for (const id of ["episode", "first", "second", "layout"]) {
    recall(element(id));
    element(id).addEventListener("change", change);
  }
  narrow.addEventListener("change", change);
  change();
}

// Two sets of axes of one scale: beside each other, or on a narrow screen below each other.
function beside(layout, names) {
  const { xaxis, yaxis } = layout, below = narrow.matches;
  const domains = below ? [[0.55, 1], [0, 0.44]] : [[0, 0.48], [0.52, 1]], along = below ? "yaxis" : "xaxis";
  const made = { ...layout, height: below ? 2 * (layout.height || 300) : layout.height, margin: { ...layout.margin, t: 24 }, xaxis, yaxis,
    xaxis2: { ...xaxis, anchor: "y2", matches: "x" },
    yaxis2: { ...yaxis, anchor: "x2", matches: "y", ...(below ? {} : { title: undefined, showticklabels: false }) } };
  [along, `${along}2`].forEach((key, i) => { made[key] = { ...made[key], domain: domains[i] }; });
  if (below) made.xaxis = { ...xaxis, title: undefined };
  made.annotations = names.map((name, i) => ({ text: name, showarrow: false, xref: "paper", yref: "paper", yanchor: "bottom",
    xanchor: "left", x: below ? 0 : domains[i][0], y: below ? domains[i][1] : 1, font: { size: 12 } }));
  return made;
}

function panelFigure(i) {
  const { figure, hover, shape, x: which } = explorer.panels[i], { episode, layout, pair } = chosen();
  if (!episode) return { data: [], layout: figure.layout };
  const x = episode.xs[which];
  const split = layout === "side by side";
  const names = layout.startsWith("all") ? series.map(one => one.name).filter(name => !hidden.has(name)) : pair;
  const on = k => (split && k ? { xaxis: "x2", yaxis: "y2" } : {});
  const lines = names.flatMap((name, k) => {
    const y = episode.lines[name]?.[i];
    return y ? [{ type: "scatter", mode: "lines", name, x, y, ...on(k), hovertemplate: `${name}<br>${hover}<extra></extra>`,
      line: { color: colour[name], width: 1.8, shape, dash: names === pair && k ? "6px,2px" : "solid" } }] : [];
  });
  if (split && lines.length === 1) // axes also where there is no line
    lines.push({ type: "scatter", mode: "lines", x: [x[0], x.at(-1)], y: [null, null], ...on(lines[0].xaxis ? 0 : 1) });
  const limit = lines.length && episode.limits[i] ? (split ? [0, 1] : [0]).map(k => ({ type: "scatter", mode: "lines", x, ...on(k),
    y: episode.limits[i], hovertemplate: "limit: %{y:.4~g}<extra></extra>", line: { dash: "dot", width: 1.5, shape: "hv", color: css("--quiet") } })) : [];
  return { data: [...lines, ...limit], layout: split ? beside(figure.layout, pair) : figure.layout };
}

function barsFigure() {
  const { figure, parts, facts } = explorer.bars, { episode, pair } = chosen();
  if (!episode) return { data: [], layout: figure.layout };
  const data = pair.flatMap((name, k) => Object.entries(parts).map(([part, color], p) => {
    const rows = episode.bars[name] || [];
    return { type: "bar", orientation: "h", name: part, x: rows.map(row => row[facts.length + p]), y: rows.map((_, r) => r + 1),
      ...(k ? { xaxis: "x2", yaxis: "y2" } : {}), marker: { color, line: { width: 0 } },
      customdata: rows.map(row => facts.map((fact, f) => `${fact}: ${row[f]}`).join("<br>")),
      hovertemplate: `${name}<br>${part}: %{x:.3~g} s<br>%{customdata}<extra></extra>` };
  }));
  return { data: data.some(trace => trace.x.length) ? data : [], layout: beside(figure.layout, pair) };
}

// The bars once more as a table: for the keyboard, and for what a screen reader can say.
function items() {
  const { parts, facts } = explorer.bars, { episode, pair } = chosen();
  const row = (tag, cells) => {
    const made = document.createElement("tr");
    made.append(...cells.map(text => Object.assign(document.createElement(tag), { textContent: Number.isInteger(text) ? text.toLocaleString("en") : text })));
    return made;
  };
  element("items").replaceChildren(...[...new Set(pair)].map(name => {
    const around = document.createElement("div"), table = document.createElement("table");
    Object.assign(around, { className: "scroll", tabIndex: 0 });
    around.setAttribute("role", "region");
    around.setAttribute("aria-label", `Slowest requests of ${name}`);
    table.createCaption().textContent = name;
    table.createTHead().append(row("th", [...facts, ...Object.keys(parts).map(part => `${part}, s`)]));
    table.createTBody().append(...(episode?.bars[name] || []).map(cells => row("td", cells)));
    around.append(table);
    return around;
  }));
}

// ---- theme, and the beginning

function themes() {
  const system = matchMedia("(prefers-color-scheme: dark)"), button = element("theme"), root = document.documentElement;
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const apply = () => { button.setAttribute("aria-pressed", String(dark())); redraw(); };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a page without storage forgets it */ }
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

document.body.append(probe);
if (narrow.matches) document.querySelectorAll("details").forEach(one => { one.open = false; });
load().then(() => {
  legend();
  for (const one of filters) {
    recall(one);
    one.addEventListener("change", filter);
  }
  document.addEventListener("change", remember);
  themes();
  filter();
  addEventListener("beforeprint", () => document.querySelectorAll(".chart").forEach(draw));
  return browse();
}).catch(error => {
  const note = document.createElement("p");
  note.setAttribute("role", "alert");
  note.textContent = `The charts cannot be drawn in this browser (${error.message}); the tables are complete.`;
  document.querySelector(".bar").replaceWith(note);
});
