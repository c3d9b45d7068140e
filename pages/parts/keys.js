// Keys press the buttons named in `data.presses`; the container `data.stage` fills the window.
export default function ({ data }) {
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
    const stage = data.stage && document.querySelector(`.st-key-${data.stage}`);
    if (!stage) return;
    const zoom = Math.min(window.innerWidth / 1280, window.innerHeight / 720);
    stage.style.zoom = window.innerWidth > 760 && zoom > 1 ? zoom : 1;
  };
  fit();
  window.addEventListener("resize", fit);
  document.addEventListener("keydown", press, true);
  return () => {
    window.removeEventListener("resize", fit);
    document.removeEventListener("keydown", press, true);
  };
}
