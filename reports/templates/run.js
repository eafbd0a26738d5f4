"use strict";
(() => {
  const MOST_ROWS = 5000;
  const plots = [...document.querySelectorAll(".plot")];
  const figures = Object.fromEntries(
    plots.map((plot) => [plot.dataset.figure, JSON.parse(document.getElementById(`figure-${plot.dataset.figure}`).textContent)]),
  );
  let partition = document.querySelector("[data-choose]")?.value;

  const shown = (trace) => !partition || !trace.meta.partition || trace.meta.partition === partition;

  function draw(how, range) {
    return Promise.all(plots.map((plot) => {
      const figure = figures[plot.dataset.figure];
      const traces = figure.data.map((trace) => ({ ...trace, visible: shown(trace) }));
      return how(plot, traces, Theme.themed(figure, range, shown), Theme.config());
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
    Theme.absent(plots);
    return;
  }
  Theme.keepDrawn(
    () => draw(Plotly.newPlot).then(link),
    () => draw(Plotly.react, plots[0]?.layout.xaxis.range),
  );
})();
