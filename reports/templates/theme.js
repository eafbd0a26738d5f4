"use strict";
// The figures of a page, the tables behind them, and the search fields. Figures hold no colour of the page: those
// follow the theme, and the margins follow the width.
(() => {
  const MAX_ROWS = 5000;
  const places = document.currentScript.dataset.plotly.split(" ");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 600px)");
  const touch = matchMedia("(pointer: coarse)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const plots = [...document.querySelectorAll(".plot")];
  const figures = Object.fromEntries(
    plots.map((plot) => [plot.dataset.figure, JSON.parse(document.getElementById(`figure-${plot.dataset.figure}`).textContent)]),
  );
  const linked = plots.filter((plot) => figures[plot.dataset.figure].partitions); // one time axis, one partition
  const choices = [...document.querySelectorAll("[data-choose]")];
  let partition = choices[0]?.value;

  const shown = (trace) => !partition || !trace.meta?.partition || trace.meta.partition === partition;

  // Plotly takes markup in texts. Of what a figure says only our own line breaks and headings are any; the rest is text.
  const markup = /<(?!\/?(?:b|br|extra)>)/g;
  const asText = (value) => {
    if (typeof value === "string") return value.replace(markup, "&lt;");
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(asText);
    return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, asText(each)])) : value;
  };

  // --- drawing -------------------------------------------------------------------------------------
  function themed(figure, range) {
    const layout = structuredClone(figure.layout);
    const ink = colour("ink");
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 12.5, color: ink };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: colour("raised"), bordercolor: colour("rule"), font: { color: ink } };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("water") };
    layout.dragmode = touch.matches || narrow.matches ? false : "zoom";
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      Object.assign(layout[name], {
        gridcolor: colour("grid"), linecolor: colour("rule"), zerolinecolor: colour("rule"),
        tickfont: { color: colour("soft") }, title: { ...layout[name].title, font: { color: colour("soft") } }, automargin: layout[name].automargin ?? false, fixedrange: name.startsWith("y"),
      });
      if (narrow.matches && layout[name].tickformat) layout[name].tickformat = "~s";
    }
    if (range) layout.xaxis.range = range;
    if (narrow.matches) {
      layout.margin = { ...layout.margin, l: 56, r: 12 };
      layout.xaxis.nticks = 5;
      if (layout.hovermode === "x unified") layout.hovermode = "closest";
      const legendRows = layout.showlegend ? figure.data.filter((trace) => shown(trace) && trace.showlegend !== false).length / 2 : 0;
      layout.height += Math.ceil(legendRows) * 18;
      layout.margin.b += Math.ceil(legendRows) * 18;
    }
    return layout;
  }

  function draw(how) {
    const config = { displaylogo: false, responsive: true, displayModeBar: narrow.matches ? false : "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
    const range = linked[0]?.layout?.xaxis.range;
    return Promise.all(plots.map((plot) => {
      const figure = figures[plot.dataset.figure];
      const traces = figure.data.map((trace) => ({ ...asText(trace), visible: shown(trace) }));
      return how(plot, traces, asText(themed(figure, linked.includes(plot) ? range : null)), config);
    }));
  }

  // What is zoomed in one of the linked figures is zoomed in all.
  function link() {
    let busy = false;
    for (const plot of linked) {
      plot.on("plotly_relayout", (change) => {
        const range = change["xaxis.range"] ?? (change["xaxis.range[0]"] !== undefined ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null);
        const all = change["xaxis.autorange"] ? figures[plot.dataset.figure].layout.xaxis.range : range;
        if (!all || busy) return;
        busy = true;
        const others = linked.filter((other) => other !== plot || change["xaxis.autorange"]);
        Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": [...all] }))).finally(() => { busy = false; });
      });
    }
  }

  // Plotly from the first place that has it; a page that was copied alone finds it beside itself, or says what it lacks.
  async function plotly() {
    for (const src of places) {
      const script = Object.assign(document.createElement("script"), { src });
      const loaded = new Promise((resolve) => { script.onload = () => resolve(true); script.onerror = () => resolve(false); });
      document.head.append(script);
      if (await loaded) return;
    }
    for (const plot of plots) {
      plot.style.minHeight = "";
      plot.append(Object.assign(document.createElement("p"), { className: "absent", textContent: `The figure cannot be drawn: this page was copied without the site. Put the site's ${places.at(-1)} beside it; the figure's data is below.` }));
    }
  }

  async function keepDrawn() {
    const done = () => { document.body.dataset.drawn = dark.matches ? "dark" : "light"; };
    if (plots.length) await plotly();
    if (window.Plotly) {
      await draw(Plotly.newPlot);
      link();
      for (const query of [dark, narrow]) query.addEventListener("change", () => draw(Plotly.react).then(done));
    }
    done();
  }

  // --- the table behind a figure of many samples, made when it is first opened ------------------------
  const show = (value) => (value === null || value === undefined ? "–" : typeof value === "number" ? value.toLocaleString("en") : String(value));

  // One row for each moment of each broker; a figure without brokers has one group.
  function samples(traces) {
    const series = traces.filter((trace) => !trace.meta.alone && trace.meta.series !== "epoch");
    const groups = Map.groupBy(series, (trace) => trace.meta.broker);
    const named = !groups.has(undefined);
    const title = (trace) => (trace.meta.series ? trace.meta.series + (trace.meta.view === "behind" ? " behind the furthest LEO" : "") : trace.name);
    const head = ["time (s)", ...(named ? ["broker"] : []), ...[...groups.values()][0].map(title)];
    const rows = [...groups].flatMap(([broker, group]) => group[0].x.map((second, i) => [second, ...(named ? [broker] : []), ...group.map((trace) => trace.y[i])]));
    return { head, rows: rows.sort((a, b) => a[0] - b[0]) };
  }

  function fill(details) {
    const figure = figures[details.dataset.table];
    const { head, rows } = figure.table?.[partition ?? figure.partitions[0]] ?? samples(figure.data.filter(shown));
    details.querySelector(".scroll")?.remove();
    const box = Object.assign(document.createElement("div"), { className: "scroll tall", tabIndex: 0 });
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The data of this figure");
    const table = box.appendChild(document.createElement("table"));
    const all = rows.length.toLocaleString("en");
    const told = rows.length > MAX_ROWS ? `The first ${MAX_ROWS.toLocaleString("en")} of ${all} rows` : `${all} rows`;
    table.createCaption().textContent = `${told}${partition ? ` of ${partition}` : ""}; – is a gap.`;
    const top = table.createTHead().insertRow();
    for (const text of head) top.append(Object.assign(document.createElement("th"), { textContent: text, scope: "col" }));
    const body = table.createTBody();
    for (const row of rows.slice(0, MAX_ROWS)) {
      const line = body.insertRow();
      for (const value of row) Object.assign(line.insertCell(), { textContent: show(value), className: typeof value === "string" ? "" : "number" });
    }
    details.append(box);
  }

  const lazy = "details[data-table]";
  for (const details of document.querySelectorAll(lazy)) details.addEventListener("toggle", () => details.open && fill(details));

  // --- choosing and filtering ------------------------------------------------------------------------
  for (const select of choices) {
    select.addEventListener("change", () => {
      partition = select.value;
      for (const other of choices) other.value = partition;
      if (window.Plotly) draw(Plotly.react);
      document.querySelectorAll(`${lazy}[open]`).forEach(fill);
    });
  }
  for (const input of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
    const count = document.querySelector(`[data-count="${input.dataset.filter}"]`);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} shown` : "";
    });
  }

  keepDrawn();
})();
