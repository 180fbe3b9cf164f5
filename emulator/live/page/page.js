"use strict";
// The page of a live run: one stream of events in, actions out.
(() => {
  const $ = (id) => document.getElementById(id);
  const view = { info: null, figures: {}, nodes: [], links: [], log: [] };
  let chosen = null; // {node} or {link}
  let dirty = false;
  const colours = {};
  for (const s of ["idle", "waiting", "holding", "paused", "joining", "down", "line", "ink", "soft", "panel"]) {
    Object.defineProperty(colours, s, { get: () => getComputedStyle(document.documentElement).getPropertyValue("--" + s).trim() });
  }

  // --- events
  const source = new EventSource("events");
  let over = false;
  const say = (text, lost) => { $("state").textContent = text; $("state").classList.toggle("lost", !!lost); };
  source.onmessage = (e) => {
    const d = JSON.parse(e.data);
    if (d.since === 0) {
      view.info = d.info;
      view.nodes = d.nodes || [];
      view.links = d.links || [];
      view.log = [];
      $("name").textContent = d.info.name;
      $("about").textContent = `${d.nodes.length} nodes, ${view.links.length} links, ${d.info.algorithm}, ${d.info.membership}, ${d.info.fabric}, seed ${d.info.seed}`;
      document.title = d.info.name + " · churnbed";
      $("log").replaceChildren();
    } else {
      for (const n of d.nodes || []) view.nodes[n.id] = n;
      for (const l of d.links || []) {
        const i = view.links.findIndex((o) => o.a === l.a && o.b === l.b);
        if (i >= 0) view.links[i] = l;
      }
    }
    view.figures = d.figures;
    for (const entry of d.log || []) tell(entry);
    if (!over) say(d.figures.phase);
    dirty = true;
  };
  source.addEventListener("over", () => { over = true; source.close(); say("the run is over"); });
  source.onerror = () => { if (!over) say("connection lost: the run has ended, or its page is out of reach", true); };

  function tell(entry) {
    const li = document.createElement("li");
    li.textContent = `${(entry.at_ms / 1000).toFixed(2)} s  ${entry.text}`;
    if (entry.live) li.className = "live";
    $("log").prepend(li);
    while ($("log").childElementCount > 200) $("log").lastChild.remove();
  }

  // --- figures
  const number = (v, digits) => (v || 0).toFixed(digits);
  const figures = [
    ["time", (f) => number(f.elapsed_ms / 1000, 1) + " s"],
    ["served", (f) => f.served + (f.requests ? " / " + f.requests : "")],
    ["waiting", (f) => f.waiting],
    ["holding", (f) => f.holding],
    ["nodes up", (f) => f.up + " / " + view.nodes.length],
    ["entries a second", (f) => number(f.served_rate, 2)],
    ["messages a second", (f) => number(f.message_rate, 0)],
    ["kills, restarts", (f) => f.kills + ", " + f.restarts],
    ["kills a minute", (f) => number(f.churn_rate, 1)],
    ["list length mean, min", (f) => (f.members_min ? number(f.members_mean, 1) + ", " + f.members_min : "–")],
  ];
  const cells = figures.map(([name]) => {
    const div = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    div.append(dt, dd);
    $("figures").append(div);
    return dd;
  });

  // --- map
  const canvas = $("map");
  let place = () => [0, 0], radius = 6;
  function layout() {
    const scale = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const p = view.info ? view.info.positions : [];
    if (!p.length) return;
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const [x, y] of p) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    const margin = 24 * scale, w = canvas.width - 2 * margin, h = canvas.height - 2 * margin;
    const k = Math.min(x1 > x0 ? w / (x1 - x0) : Infinity, y1 > y0 ? h / (y1 - y0) : Infinity);
    const z = isFinite(k) ? k : 1;
    const ox = (canvas.width - z * (x1 - x0)) / 2, oy = (canvas.height - z * (y1 - y0)) / 2;
    place = (n) => [ox + z * (p[n][0] - x0), canvas.height - oy - z * (p[n][1] - y0)];
    radius = scale * Math.max(4, Math.min(12, 60 / Math.sqrt(p.length)));
  }
  function draw() {
    const g = canvas.getContext("2d");
    g.clearRect(0, 0, canvas.width, canvas.height);
    if (!view.info) return;
    const c = { ...Object.fromEntries(["idle", "waiting", "holding", "paused", "joining", "down", "line", "ink", "panel"].map((s) => [s, colours[s]])) };
    for (const l of view.links) {
      const [ax, ay] = place(l.a), [bx, by] = place(l.b);
      const mine = chosen && chosen.link && chosen.link.a === l.a && chosen.link.b === l.b;
      g.strokeStyle = l.up ? (mine ? c.ink : c.line) : c.down;
      g.lineWidth = mine ? 3 : 1;
      g.setLineDash(l.up ? [] : [6, 5]);
      g.beginPath();
      g.moveTo(ax, ay);
      g.lineTo(bx, by);
      g.stroke();
    }
    g.setLineDash([]);
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.font = `${Math.round(radius * 1.1)}px system-ui, sans-serif`;
    for (const n of view.nodes) {
      const [x, y] = place(n.id);
      const r = n.state === "holding" ? 1.6 * radius : radius;
      g.beginPath();
      g.arc(x, y, r, 0, 2 * Math.PI);
      g.fillStyle = n.state === "down" ? c.panel : c[n.state];
      g.fill();
      if (n.state === "down") { g.strokeStyle = c.down; g.lineWidth = 2; g.stroke(); }
      if (chosen && chosen.node === n.id) {
        g.beginPath();
        g.arc(x, y, r + 5, 0, 2 * Math.PI);
        g.strokeStyle = c.ink;
        g.lineWidth = 2;
        g.stroke();
      }
      if (view.nodes.length <= 80) {
        g.fillStyle = c.ink;
        g.fillText(n.id, x, y - r - radius);
      }
    }
  }
  function frame() {
    if (dirty) {
      dirty = false;
      layout();
      draw();
      figures.forEach(([, value], i) => { cells[i].textContent = value(view.figures); });
      describe();
      document.body.dataset.rev = String(Number(document.body.dataset.rev || 0) + 1);
    }
    requestAnimationFrame(frame);
  }
  new ResizeObserver(() => { dirty = true; }).observe(canvas);

  // --- hands
  function describe() {
    $("node-buttons").hidden = !(chosen && chosen.node !== undefined);
    $("link-buttons").hidden = !(chosen && chosen.link);
    if (!chosen) return;
    if (chosen.link) {
      const l = view.links.find((o) => o.a === chosen.link.a && o.b === chosen.link.b);
      $("chosen").textContent = `link ${l.a}-${l.b}: ${l.up ? "up" : "down"} ${l.text}`;
      return;
    }
    const n = view.nodes[chosen.node];
    $("chosen").textContent = `node ${n.id}: ${n.state}, life ${n.life}, entries ${n.entries}` + (n.leads ? `, leads group ${n.leads.replaceAll(" ", ", ")}` : "") + (n.members ? `, list of ${n.members}` : "");
  }
  function choose(what) { chosen = what; dirty = true; }
  canvas.addEventListener("click", (e) => {
    const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
    const x = (e.clientX - box.left) * scale, y = (e.clientY - box.top) * scale;
    let best = null, least = 3 * radius;
    for (const n of view.nodes) {
      const [nx, ny] = place(n.id), d = Math.hypot(nx - x, ny - y);
      if (d < least) { least = d; best = { node: n.id }; }
    }
    if (!best) {
      least = 8 * scale;
      for (const l of view.links) {
        const [ax, ay] = place(l.a), [bx, by] = place(l.b);
        const t = Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
        const d = Math.hypot(ax + t * (bx - ax) - x, ay + t * (by - ay) - y);
        if (d < least) { least = d; best = { link: { a: l.a, b: l.b } }; }
      }
    }
    choose(best);
  });
  async function act(action) {
    const answer = $("answer");
    answer.className = "";
    answer.textContent = action + " …";
    try {
      const r = await fetch("act", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ action }) });
      answer.className = r.ok ? "" : "bad";
      answer.textContent = r.ok ? (await r.json()).done : (await r.text()).trim();
    } catch (err) {
      answer.className = "bad";
      answer.textContent = "not sent: " + err.message;
    }
  }
  for (const b of document.querySelectorAll("[data-node]")) {
    b.addEventListener("click", () => act(`${b.dataset.node} node ${chosen.node}`));
  }
  const pair = () => `${chosen.link.a}-${chosen.link.b}`;
  for (const b of document.querySelectorAll("[data-link]")) {
    b.addEventListener("click", () => act(`link ${pair()} ${b.dataset.link}`));
  }
  $("set").addEventListener("click", () => {
    const words = ["delay", "loss"].filter((k) => $(k).value.trim()).map((k) => `${k} ${$(k).value.trim()}`);
    act(`set link ${pair()} ${words.join(" ")}`);
  });
  $("kill-holder").addEventListener("click", () => act("crash holder"));
  $("heal").addEventListener("click", () => act("heal"));
  requestAnimationFrame(frame);
})();
