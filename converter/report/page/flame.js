// SPDX-License-Identifier: Apache-2.0
// Flame graphs on a canvas: the root on top, a box for each frame, as wide as its weight. A click
// or Enter zooms, Escape goes back, the field searches.

const BOX = 20;

// A profile has arrays by node, parents first: `parent`, `name` (a place in `names`), `value`, and
// of a difference `before`.
function flameTree(profile) {
  const n = profile.parent.length;
  const nodes = [];
  for (let i = 0; i < n; i++) {
    const node = {i, name: profile.names[profile.name[i]], value: profile.value[i],
      before: profile.before ? profile.before[i] : null, children: [], depth: 0, parent: null};
    node.width = profile.before ? Math.max(node.value, node.before) : node.value;
    nodes.push(node);
    if (i) {
      node.parent = nodes[profile.parent[i]];
      node.depth = node.parent.depth + 1;
      node.parent.children.push(node);
    }
  }
  nodes[0].x = 0;
  for (const node of nodes) {
    let x = node.x;
    node.self = node.value;
    for (const child of node.children.sort((a, b) => a.name < b.name ? -1 : 1)) {
      child.x = x;
      x += child.width;
      node.self -= child.value;
    }
  }
  return nodes;
}

function boxColor(node, isDiff) {
  if (isDiff) {
    const change = node.value - node.before;
    return palette[change > 0 ? "grew" : change < 0 ? "shrank" : "same"];
  }
  if (node.name.startsWith("[")) return palette.same;
  let hash = 0;
  for (let i = 0; i < node.name.length; i++) hash = hash * 31 + node.name.charCodeAt(i) | 0;
  return palette["flame" + Math.abs(hash) % 3];
}

function functionTable(name, nodes, unit) {
  const sums = new Map();
  for (const node of nodes.slice(1)) {
    const sum = sums.get(node.name) || {self: 0, total: 0};
    sums.set(node.name, sum);
    sum.self += node.self;
    let above = node.parent;
    while (above && above.name !== node.name) above = above.parent;
    if (!above) sum.total += node.value;
  }
  const rows = [...sums].sort((a, b) => b[1].self - a[1].self).slice(0, 100)
    .map(([name, sum]) => [name, sum.self, sum.total]);
  return table(name, [{title: "function", kind: "wide"},
    {title: "itself", kind: "n", show: UNITS[unit]},
    {title: "with its callees", kind: "n", show: UNITS[unit]}], rows);
}

