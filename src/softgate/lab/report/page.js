"use strict";
// Draws every chart that the page embeds. Colours in the figures are names of CSS custom properties (see page.css):
// resolving them here lets one figure serve the light scheme, the dark scheme and paper.
(() => {
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: false,
    showLink: false,
    sendData: false,
    topojsonURL: "",
  };
  const root = document.documentElement;
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const colour = (name) => (/^--[a-z0-9-]+$/.test(name) ? getComputedStyle(root).getPropertyValue(name).trim() : name);

  // Only the values of colour keys are resolved, so that an arm called "--ink" stays a name.
  const resolve = (key, value) => {
    if (key === "colorscale") return value.map(([at, name]) => [at, colour(name)]);
    if (!key.toLowerCase().endsWith("color")) return value;
    return Array.isArray(value) ? value.map(colour) : typeof value === "string" ? colour(value) : value;
  };

  const charts = [...document.querySelectorAll("script[data-chart]")].map((script) => ({
    place: document.getElementById(script.dataset.chart),
    source: script.textContent,
  }));

  const draw = (width) => {
    for (const { place, source } of charts) {
      const figure = JSON.parse(source, resolve);
      // On a touch screen a drag scrolls the page instead of zooming a chart.
      if (coarse) figure.layout.dragmode = false;
      if (width) figure.layout.width = width;
      try {
        Plotly.react(place, figure.data, figure.layout, config);
      } catch (error) {
        // One chart that cannot be drawn does not take the others with it.
        place.textContent = "This chart could not be drawn; the table below holds the same values.";
        console.error(error);
      }
    }
  };

  const tables = [...document.querySelectorAll("details")];
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = tables.filter((table) => !table.open);
    for (const table of closed) table.open = true;
    root.classList.add("paper");
    draw(640); // pixels that fit between the margins of A4 and of Letter
  });
  window.addEventListener("afterprint", () => {
    for (const table of closed) table.open = false;
    root.classList.remove("paper");
    draw();
    // Without a width Plotly keeps the one of the last drawing.
    for (const { place } of charts) Plotly.Plots.resize(place);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  draw();
})();
