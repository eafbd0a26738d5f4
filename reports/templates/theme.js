"use strict";
// What every page's figures share: the colours of the theme, the margins of the width, the buttons.
const Theme = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 600px)");
  const touch = matchMedia("(pointer: coarse)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // The figures hold no colour of the page; those follow the theme, and the margins follow the width.
  function themed(figure, range = null, shown = () => true) {
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

  const config = () => ({ displaylogo: false, responsive: true, displayModeBar: narrow.matches ? false : "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] });

  function absent(plots) {
    for (const plot of plots) {
      plot.style.minHeight = "";
      plot.append(Object.assign(document.createElement("p"), { className: "absent", textContent: "The figure cannot be drawn: plotly.min.js does not lie beside this page. Its data is below." }));
    }
  }

  // Draw now and whenever the theme or the width changes; the body says when it is done.
  async function keepDrawn(first, again) {
    const done = () => { document.body.dataset.drawn = dark.matches ? "dark" : "light"; };
    await first();
    for (const query of [dark, narrow]) query.addEventListener("change", () => again().then(done));
    done();
  }

  return { narrow, themed, config, absent, keepDrawn };
})();
