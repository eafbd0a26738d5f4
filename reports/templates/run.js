"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 600px)");
  const touch = matchMedia("(pointer: coarse)");
  const MOST_ROWS = 5000;
  const plots = [...document.querySelectorAll(".plot")];
  const figures = Object.fromEntries(
    plots.map((plot) => [plot.dataset.figure, JSON.parse(document.getElementById(`figure-${plot.dataset.figure}`).textContent)]),
  );
  let partition = document.querySelector("[data-choose]")?.value;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const shown = (trace) => !partition || !trace.meta.partition || trace.meta.partition === partition;

  // The figures hold no colour of the page; those follow the theme, and the margins follow the width.
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
        tickfont: { color: colour("soft") }, automargin: false, fixedrange: name.startsWith("y"),
      });
      if (narrow.matches && layout[name].tickformat) layout[name].tickformat = "~s";
    }
    layout.xaxis.title.font = { color: colour("soft") };
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

  function draw(how, range) {
    const config = { displaylogo: false, responsive: true, displayModeBar: narrow.matches ? false : "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
    return Promise.all(plots.map((plot) => {
      const figure = figures[plot.dataset.figure];
      const traces = figure.data.map((trace) => ({ ...trace, visible: shown(trace) }));
      return how(plot, traces, themed(figure, range), config);
    }));
  }

  // One time axis: what is zoomed in one figure is zoomed in all.
  function link() {
    let busy = false;
    for (const plot of plots) {
      plot.on("plotly_relayout", (change) => {
        const range = change["xaxis.range"] ?? (change["xaxis.range[0]"] !== undefined ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null);
        const all = change["xaxis.autorange"] ? figures[plot.dataset.figure].layout.xaxis.range : range;
        if (!all || busy) return;
        busy = true;
        const others = plots.filter((other) => other !== plot || change["xaxis.autorange"]);
        Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": [...all] }))).finally(() => { busy = false; });
      });
    }
  }

  // --- the table behind a figure, made when it is first opened -----------------------------------
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
    const name = details.dataset.table;
    const { head, rows } = figures[name].table?.[partition ?? figures[name].partitions[0]] ?? samples(figures[name].data.filter(shown));
    details.querySelector(".scroll")?.remove();
    const box = Object.assign(document.createElement("div"), { className: "scroll tall", tabIndex: 0 });
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The data of this figure");
    const table = box.appendChild(document.createElement("table"));
    const most = rows.length > MOST_ROWS ? `The first ${MOST_ROWS.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` : `${rows.length.toLocaleString("en")} rows`;
    table.createCaption().textContent = `${most}${partition ? ` of ${partition}` : ""}; – is a gap.`;
    const top = table.createTHead().insertRow();
    for (const text of head) top.append(Object.assign(document.createElement("th"), { textContent: text, scope: "col" }));
    const body = table.createTBody();
    for (const row of rows.slice(0, MOST_ROWS)) {
      const line = body.insertRow();
      for (const value of row) Object.assign(line.insertCell(), { textContent: show(value), className: typeof value === "string" ? "" : "num" });
    }
    details.append(box);
  }

  for (const details of document.querySelectorAll("details[data-table]")) {
    details.addEventListener("toggle", () => details.open && fill(details));
  }

  // --- choosing and filtering --------------------------------------------------------------------
  for (const select of document.querySelectorAll("[data-choose]")) {
    select.addEventListener("change", () => {
      partition = select.value;
      for (const other of document.querySelectorAll("[data-choose]")) other.value = partition;
      if (window.Plotly) draw(Plotly.react, plots[0]?.layout.xaxis.range);
      document.querySelectorAll("details[data-table][open]").forEach(fill);
    });
  }
  for (const input of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      const left = rows.filter((row) => !row.hidden).length;
      document.getElementById("filter-count").textContent = words.length ? `${left} of ${rows.length} shown` : "";
    });
  }

  if (!window.Plotly) {
    for (const plot of plots) {
      plot.style.minHeight = "";
      plot.append(Object.assign(document.createElement("p"), { className: "absent", textContent: "The figure cannot be drawn: plotly.min.js does not lie beside this page. Its data is below." }));
    }
    return;
  }
  draw(Plotly.newPlot).then(() => {
    link();
    const done = () => { document.body.dataset.drawn = dark.matches ? "dark" : "light"; };
    const again = () => draw(Plotly.react, plots[0]?.layout.xaxis.range).then(done);
    dark.addEventListener("change", again);
    narrow.addEventListener("change", again);
    done();
  });
})();
