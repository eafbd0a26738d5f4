(() => {
  const plots = [...document.querySelectorAll(".plot")];
  const figures = plots.map((plot) => JSON.parse(document.getElementById(`figure-${plot.dataset.figure}`).textContent));

  for (const input of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
    const count = document.querySelector(`[data-count="${input.dataset.filter}"]`);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} shown` : "";
    });
  }

  const draw = (how) => Promise.all(plots.map((plot, i) => how(plot, figures[i].data, Theme.themed(figures[i]), Theme.config())));
  if (plots.length && !window.Plotly) Theme.absent(plots);
  else Theme.keepDrawn(() => draw(window.Plotly?.newPlot), () => draw(window.Plotly?.react));
})();