function flamePanel(profile, n) {
  const nodes = flameTree(profile), whole = nodes[0].width || 1, show = UNITS[profile.unit];
  const isDiff = Boolean(profile.before);
  let root = nodes[0], chosen = nodes[0], pattern = null;
  const canvas = make("canvas", {});
  const home = make("div", {class: "flame", tabindex: "0", role: "application",
    "aria-label": "Flame graph: " + profile.title + ". Arrow keys choose a frame, " +
      "Enter zooms, Escape goes back."}, canvas);
  const said = make("span", {class: "range", "aria-live": "polite"});
  const field = make("input", {type: "search", placeholder: "Search functions",
    "aria-label": "Search functions in: " + profile.title});
  const words = (node) => {
    const share = trimmed(node.value / (nodes[0].value || 1) * 100, 1) + " %";
    return node.name + ": " + (isDiff ? show(node.before) + " → " + show(node.value)
      : show(node.value) + " (" + share + "), itself " + show(node.self));
  };
  const above = (node) => {
    const path = [];
    for (let at = node; at; at = at.parent) path.push(at);
    return path;
  };
  const place = (node, width) => {
    const isAbove = above(root).includes(node);
    const x = isAbove ? 0 : (node.x - root.x) / root.width * width;
    return {x, w: isAbove ? width : node.width / root.width * width, isAbove};
  };
  const inside = (node) => node.x >= root.x - 1e-9 && node.x + node.width <= root.x + root.width +
    1e-9 && node.depth >= root.depth;
  const draw = () => {
    const width = home.clientWidth - 16;
    if (width <= 0) return;
    const path = new Set(above(root));
    const drawn = nodes.filter((node) => path.has(node) ||
      inside(node) && node.width / root.width * width >= 0.4);
    const depth = drawn.reduce((most, node) => Math.max(most, node.depth), 0);
    const context = contextOf(canvas, width, (depth + 1) * BOX);
    context.font = "12px " + FONT;
    context.textBaseline = "middle";
    for (const node of drawn) {
      const {x, w, isAbove} = place(node, width);
      const isFound = pattern && pattern.test(node.name);
      context.globalAlpha = isAbove && node !== root ? 0.55 : 1;
      context.fillStyle = isFound ? palette.found : boxColor(node, isDiff);
      const y = node.depth * BOX;
      context.fillRect(x, y, Math.max(w - 1, 0.4), BOX - 1);
      if (node === chosen && document.activeElement === home) {
        context.strokeStyle = palette.text;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), BOX - 3);
      }
      if (w > 26) {
        context.fillStyle = isFound ? palette.card : palette.flametext;
        context.fillText(fitted(context, node.name, w - 9), x + 5, y + BOX / 2);
      }
      context.globalAlpha = 1;
    }
  };
  const find = () => {
    pattern = null;
    field.setCustomValidity("");
    if (!field.value) said.textContent = "";
    else {
      try {
        pattern = new RegExp(field.value, "i");
      } catch (error) {
        field.setCustomValidity("not a pattern");
        said.textContent = "not a pattern";
        return draw();
      }
      let sum = 0, end = -1, hits = 0;
      const found = nodes.filter((node) => pattern.test(node.name));
      hits = found.length;
      found.sort((a, b) => a.x - b.x || b.width - a.width);
      for (const node of found) {
        if (node.x < end - 1e-9) continue;
        sum += node.width;
        end = node.x + node.width;
      }
      said.textContent = number(hits) + (hits === 1 ? " frame" : " frames") + ", " +
        trimmed(sum / whole * 100, 1) + " % of all";
    }
    draw();
  };
  const zoomTo = (node) => {
    root = chosen = node;
    said.textContent = words(node);
    draw();
  };
  const nodeAt = (event) => {
    const box = canvas.getBoundingClientRect(), width = home.clientWidth - 16;
    const x = event.clientX - box.left, depth = Math.floor((event.clientY - box.top) / BOX);
    return nodes.find((node) => {
      if (node.depth !== depth) return false;
      const at = place(node, width);
      return (at.isAbove || inside(node)) && x >= at.x && x < at.x + at.w;
    });
  };
  canvas.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node) zoomTo(node);
  });
  canvas.addEventListener("pointermove", (event) => {
    const node = nodeAt(event);
    tip(node ? words(node) : "", event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => tip(""));
  home.addEventListener("focus", draw);
  home.addEventListener("blur", draw);
  home.addEventListener("keydown", (event) => {
    const beside = chosen.parent ? chosen.parent.children : [chosen];
    const at = beside.indexOf(chosen);
    const to = {ArrowDown: [...chosen.children].sort((a, b) => b.width - a.width)[0],
      ArrowUp: chosen.parent, ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1]}[event.key];
    if (event.key === "Enter") zoomTo(chosen);
    else if (event.key === "Escape") zoomTo(nodes[0]);
    else if (!to && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (to) {
      chosen = to;
      said.textContent = words(chosen);
      draw();
    }
  });
  field.addEventListener("input", find);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      field.value = "";
      find();
    }
  });
  time.watchers.push(draw);
  const behind = tableBehind("Functions of: " + profile.title,
    (name) => functionTable(name, nodes, profile.unit));
  return make("div", {class: "panel", id: "flame-" + n}, panelHead(profile.title, behind),
    make("div", {class: "flame-bar"}, field,
      make("button", {type: "button", click: () => zoomTo(nodes[0])}, "Show all"), said),
    home, behind);
}
