// Saves every figure of the page as SVG, by the figures' own picture buttons.
export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  button.onclick = () => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {
      const own = plot.querySelector(".modebar-btn[data-title*='ownload'], .modebar-btn[data-title*='PNG']");
      if (!own || !plot.offsetParent) continue;
      const options = plot._context.toImageButtonOptions;
      plot._context.toImageButtonOptions = { ...options, format: "svg", scale: 1 };
      own.click();
      setTimeout(() => { plot._context.toImageButtonOptions = options; }, 500);
    }
  };
}
