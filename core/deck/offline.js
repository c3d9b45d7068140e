// Turns the slides of a deck file by key, button and address; figures are drawn when they are needed.
const slides = [...document.querySelectorAll(".slide")];
const figures = JSON.parse(document.getElementById("figures").textContent);
const config = {
  displaylogo: false, responsive: false, modeBarButtons: [["toImage"]],
  toImageButtonOptions: { width: 1280, height: 720, scale: 2 },
};
let at = 0;

function draw(slide) {
  for (const place of slide.querySelectorAll(".figure:not(.drawn)")) {
    const figure = figures[place.dataset.figure];
    place.classList.add("drawn");
    figure.layout.width = place.clientWidth;
    Plotly.newPlot(place, { data: figure.data, layout: figure.layout, frames: figure.frames, config });
  }
}

function show(number) {
  at = Math.min(Math.max(number, 0), slides.length - 1);
  slides.forEach((slide, i) => slide.classList.toggle("on", i === at));
  draw(slides[at]);
  document.querySelector("output").textContent = `${at + 1} / ${slides.length}`;
  const kind = slides[at].dataset.kind;
  const other = { claim: "Break it", break: "The claim" }[kind];
  document.querySelector("[data-go=break]").textContent = other ?? "";
  document.querySelector("[data-go=break]").hidden = !other;
  document.querySelector("[data-go=notes]").hidden = !other;
  if (location.hash !== `#${at + 1}`) history.replaceState(null, "", `#${at + 1}`);
}

const go = {
  next: () => show(at + 1),
  back: () => show(at - 1),
  first: () => show(0),
  last: () => show(slides.length - 1),
  break: () => show(at + ({ claim: 1, break: -1 }[slides[at].dataset.kind] ?? 0)),
  notes: () => document.body.classList.toggle("with-notes"),
};
const keys = {
  ArrowRight: "next", PageDown: "next", " ": "next", ArrowLeft: "back", PageUp: "back",
  Home: "first", End: "last", b: "break", n: "notes",
};

document.addEventListener("keydown", (event) => {
  const what = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!what || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
  go[what]();
}, true);
document.querySelector("footer").addEventListener("click", (event) => {
  const what = event.target.dataset.go;
  if (what) go[what]();
});

function fit() {
  const scale = Math.min(innerWidth / 1280, (innerHeight - 44) / 676);
  for (const slide of slides) {
    slide.style.transform = `scale(${scale})`;
    slide.style.left = `${Math.max(0, (innerWidth - 1280 * scale) / 2)}px`;
  }
}
addEventListener("resize", fit);
addEventListener("hashchange", () => show(parseInt(location.hash.slice(1), 10) - 1 || 0));
addEventListener("beforeprint", () => slides.forEach(draw));
fit();
show(parseInt(location.hash.slice(1), 10) - 1 || 0);
// the rest while nobody waits, so that every slide and a print-out are ready
const idle = window.requestIdleCallback ?? ((f) => setTimeout(f, 50));
(function ahead(i) {
  if (i < slides.length) idle(() => { draw(slides[i]); ahead(i + 1); });
})(0);
