// Names of papers on the map: they never overlap, come and go with zoom, and leave topics' names free.
const SIZE = 13, GAP = 9, MOST = 90, CROWD = 700;

export default function ({ data }) {
  const layer = document.createElement("div");
  layer.className = "map-names";
  const pen = document.createElement("canvas").getContext("2d");
  let plot = null;

  const overlaps = (a, boxes) =>
    boxes.some((b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]);

  const draw = () => {
    const layout = plot._fullLayout;
    const papers = plot._fullData.find((t) => t.name === "papers");
    if (!layout || !papers) return;
    const { xaxis, yaxis } = layout;
    const [left, top] = [xaxis._offset, yaxis._offset];
    const [right, bottom] = [left + xaxis._length, top + yaxis._length];
    const one = (values, i) => (values?.length !== undefined && typeof values !== "string" ? values[i] : values);
    const seen = [];
    for (let i = 0; i < papers.x.length; i++) {
      const x = xaxis.l2p(papers.x[i]) + left, y = yaxis.l2p(papers.y[i]) + top;
      if (x > left && x < right && y > top && y < bottom)
        seen.push({ i, x, y, bright: one(papers.marker.opacity, i) ?? 1, size: one(papers.marker.size, i) });
    }
    const lit = seen.filter((p) => p.bright > 0.5);
    const few = seen.length <= CROWD ? seen : lit.length <= CROWD ? lit : [];
    few.sort((a, b) => b.bright - a.bright || b.size - a.size || a.i - b.i);
    const home = plot.getBoundingClientRect();
    const scale = home.width / plot.offsetWidth || 1;
    const boxes = [...plot.querySelectorAll(".annotation-text-g")].map((e) => {
      const r = e.getBoundingClientRect();
      return [r.left - home.left, r.top - home.top, r.right - home.left, r.bottom - home.top].map((v) => v / scale);
    });
    for (const p of few) boxes.push([p.x - 6, p.y - 6, p.x + 6, p.y + 6]);
    pen.font = `${SIZE}px "Source Sans", sans-serif`;
    const parts = [];
    for (const p of few) {
      if (parts.length >= MOST) break;
      const text = papers.meta?.[p.i] || plain(one(papers.text, p.i));
      if (!text) continue;
      const wide = pen.measureText(text).width, high = SIZE * 1.15, dx = wide / 2 + GAP, dy = high / 2 + GAP;
      const spots = [[dx, 0], [-dx, 0], [0, dy], [0, -dy], [dx, dy], [-dx, dy], [dx, -dy], [-dx, -dy]];
      for (const [a, b] of spots) {
        const box = [p.x + a - wide / 2, p.y + b - high / 2, p.x + a + wide / 2, p.y + b + high / 2];
        if (box[0] < left || box[2] > right || box[1] < top || box[3] > bottom || overlaps(box, boxes)) continue;
        boxes.push(box);
        parts.push([text, box[0], box[1], p]);
        break;
      }
    }
    layer.replaceChildren(...parts.map(([text, x, y, p]) => {
      const name = document.createElement("span");
      name.textContent = text;
      name.className = p.size > 12 ? "runs" : "";
      name.style.cssText = `left:${x}px;top:${y}px;opacity:${p.bright > 0.5 ? 1 : 0.25}`;
      return name;
    }));
  };

  const plain = (text) => {
    const title = /<b>(.*?)<\/b>/.exec(text ?? "")?.[1] ?? "";
    const words = title.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
    return words.length <= 30 ? words : `${words.slice(0, 28).replace(/\s+\S*$/, "")} …`;
  };

  const attach = () => {
    const now = document.querySelector(`.st-key-${data.place} .js-plotly-plot`);
    if (!now?._fullLayout?.xaxis || (now === plot && layer.isConnected)) return;
    plot = now;
    plot.append(layer);
    plot.on("plotly_afterplot", draw);
    plot.on("plotly_relayouting", () => layer.replaceChildren());
    draw();
  };
  attach();
  const watch = setInterval(attach, 300);
  return () => {
    clearInterval(watch);
    layer.remove();
  };
}
