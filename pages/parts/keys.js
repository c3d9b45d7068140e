// Keys press the buttons named in `data.presses`; how large the window is, is reported where that is news.
export default function ({ data, setStateValue }) {
  const press = (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const name = data.presses[key];
    if (!name || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable='true']")) return;
    const button = document.querySelector(`.st-key-${name} button`);
    event.preventDefault();
    event.stopPropagation();
    if (button && !button.disabled) button.click();
  };
  const fit = () => {
    // figures are drawn anew for the window: they measure themselves, so zoom or a transform would count twice
    const narrow = window.innerWidth <= 760;
    const fits = Math.min(window.innerWidth / 1280, window.innerHeight / 720);
    const scale = narrow ? 1 : Math.min(3, Math.max(1, Math.floor(fits * 8) / 8));
    if (narrow !== data.window.narrow || scale !== data.window.scale) setStateValue("window", { narrow, scale });
    document.documentElement.style.setProperty("--k", scale);
  };
  fit();
  window.addEventListener("resize", fit);
  document.addEventListener("keydown", press, true);
  return () => {
    window.removeEventListener("resize", fit);
    document.removeEventListener("keydown", press, true);
  };
}
