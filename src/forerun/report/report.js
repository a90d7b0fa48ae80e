// Draws each figure when it comes near the screen, in the reader's own colours, and again when those change.
(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var drawn = [];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axis(found) {
    var plain = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, automargin: true, ticks: "" };
    plain.title = { text: found.title.text, standoff: 8, font: { size: 12, color: colour("--muted") } };
    plain.tickfont = { size: 12, color: colour("--muted") };
    return Object.assign({}, found, plain);
  }

  function draw(box) {
    var figure = JSON.parse(document.getElementById(box.dataset.figure).textContent);
    var layout = figure.layout;
    layout.xaxis = axis(layout.xaxis);
    layout.yaxis = axis(layout.yaxis);
    layout.xaxis.showgrid = false;
    (layout.shapes || []).forEach(function (shape) { shape.line.color = colour("--muted"); shape.layer = "below"; });
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.margin = { l: 8, r: 12, t: 10, b: 8 };
    layout.hoverlabel = { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--ink") }, align: "left" };
    layout.dragmode = false;
    window.Plotly.react(box, figure.data, layout, { responsive: true, displayModeBar: false, scrollZoom: false });
  }

  function show(box) {
    if (drawn.indexOf(box) < 0) {
      drawn.push(box);
      draw(box);
    }
  }

  var boxes = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  if ("IntersectionObserver" in window) {
    var watcher = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) { if (entry.isIntersecting) show(entry.target); });
    }, { rootMargin: "800px" });
    boxes.forEach(function (box) { watcher.observe(box); });
  } else {
    boxes.forEach(show);
  }
  dark.addEventListener("change", function () { drawn.forEach(draw); });
  window.addEventListener("beforeprint", function () { boxes.forEach(show); });

  // What a cell of the map says when it is pointed at, focused or tapped.
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "tooltip");
  tip.id = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);

  function hint(event) {
    var cell = event.target.closest && event.target.closest("[data-tip]");
    if (!cell) { tip.hidden = true; return; }
    tip.textContent = cell.dataset.tip;
    tip.hidden = false;
    var place = cell.getBoundingClientRect();
    var left = place.left + place.width / 2 - tip.offsetWidth / 2;
    left = Math.max(8, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 8));
    var above = place.top - tip.offsetHeight - 6;
    tip.style.left = left + "px";
    tip.style.top = (above > 4 ? above : place.bottom + 6) + "px";
  }

  document.addEventListener("pointerover", hint);
  document.addEventListener("focusin", hint);
  document.addEventListener("scroll", function () { tip.hidden = true; }, true);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") tip.hidden = true; });
})();
