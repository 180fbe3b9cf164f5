// The script of a report: draws what stands in the element "data". It loads
// nothing, and writes text of the runs as text only.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const runs = JSON.parse($("#data").textContent);
  const clamp = (v, lo, hi) => Math.min(Math.max(v, lo), hi);
  const dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

  // Colours come from the style sheet, which knows light from dark.
  let colours = {};
  let printing = false;
  const readColours = () => {
    const css = getComputedStyle(document.documentElement);
    colours = new Proxy({}, { get: (had, name) => had[name] ??= css.getPropertyValue("--" + name).trim() });
  };

  const el = (tag, text, attributes = {}) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };

  const seconds = (us, digits = 3) => (us / 1e6).toFixed(digits) + " s";
  const short = (v) => {
    const a = Math.abs(v);
    if (a >= 1e9) return +(v / 1e9).toPrecision(3) + " G";
    if (a >= 1e6) return +(v / 1e6).toPrecision(3) + " M";
    if (a >= 1e5) return +(v / 1e3).toPrecision(3) + " k";
    return String(+v.toPrecision(5));
  };

  // ticks returns round values from lo to hi, about so many.
  const ticks = (lo, hi, about) => {
    const span = hi - lo;
    if (!(span > 0)) return [lo];
    const unit = 10 ** Math.floor(Math.log10(span / about));
    const step = [1, 2, 5, 10].map((f) => f * unit).find((s) => span / s <= about);
    const out = [];
    for (let v = Math.ceil(lo / step - 1e-9) * step; v <= hi + step * 1e-6; v += step) out.push(Math.abs(v) < step / 1e6 ? 0 : v);
    return out;
  };

  // fit gives a canvas as many pixels as it covers and returns its context,
  // measured in CSS pixels.
  const fit = (canvas) => {
    const scale = printing ? 2 : window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    const pw = Math.max(1, Math.round(w * scale)), ph = Math.max(1, Math.round(h * scale));
    if (canvas.width !== pw || canvas.height !== ph) { canvas.width = pw; canvas.height = ph; }
    const c = canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, w, h);
    c.font = "12px system-ui, sans-serif";
    return { c, w, h };
  };

  // Everything that is drawn registers here; a frame draws what is due.
  const views = [];
  const due = new Set();
  const later = (view) => {
    if (due.size === 0) requestAnimationFrame(() => { const now = [...due]; due.clear(); for (const v of now) v.draw(); });
    due.add(view);
  };
  const redrawAll = () => { readColours(); for (const v of views) v.draw(); };

  const tip = $("#tip");
  const showTip = (event, text) => {
    tip.textContent = text;
    tip.hidden = !text;
    if (!text) return;
    const box = tip.getBoundingClientRect();
    tip.style.left = clamp(event.clientX + 14, 4, innerWidth - box.width - 4) + "px";
    tip.style.top = clamp(event.clientY + 16, 4, innerHeight - box.height - 4) + "px";
  };
  const hideTip = () => { tip.hidden = true; };

  // lowerBound returns the first index in [lo, hi) whose value is above v.
  const above = (list, v, lo = 0, hi = list.length) => {
    while (lo < hi) { const m = (lo + hi) >> 1; if (list[m] <= v) lo = m + 1; else hi = m; }
    return lo;
  };

  // ---- One run -----------------------------------------------------------

  class Model {
    constructor(d) {
      this.d = d;
      const n = this.n = d.nodes.x.length;
      const q = d.requests, count = q.node ? q.node.length : 0;
      this.count = count;
      this.first = new Int32Array(n + 1); // requests of node i: [first[i], first[i+1])
      for (let i = 0; i < count; i++) this.first[q.node[i] + 1]++;
      for (let i = 0; i < n; i++) this.first[i + 1] += this.first[i];
      this.asked = Float64Array.from(q.asked || []);
      this.enter = Float64Array.from(q.enter || []);
      this.end = Float64Array.from(q.end || []);
      this.flag = Uint8Array.from(q.flag || []);
      const order = [];
      for (let i = 0; i < count; i++) if (this.enter[i] >= 0) order.push(i);
      order.sort((a, b) => this.enter[a] - this.enter[b]);
      this.entries = order; // by their entering
      this.entryAt = Float64Array.from(order, (i) => this.enter[i]);
      this.lives = this.byNode(d.lives);
      this.pauses = this.byNode(d.pauses);
      this.overlaps = [];
      const o = d.overlaps;
      for (let i = 0; o.first && i < o.first.length; i++) {
        this.overlaps.push({ first: o.first[i], second: o.second[i], from: o.from[i], to: o.to[i], zombie: o.zombie[i] === 1 });
      }
      this.overlaps.sort((a, b) => a.from - b.from);
      this.inViolation = new Set();
      for (const v of this.overlaps) if (!v.zombie) { this.inViolation.add(q.node[v.first]); this.inViolation.add(q.node[v.second]); }
    }

    byNode(table) {
      const lists = Array.from({ length: this.n }, () => []);
      for (let i = 0; table.node && i < table.node.length; i++) {
        lists[table.node[i]].push({ from: table.from[i], to: table.to[i], how: table.how ? table.how[i] : "" });
      }
      return lists;
    }

    label(node) {
      const l = this.d.nodes.label;
      return l && l[node] ? node + " " + l[node] : String(node);
    }

    id(i) { const q = this.d.requests; return q.node[i] + "." + q.inc[i] + "." + q.ts[i]; }

    // requestAt returns the request of a node that is under way at t, or -1.
    requestAt(node, t) {
      const lo = this.first[node], i = above(this.asked, t, lo, this.first[node + 1]) - 1;
      return i >= lo && t < Math.max(this.end[i], this.asked[i] + 1) ? i : -1;
    }

    upAt(node, t) { return this.lives[node].some((l) => l.from <= t && t < l.to) || (t >= this.d.end && this.lives[node].some((l) => l.to >= this.d.end)); }
    pausedAt(node, t) { return this.pauses[node].some((p) => p.from <= t && t < p.to); }

    // stateAt names what a node is doing.
    stateAt(node, t) {
      if (!this.upAt(node, t)) return "down";
      const i = this.requestAt(node, t);
      if (this.pausedAt(node, t)) return "paused";
      if (i < 0) return "idle";
      return this.enter[i] >= 0 && this.enter[i] <= t ? "holding" : "waiting";
    }

    describe(i) {
      const q = this.d.requests;
      let text = "node " + this.label(q.node[i]) + ", request " + this.id(i) + (q.no[i] ? " (no " + q.no[i] + ")" : "");
      text += "\nasked " + seconds(this.asked[i]);
      if (this.enter[i] >= 0) {
        text += "\nentered " + seconds(this.enter[i]) + ", waited " + ((this.enter[i] - this.asked[i]) / 1e3).toFixed(1) + " ms";
      } else {
        text += "\nnever entered";
      }
      text += "\nended " + seconds(this.end[i]) + ": " + this.d.endings[q.how[i]];
      if (this.flag[i] & 1) text += "\nVIOLATION";
      if (this.flag[i] & 2) text += "\noverlaps with a holder declared failed";
      return text;
    }
  }

  // ---- Timeline ----------------------------------------------------------

  const gutter = 58, axis = 26, lockRow = 20, gap = 6;

  class Lanes {
    constructor(model, root) {
      this.m = model;
      this.root = root;
      this.canvas = $(".lanes-canvas", root);
      this.readout = $(".readout", root);
      this.height = $('[data-do="height"]', root);
      this.from = model.d.begin;
      this.to = model.d.end;
      this.at = model.d.begin;
      this.top = 0; // first row shown, fractional
      this.rows = [];
      this.listeners = [];
      this.show("all");
      this.rowHeight = clamp(Math.floor(440 / Math.max(1, this.rows.length)), 2, 22);
      this.height.value = this.rowHeight;
      this.bind();
      views.push(this);
    }

    show(which) {
      const all = Array.from({ length: this.m.n }, (_, i) => i);
      if (which === "asked") this.rows = all.filter((i) => this.m.first[i + 1] > this.m.first[i]);
      else if (which === "bad") this.rows = all.filter((i) => this.m.inViolation.has(i));
      else this.rows = all;
      if (this.rows.length === 0) this.rows = all;
      this.rowOf = new Map(this.rows.map((id, i) => [id, i]));
      this.top = 0;
    }

    get span() { return this.to - this.from; }
    bodyTop() { return lockRow + gap; }
    visibleRows() { return (this.canvas.clientHeight - axis - this.bodyTop()) / this.rowHeight; }
    x(t) { return gutter + (t - this.from) / this.span * (this.canvas.clientWidth - gutter - 8); }
    t(x) { return this.from + (x - gutter) / (this.canvas.clientWidth - gutter - 8) * this.span; }

    limit() {
      const d = this.m.d, whole = d.end - d.begin;
      const span = clamp(this.span, 50, whole * 1.02);
      const mid = (this.from + this.to) / 2;
      this.from = clamp(mid - span / 2, d.begin - whole * .01, d.end + whole * .01 - span);
      this.to = this.from + span;
      this.top = clamp(this.top, 0, Math.max(0, this.rows.length - this.visibleRows()));
    }

    zoom(factor, about = (this.from + this.to) / 2) {
      this.from = about - (about - this.from) * factor;
      this.to = about + (this.to - about) * factor;
      this.changed();
    }

    pan(share) { const by = this.span * share; this.from += by; this.to += by; this.changed(); }
    whole() { this.from = this.m.d.begin; this.to = this.m.d.end; this.changed(); }
    changed() { this.limit(); later(this); }

    // goTo shows an instant and puts the map there.
    goTo(t, span) {
      if (span) { this.from = t - span / 2; this.to = t + span / 2; }
      else if (t < this.from || t > this.to) { const s = this.span; this.from = t - s / 2; this.to = t + s / 2; }
      this.setAt(t);
      this.changed();
    }

    setAt(t) { this.at = clamp(t, this.m.d.begin, this.m.d.end); for (const f of this.listeners) f(this.at); later(this); }

    reveal(node) {
      const row = this.rowOf.get(node);
      if (row === undefined) return;
      if (row < this.top || row >= this.top + this.visibleRows() - 1) this.top = row - this.visibleRows() / 2;
      this.limit();
    }

    nextEntry() {
      const m = this.m;
      if (m.entries.length === 0) return;
      const i = m.entries[above(m.entryAt, this.at) % m.entries.length];
      this.reveal(m.d.requests.node[i]);
      this.goTo(m.enter[i], Math.min(this.span, Math.max(4e6, 6 * (m.end[i] - m.asked[i]))));
      this.readout.textContent = m.describe(i).replaceAll("\n", "; ");
    }

    nextViolation() {
      const list = this.m.overlaps.filter((o) => !o.zombie);
      if (list.length === 0) return;
      this.showOverlap(list.find((o) => o.from > this.at) || list[0]);
    }

    showOverlap(o) {
      const m = this.m;
      this.reveal(m.d.requests.node[o.first]);
      const from = Math.min(m.asked[o.first], m.asked[o.second]), to = Math.max(m.end[o.first], m.end[o.second]);
      this.goTo(o.from, Math.max(to - from, 10 * (o.to - o.from), 1000) * 1.2);
      this.readout.textContent = (o.zombie ? "Overlap with a holder declared failed: " : "Violation: ") + m.describe(o.first).replaceAll("\n", "; ") + " — and " + m.describe(o.second).replaceAll("\n", "; ");
    }

    bind() {
      const acts = {
        in: () => this.zoom(.5), out: () => this.zoom(2), left: () => this.pan(-.25), right: () => this.pan(.25),
        all: () => this.whole(), next: () => this.nextEntry(), violation: () => this.nextViolation(),
      };
      for (const [name, act] of Object.entries(acts)) $(`[data-do="${name}"]`, this.root).addEventListener("click", act);
      for (const b of $$("[data-show]", this.root)) {
        b.addEventListener("click", () => {
          const at = Number(b.dataset.show), o = this.m.overlaps.find((v) => v.from === at);
          if (o) this.showOverlap(o);
          this.canvas.scrollIntoView({ block: "center" });
        });
      }
      $('[data-do="rows"]', this.root).addEventListener("change", (e) => { this.show(e.target.value); this.changed(); });
      this.height.addEventListener("input", () => { this.rowHeight = Number(this.height.value); this.changed(); });
      this.canvas.addEventListener("keydown", (e) => {
        const keys = {
          "+": acts.in, "=": acts.in, "-": acts.out, "_": acts.out, ArrowLeft: () => this.pan(-.1), ArrowRight: () => this.pan(.1),
          ArrowUp: () => { this.top -= 3; this.changed(); }, ArrowDown: () => { this.top += 3; this.changed(); },
          PageUp: () => { this.top -= this.visibleRows(); this.changed(); }, PageDown: () => { this.top += this.visibleRows(); this.changed(); },
          Home: acts.all, n: acts.next, v: acts.violation,
        };
        if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        keys[e.key]();
      });
      this.canvas.addEventListener("wheel", (e) => {
        // A page must remain scrollable: the wheel zooms where the pointer has
        // clicked before, or with Ctrl.
        if (document.activeElement !== this.canvas && !e.ctrlKey) return;
        e.preventDefault();
        if (e.shiftKey) { this.top += Math.sign(e.deltaY || e.deltaX) * 5; this.changed(); }
        else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / 1000);
        else this.zoom(Math.exp(clamp(e.deltaY, -200, 200) / 300), this.t(e.offsetX));
      }, { passive: false });
      let drag = null;
      this.canvas.addEventListener("pointerdown", (e) => {
        if (e.button !== 0) return;
        this.canvas.focus({ preventScroll: true });
        this.canvas.setPointerCapture(e.pointerId);
        drag = { x: e.offsetX, y: e.offsetY, from: this.from, to: this.to, top: this.top, moved: false };
      });
      this.canvas.addEventListener("pointermove", (e) => {
        if (!drag) { showTip(e, this.textAt(e.offsetX, e.offsetY)); return; }
        if (Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 4) drag.moved = true;
        if (!drag.moved) return;
        hideTip();
        this.canvas.classList.add("dragging");
        const by = (e.offsetX - drag.x) / (this.canvas.clientWidth - gutter - 8) * (drag.to - drag.from);
        this.from = drag.from - by;
        this.to = drag.to - by;
        this.top = drag.top - (e.offsetY - drag.y) / this.rowHeight;
        this.changed();
      });
      const drop = (e) => {
        this.canvas.classList.remove("dragging");
        if (drag && !drag.moved && e.type === "pointerup" && e.offsetX >= gutter) {
          this.setAt(this.t(e.offsetX));
          this.readout.textContent = this.textAt(e.offsetX, e.offsetY).replaceAll("\n", "; ");
        }
        drag = null;
      };
      this.canvas.addEventListener("pointerup", drop);
      this.canvas.addEventListener("pointercancel", drop);
      this.canvas.addEventListener("pointerleave", hideTip);
      this.canvas.addEventListener("dblclick", (e) => this.zoom(.25, this.t(e.offsetX)));
    }

    textAt(x, y) {
      const m = this.m, t = this.t(x), slack = this.span / 400;
      if (x < gutter - 50 || y > this.canvas.clientHeight - axis) return "";
      if (y < lockRow) {
        const k = above(m.entryAt, t + slack) - 1;
        for (let i = k; i >= Math.max(0, k - 8); i--) if (m.end[m.entries[i]] >= t - slack) return m.describe(m.entries[i]);
        return seconds(t);
      }
      const node = this.rows[Math.floor(this.top + (y - this.bodyTop()) / this.rowHeight)];
      if (node === undefined) return "";
      if (x < gutter) return "node " + m.label(node);
      let i = m.requestAt(node, t);
      for (const near of [t - slack, t + slack]) if (i < 0) i = m.requestAt(node, near);
      if (i >= 0) return m.describe(i);
      const life = m.lives[node].find((l) => Math.abs(l.to - t) < slack && l.how !== "stopped" && l.how !== "running");
      return "node " + m.label(node) + ", " + m.stateAt(node, t) + (life ? ", " + life.how + " at " + seconds(life.to) : "") + "\n" + seconds(t);
    }

    draw() {
      const wanted = this.bodyTop() + axis + clamp(this.rows.length * this.rowHeight, 60, 520);
      if (this.canvas.style.height !== wanted + "px") { this.canvas.style.height = wanted + "px"; this.limit(); }
      const { c, w, h } = fit(this.canvas);
      const m = this.m, y0 = this.bodyTop(), bottom = h - axis, rh = this.rowHeight, right = w - 8;
      const X = (t) => this.x(t);
      c.fillStyle = colours.card;
      c.fillRect(0, 0, w, h);
      const r0 = Math.floor(this.top), r1 = Math.min(this.rows.length, Math.ceil(this.top + this.visibleRows()) + 1);

      // Axis and grid.
      c.strokeStyle = colours.grid;
      c.fillStyle = colours.soft;
      c.textAlign = "center";
      c.textBaseline = "top";
      const marks = ticks(this.from / 1e6, this.to / 1e6, Math.max(2, w / 110));
      const digits = marks.length > 1 ? clamp(-Math.floor(Math.log10(marks[1] - marks[0]) + 1e-9), 0, 6) : 1;
      c.beginPath();
      for (const v of marks) {
        const x = Math.round(X(v * 1e6)) + .5;
        if (x < gutter || x > right) continue;
        c.moveTo(x, y0);
        c.lineTo(x, bottom);
        c.fillText(v.toFixed(digits) + " s", clamp(x, gutter, right - 16), bottom + 6);
      }
      c.stroke();

      c.save();
      c.beginPath();
      c.rect(gutter, 0, right - gutter, bottom);
      c.clip();

      // The section itself: who held it, whoever.
      c.fillStyle = colours.row;
      c.fillRect(gutter, 0, right - gutter, lockRow);
      this.bars(m.entries, (i) => m.enter[i], (i) => m.end[i], 2, lockRow - 4, colours.holding, m.entryAt);
      for (const o of m.overlaps) this.mark(o.from, o.to, 0, lockRow, o.zombie ? colours.zombie : colours.violation);

      // The nodes.
      c.save();
      c.beginPath();
      c.rect(gutter, y0, right - gutter, bottom - y0);
      c.clip();
      const pad = rh >= 8 ? 1 : 0, marksAt = [];
      for (let r = r0; r < r1; r++) {
        const node = this.rows[r], y = y0 + (r - this.top) * rh, height = rh - pad;
        if (rh >= 6 && r % 2 === 1) { c.fillStyle = colours.row; c.fillRect(gutter, y, right - gutter, height); }
        this.downs(node, y, height, marksAt);
        const a = m.first[node], b = m.first[node + 1];
        const lo = this.firstVisible(a, b);
        const inset = rh >= 8 ? Math.floor(rh / 4) : 0;
        let last = -1;
        for (let i = lo; i < b && m.asked[i] < this.to; i++) { // waiting
          const until = m.enter[i] >= 0 ? m.enter[i] : m.end[i];
          const x1 = Math.max(X(m.asked[i]), gutter - 2), x2 = Math.max(Math.min(X(until), right + 2), x1 + .6);
          if (x2 - last < .5) continue;
          c.fillStyle = colours.waiting;
          c.fillRect(x1, y + inset, x2 - x1, height - 2 * inset);
          last = x2;
        }
        last = -1;
        for (let i = lo; i < b && m.asked[i] < this.to; i++) { // in the section
          if (m.enter[i] < 0) continue;
          const x1 = Math.max(X(m.enter[i]), gutter - 2), x2 = Math.max(Math.min(X(m.end[i]), right + 2), x1 + 1.2);
          if (x2 - last < .5 && !m.flag[i]) continue;
          c.fillStyle = colours.holding;
          c.fillRect(x1, y, x2 - x1, height);
          last = x2;
        }
        for (const p of m.pauses[node]) {
          if (p.to < this.from || p.from > this.to) continue;
          this.hatch(X(p.from), X(p.to), y, height, colours.paused);
        }
      }
      for (const o of m.overlaps) {
        if (o.to < this.from || o.from > this.to) continue;
        for (const i of [o.first, o.second]) {
          const r = this.rowOf.get(m.d.requests.node[i]);
          if (r === undefined || r < r0 - 1 || r > r1) continue;
          this.mark(o.from, o.to, y0 + (r - this.top) * rh, Math.max(rh - pad, 3), o.zombie ? colours.zombie : colours.violation);
        }
      }
      for (const k of marksAt) this.triangle(k.x, k.y, k.size, k.up);
      c.restore();

      // Where the map stands.
      c.strokeStyle = colours.cursor;
      c.lineWidth = 1.5;
      c.beginPath();
      c.moveTo(X(this.at), 0);
      c.lineTo(X(this.at), bottom);
      c.stroke();
      c.lineWidth = 1;
      c.restore();

      // Names of rows.
      c.fillStyle = colours.soft;
      c.textAlign = "right";
      c.textBaseline = "middle";
      c.fillText("section", gutter - 6, lockRow / 2);
      const every = Math.max(1, Math.ceil(13 / rh));
      for (let r = Math.ceil(Math.max(r0, this.top) / every) * every; r < r1; r += every) {
        const y = y0 + (r - this.top + .5) * rh;
        if (y < y0 + 4 || y > bottom - 4) continue;
        const label = this.m.label(this.rows[r]);
        c.fillText(label.length > 9 ? label.slice(0, 8) + "…" : label, gutter - 6, y);
      }
    }

    // firstVisible returns the first request of [a, b) that may reach into
    // view: requests of one node do not overlap but for broken logs.
    firstVisible(a, b) { return Math.max(a, above(this.m.asked, this.from, a, b) - 2); }

    bars(list, from, to, y, height, colour, starts) {
      const c = this.canvas.getContext("2d");
      c.fillStyle = colour;
      let last = -1;
      for (let k = Math.max(0, above(starts, this.from) - 8); k < list.length && from(list[k]) < this.to; k++) {
        const x1 = Math.max(this.x(from(list[k])), gutter), x2 = Math.max(this.x(to(list[k])), x1 + .8);
        if (x2 - last < .4) continue;
        c.fillRect(x1, y, x2 - x1, height);
        last = x2;
      }
    }

    mark(from, to, y, height, colour) {
      if (to < this.from || from > this.to) return;
      const c = this.canvas.getContext("2d");
      let x1 = this.x(from), x2 = this.x(to);
      if (x2 - x1 < 3) { const mid = (x1 + x2) / 2; x1 = mid - 1.5; x2 = mid + 1.5; }
      c.fillStyle = colour;
      c.fillRect(x1, y, x2 - x1, height);
    }

    // downs draws when a node was not there, and collects kills and restarts.
    downs(node, y, height, marks) {
      const c = this.canvas.getContext("2d"), lives = this.m.lives[node], d = this.m.d;
      c.fillStyle = colours.down;
      let from = d.begin;
      const size = clamp(height * .7, 3, 7);
      const room = marks.length < 4000;
      for (const [k, l] of lives.entries()) {
        if (l.from > from && from < this.to && l.from > this.from) c.fillRect(this.x(from), y, this.x(l.from) - this.x(from), height);
        if (room && k > 0 && l.from >= this.from && l.from <= this.to) marks.push({ x: this.x(l.from), y: y + height / 2, size, up: true });
        if (room && l.to < d.end && l.to >= this.from && l.to <= this.to && l.how !== "stopped" && l.how !== "running") marks.push({ x: this.x(l.to), y: y + height / 2, size, up: false });
        from = Math.max(from, l.to);
      }
      if (from < Math.min(d.end, this.to) && d.end > this.from) c.fillRect(this.x(from), y, this.x(d.end) - this.x(from), height);
    }

    triangle(x, y, size, up) {
      const c = this.canvas.getContext("2d");
      c.fillStyle = up ? colours.restart : colours.kill;
      c.beginPath();
      c.moveTo(x, up ? y - size * .7 : y + size * .7);
      c.lineTo(x - size * .7, up ? y + size * .6 : y - size * .6);
      c.lineTo(x + size * .7, up ? y + size * .6 : y - size * .6);
      c.fill();
    }

    hatch(x1, x2, y, height, colour) {
      const c = this.canvas.getContext("2d");
      x1 = Math.max(x1, gutter);
      x2 = Math.max(Math.min(x2, this.canvas.clientWidth), x1 + 1.5);
      c.save();
      c.beginPath();
      c.rect(x1, y, x2 - x1, height);
      c.clip();
      c.strokeStyle = colour;
      c.lineWidth = 2;
      c.beginPath();
      for (let x = x1 - height; x < x2; x += 6) { c.moveTo(x, y + height); c.lineTo(x + height, y); }
      c.stroke();
      c.restore();
    }
  }

  // ---- Map ---------------------------------------------------------------

  class Mesh {
    constructor(model, root, lanes) {
      this.m = model;
      this.lanes = lanes;
      this.canvas = $(".map-canvas", root);
      this.note = $(".map-note", root);
      this.slider = $('[data-do="at"]', root);
      this.clock = $(".clock", root);
      this.at = model.d.begin;
      this.slider.min = model.d.begin / 1e6;
      this.slider.max = model.d.end / 1e6;
      this.slider.value = this.at / 1e6;
      this.slider.addEventListener("input", () => { lanes.setAt(Number(this.slider.value) * 1e6); });
      lanes.listeners.push((t) => { this.at = t; if (document.activeElement !== this.slider) this.slider.value = t / 1e6; later(this); });
      this.play = $('[data-do="play"]', root);
      this.speed = $('[data-do="speed"]', root);
      if (model.d.end - model.d.begin > 600e6) this.speed.value = "10";
      this.play.addEventListener("click", () => this.toggle());
      this.canvas.addEventListener("pointermove", (e) => { const i = this.near(e.offsetX, e.offsetY); showTip(e, i < 0 ? "" : this.describe(i)); });
      this.canvas.addEventListener("pointerleave", hideTip);
      this.canvas.addEventListener("click", (e) => {
        const i = this.near(e.offsetX, e.offsetY);
        if (i < 0) return;
        lanes.reveal(i);
        later(lanes);
        lanes.readout.textContent = this.describe(i).replaceAll("\n", "; ");
      });
      this.canvas.addEventListener("keydown", (e) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (step) { e.preventDefault(); lanes.setAt(this.at + step * Math.max(1e5, lanes.span / 200)); }
        if (e.key === " ") { e.preventDefault(); this.toggle(); }
      });
      views.push(this);
    }

    toggle() {
      this.playing = !this.playing;
      this.play.textContent = this.playing ? "Pause" : "Play";
      this.play.setAttribute("aria-pressed", String(this.playing));
      if (!this.playing) return;
      if (this.at >= this.m.d.end) this.lanes.setAt(this.m.d.begin);
      let last = performance.now();
      const step = (now) => {
        if (!this.playing) return;
        this.lanes.setAt(this.at + (now - last) * 1e3 * Number(this.speed.value));
        if (this.at > this.lanes.to) { this.lanes.goTo(this.at); }
        last = now;
        if (this.at >= this.m.d.end) this.toggle(); else requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    }

    place() {
      const w = this.canvas.clientWidth, h = this.canvas.clientHeight, margin = 24, d = this.m.d;
      const scale = Math.min((w - 2 * margin) / Math.max(d.width, .02), (h - 2 * margin) / Math.max(d.height, .02));
      const dx = (w - d.width * scale) / 2, dy = (h - d.height * scale) / 2;
      this.px = (i) => dx + d.nodes.x[i] * scale;
      this.py = (i) => dy + d.nodes.y[i] * scale;
      this.radius = clamp(Math.sqrt(w * h / Math.max(1, this.m.n)) / 7, 2.5, 9);
    }

    near(x, y) {
      let best = -1, dist = 14;
      for (let i = 0; i < this.m.n; i++) {
        const d = Math.hypot(this.px(i) - x, this.py(i) - y);
        if (d < dist) { best = i; dist = d; }
      }
      return best;
    }

    describe(i) {
      const q = this.m.requestAt(i, this.at);
      const text = "node " + this.m.label(i) + ": " + this.m.stateAt(i, this.at) + " at " + seconds(this.at);
      return q >= 0 ? text + "\n" + this.m.describe(q) : text;
    }

    draw() {
      const { c, w, h } = fit(this.canvas);
      const m = this.m, d = m.d, t = this.at;
      this.place();
      c.fillStyle = colours.card;
      c.fillRect(0, 0, w, h);
      // Links whose state the log changed so far.
      const state = new Map();
      const ch = d.changes;
      for (let i = 0; ch.t && i < ch.t.length && ch.t[i] <= t; i++) if (ch.up[i] >= 0) state.set(ch.link[i], ch.up[i]); else if (!state.has(ch.link[i])) state.set(ch.link[i], -1);
      const links = d.links.a ? d.links.a.length : 0;
      c.strokeStyle = colours.link;
      c.globalAlpha = links > 2000 ? .35 : links > 600 ? .6 : 1;
      c.lineWidth = 1;
      c.beginPath();
      for (let i = 0; i < links; i++) {
        if (state.has(i)) continue;
        c.moveTo(this.px(d.links.a[i]), this.py(d.links.a[i]));
        c.lineTo(this.px(d.links.b[i]), this.py(d.links.b[i]));
      }
      c.stroke();
      c.globalAlpha = 1;
      for (const [i, up] of state) {
        c.strokeStyle = up === 0 ? colours.violation : colours.link;
        c.setLineDash(up === 0 ? [3, 4] : up < 0 ? [6, 3] : []);
        c.beginPath();
        c.moveTo(this.px(d.links.a[i]), this.py(d.links.a[i]));
        c.lineTo(this.px(d.links.b[i]), this.py(d.links.b[i]));
        c.stroke();
      }
      c.setLineDash([]);
      const violating = new Set();
      for (const o of m.overlaps) if (!o.zombie && o.from <= t && t < Math.max(o.to, o.from + 1)) { violating.add(d.requests.node[o.first]); violating.add(d.requests.node[o.second]); }
      const counts = { holding: 0, waiting: 0, down: 0, paused: 0, idle: 0 };
      const R = this.radius;
      const names = m.n <= 80;
      for (let i = 0; i < m.n; i++) {
        const s = m.stateAt(i, t), x = this.px(i), y = this.py(i);
        counts[s]++;
        c.beginPath();
        c.arc(x, y, s === "holding" ? R * 1.45 : s === "down" ? R * .75 : R, 0, 7);
        c.fillStyle = violating.has(i) ? colours.violation : s === "idle" ? colours.idle : s === "down" ? colours.card : colours[s];
        c.fill();
        c.strokeStyle = s === "down" ? colours.down : colours.card;
        c.lineWidth = s === "down" ? 1.5 : 1;
        c.stroke();
        if (m.inViolation.has(i)) { c.strokeStyle = colours.violation; c.lineWidth = 2; c.beginPath(); c.arc(x, y, R * 1.45 + 2.5, 0, 7); c.stroke(); }
        else if (s === "holding") { c.strokeStyle = colours.holding; c.lineWidth = 1.5; c.beginPath(); c.arc(x, y, R * 1.45 + 3, 0, 7); c.stroke(); }
      }
      if (names) {
        c.textAlign = "center";
        c.textBaseline = "bottom";
        c.font = "10px system-ui, sans-serif";
        c.lineWidth = 3;
        c.strokeStyle = colours.card;
        c.fillStyle = colours.ink;
        for (let i = 0; i < m.n; i++) { c.strokeText(i, this.px(i), this.py(i) - R - 2); c.fillText(i, this.px(i), this.py(i) - R - 2); }
      }
      const up = m.n - counts.down;
      this.note.textContent = `${up} of ${m.n} up, ${counts.holding} in the section, ${counts.waiting} waiting, ${counts.paused} paused` + (violating.size ? " – VIOLATION" : "");
      this.clock.textContent = seconds(t);
    }
  }

  // ---- Charts ------------------------------------------------------------

  // A chart draws series { name, colour, dash, xs, ys, kind }: kind is line,
  // step, dots or area (stacked on what came before). x(v) and y(v) format.
  class Chart {
    constructor(canvas, options) {
      this.canvas = canvas;
      this.o = options;
      this.from = this.to = null;
      views.push(this);
      canvas.tabIndex = 0;
      canvas.addEventListener("pointermove", (e) => showTip(e, this.textAt(e.offsetX)));
      canvas.addEventListener("pointerleave", hideTip);
    }

    extent() {
      let x0 = Infinity, x1 = -Infinity, y1 = -Infinity;
      for (const s of this.o.series()) {
        for (let i = 0; i < s.xs.length; i++) {
          if (s.xs[i] < x0) x0 = s.xs[i];
          if (s.xs[i] > x1) x1 = s.xs[i];
          const v = s.top ? s.top[i] : s.ys[i];
          if (v > y1) y1 = v;
        }
      }
      if (this.o.x0 !== undefined) x0 = this.o.x0;
      if (this.o.x1 !== undefined) x1 = Math.max(this.o.x1, x0);
      if (!(x1 >= x0)) return null;
      if (x1 === x0) x1 = x0 + 1;
      let top = this.o.y1 ?? y1 * 1.05;
      if (!(top > 0)) top = 1;
      return { x0, x1, y0: 0, y1: top };
    }

    draw() {
      const { c, w, h } = fit(this.canvas);
      c.fillStyle = colours.card;
      c.fillRect(0, 0, w, h);
      const series = this.o.series(), e = this.e = this.extent();
      // The legend stands above.
      let lx = 8, ly = 8;
      c.textBaseline = "middle";
      c.textAlign = "left";
      for (const s of series) {
        if (s.hidden || !s.name) continue;
        const width = c.measureText(s.name).width + 34;
        if (lx + width > w && lx > 8) { lx = 8; ly += 16; }
        this.sample(c, s, lx, ly);
        c.fillStyle = colours.ink;
        c.fillText(s.name, lx + 22, ly);
        lx += width;
      }
      this.box = { l: 54, r: w - 10, t: ly + 14, b: h - 34 };
      const { l, r, t, b } = this.box;
      if (!e) {
        c.fillStyle = colours.soft;
        c.textAlign = "center";
        c.fillText(this.o.empty || "nothing to show", w / 2, h / 2);
        return;
      }
      const X = this.X = (v) => l + (v - e.x0) / (e.x1 - e.x0) * (r - l);
      const Y = (v) => b - (v - e.y0) / (e.y1 - e.y0) * (b - t);
      c.strokeStyle = colours.grid;
      c.fillStyle = colours.soft;
      c.beginPath();
      c.textAlign = "right";
      for (const v of ticks(e.y0, e.y1, Math.max(2, (b - t) / 36))) {
        const y = Math.round(Y(v)) + .5;
        c.moveTo(l, y);
        c.lineTo(r, y);
        c.fillText((this.o.y || short)(v), l - 6, y);
      }
      c.stroke();
      c.textAlign = "center";
      c.textBaseline = "top";
      for (const v of ticks(e.x0, e.x1, Math.max(2, (r - l) / 80))) c.fillText((this.o.x || short)(v), clamp(X(v), l, r - 8), b + 5);
      c.textBaseline = "bottom";
      c.textAlign = "right";
      c.fillText(this.o.xLabel, r, h - 1);
      c.textAlign = "left";
      c.fillText(this.o.yLabel, 4, h - 1);
      c.save();
      c.beginPath();
      c.rect(l, t - 2, r - l + 2, b - t + 4);
      c.clip();
      for (const s of series) this.one(c, s, X, Y);
      c.restore();
      c.strokeStyle = colours.line;
      c.beginPath();
      c.moveTo(l + .5, t);
      c.lineTo(l + .5, b + .5);
      c.lineTo(r, b + .5);
      c.stroke();
    }

    sample(c, s, x, y) {
      c.fillStyle = c.strokeStyle = s.colour();
      if (s.kind === "area" || s.kind === "bars") { c.fillRect(x, y - 5, 16, 10); return; }
      if (s.kind === "dots") { c.beginPath(); c.arc(x + 8, y, 3, 0, 7); c.fill(); return; }
      c.setLineDash(s.dash || []);
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x + 17, y);
      c.stroke();
      c.setLineDash([]);
      c.lineWidth = 1;
    }

    one(c, s, X, Y) {
      const n = s.xs.length;
      c.fillStyle = c.strokeStyle = s.colour();
      if (n === 0) return;
      if (s.kind === "dots") {
        const size = n > 3000 ? 1.3 : n > 500 ? 2 : 3;
        c.globalAlpha = n > 1000 ? .6 : .9;
        for (let i = 0; i < n; i++) { if (s.colours) c.fillStyle = s.colours[i] ? s.colours[i]() : s.colour(); c.fillRect(X(s.xs[i]) - size, Y(s.ys[i]) - size, 2 * size, 2 * size); }
        c.globalAlpha = 1;
        return;
      }
      if (s.kind === "bars") {
        for (let i = 0; i < n; i++) {
          const x1 = X(s.xs[i]), x2 = X(s.to[i]);
          c.fillStyle = s.colours ? s.colours[i]() : s.colour();
          c.fillRect(x1, Y(s.top[i]), Math.max(x2 - x1 - (x2 - x1 > 3 ? 1 : 0), .8), Math.max(Y(s.base[i]) - Y(s.top[i]), 0));
        }
        return;
      }
      c.beginPath();
      if (s.kind === "area") {
        for (let i = 0; i < n; i++) { const x = X(s.xs[i]), y = Y(s.top[i]); if (i === 0) c.moveTo(x, y); else c.lineTo(x, Y(s.top[i - 1])); c.lineTo(x, y); }
        for (let i = n - 1; i >= 0; i--) { const x = X(s.xs[i]), y = Y(s.base[i]); if (i < n - 1) c.lineTo(X(s.xs[i + 1]), y); c.lineTo(x, y); }
        c.closePath();
        c.fill();
        return;
      }
      c.setLineDash(s.dash || []);
      c.lineWidth = 2;
      for (let i = 0; i < n; i++) {
        const x = X(s.xs[i]), y = Y(s.ys[i]);
        if (i === 0) c.moveTo(x, y);
        else { if (s.kind === "step") c.lineTo(x, Y(s.ys[i - 1])); c.lineTo(x, y); }
      }
      c.stroke();
      c.setLineDash([]);
      c.lineWidth = 1;
    }

    textAt(x) {
      if (!this.e || x < this.box.l || x > this.box.r) return "";
      const v = this.e.x0 + (x - this.box.l) / (this.box.r - this.box.l) * (this.e.x1 - this.e.x0);
      const lines = [(this.o.xLong || this.o.x || short)(v)];
      for (const s of this.o.series()) {
        if (s.hidden || s.xs.length === 0) continue;
        let i;
        if (s.kind === "dots") {
          i = above(s.xs, v);
          if (i > 0 && (i === s.xs.length || v - s.xs[i - 1] < s.xs[i] - v)) i--;
          if (Math.abs(this.X(s.xs[i]) - x) > 5) continue;
        } else {
          i = above(s.xs, v) - 1;
        }
        if (i < 0) continue;
        lines.push(s.name + ": " + (this.o.y || short)(s.ys[i]) + (s.note ? s.note(i) : ""));
      }
      return lines.join("\n");
    }
  }

  const token = (i) => () => colours["s" + i % 8];
  const named = (name) => () => colours[name];
  const inSeconds = (us) => +(us / 1e6).toPrecision(5) + " s";
  const once = (f) => { let v; return () => v ??= f(); };

  // stack returns series one on the other; values[k][i] at xs[i].
  const stack = (names, xs, to, values, kind) => {
    const base = new Float64Array(xs.length);
    return names.map((name, k) => {
      const low = Float64Array.from(base), ys = values[k];
      for (let i = 0; i < base.length; i++) base[i] += ys[i];
      return { name, kind, colour: token(k), xs, to, ys, base: low, top: Float64Array.from(base) };
    });
  };

  const waitSeries = (models, over) => models.map((m, k) => {
    const at = [], ms = [], colours_ = [];
    for (const i of m.entries) {
      at.push(m.enter[i]);
      ms.push((m.enter[i] - m.asked[i]) / 1e3);
      colours_.push(m.flag[i] & 1 ? named("violation") : null);
    }
    const name = models.length > 1 ? m.d.name : "";
    if (over) return { name: name || "wait of an entry", kind: "dots", colour: token(k), xs: at.map((t) => t - m.d.begin), ys: ms, colours: colours_, note: (i) => ", node " + m.d.requests.node[m.entries[i]] };
    const xs = Float64Array.from(ms).sort();
    const ys = Float64Array.from(xs, (_, i) => (i + 1) / xs.length);
    const all = { name: name || "entries", kind: "step", dash: dashes[k % 4], colour: token(k), xs: [0, ...xs], ys: [0, ...ys] };
    return all;
  });

  const perRunCharts = (m, root) => {
    const d = m.d, find = (name) => $(`[data-chart="${name}"]`, root);
    const time = { x: inSeconds, xLabel: "scenario time", x0: d.begin, x1: d.end };
    const tr = d.traffic;
    const seriesOf = once(() => tr.from ? stack(tr.classes, tr.from, tr.to, tr.n, "area") : []);
    new Chart(find("traffic"), { ...time, yLabel: "datagrams a second", series: seriesOf, empty: "the logs have no counters" });

    const s = d.sent, kindsBy = (table) => {
      const classes = [...new Set(s.class || [])].sort();
      const xs = Array.from({ length: m.n }, (_, i) => i), to = xs.map((i) => i + 1);
      const values = classes.map((c) => { const v = new Float64Array(m.n); (s.kinds || []).forEach((_, k) => { if (s.class[k] === c) table[k].forEach((n, i) => { v[i] += n; }); }); return v; });
      return stack(classes, xs, to, values, "bars");
    };
    const options = { n: once(() => kindsBy(s.n)), bytes: once(() => kindsBy(s.bytes)) };
    let shown = "n";
    const nodes = new Chart(find("nodes"), { x: (v) => String(Math.round(v)), xLong: (v) => "node " + m.label(clamp(Math.floor(v), 0, m.n - 1)), xLabel: "node", yLabel: "sent", x0: 0, x1: m.n, series: () => options[shown](), empty: "the logs have no counters" });
    $('[data-do="per-node"]', root).addEventListener("change", (e) => { shown = e.target.value; later(nodes); });

    const z = d.sizes;
    new Chart(find("sizes"), {
      ...time, yLabel: "nodes in the list", empty: "the logs have no lists",
      series: once(() => z.from ? [
        { name: "mean", kind: "step", colour: token(0), xs: z.from, ys: z.mean },
        { name: "smallest", kind: "step", colour: token(1), dash: [6, 3], xs: z.from, ys: z.min },
        { name: "members that run", kind: "step", colour: token(7), dash: [2, 3], xs: z.from, ys: z.up },
      ] : []),
    });

    const churn = once(() => {
      const steps = [], kills = [], restarts = [];
      m.lives.forEach((list) => list.forEach((l, k) => {
        steps.push([l.from, 1]);
        if (l.to < d.end) steps.push([l.to, -1]);
        if (k > 0) restarts.push(l.from);
        if (l.how === "killed") kills.push(l.to);
      }));
      steps.sort((a, b) => a[0] - b[0]);
      const xs = [], ys = [];
      let up = 0;
      for (const [t, by] of steps) {
        up += by;
        if (t < d.begin) continue;
        if (xs.length === 0) { xs.push(d.begin); ys.push(up - (t > d.begin ? by : 0)); }
        xs.push(t);
        ys.push(up);
      }
      if (xs.length === 0) { xs.push(d.begin); ys.push(up); }
      xs.push(d.end);
      ys.push(up);
      const count = (list) => { list = list.filter((t) => t >= d.begin).sort((a, b) => a - b); return { xs: [d.begin, ...list, d.end], ys: [0, ...list.map((_, i) => i + 1), list.length] }; };
      return [
        { name: "nodes up", kind: "step", colour: token(0), xs, ys },
        { name: "kills so far", kind: "step", colour: token(1), dash: [6, 3], ...count(kills) },
        { name: "restarts so far", kind: "step", colour: token(2), dash: [2, 3], ...count(restarts) },
      ];
    });
    new Chart(find("churn"), { ...time, yLabel: "nodes", series: churn });

    const f = d.slices, grades = ["good", "fair", "bad"];
    new Chart(find("fidelity"), {
      ...time, yLabel: "delay error p99 (ms)", empty: "the run has no slices (simulated: virtual time is never late)",
      series: once(() => {
        if (!f.to) return [];
        const xs = f.to.map((_, i) => i ? f.to[i - 1] : d.begin), ys = f.p99.map((v) => v ?? 0);
        const least = .04 * (Math.max(...ys) || 1); // the verdict is to be seen where nothing is late
        return ["faithful", "strained", "unfaithful"].map((name, g) => {
          const at = f.to.map((_, i) => i).filter((i) => f.grade[i] === g);
          const pick = (list) => at.map((i) => list[i]);
          return { name, kind: "bars", colour: named(grades[g]), hidden: false, xs: pick(xs), to: pick(f.to), ys: pick(ys), top: pick(ys.map((v) => Math.max(v, least))), base: pick(ys.map(() => 0)) };
        }).filter((s) => s.xs.length > 0);
      }),
    });

    // Tables that may be long are made when they are opened.
    const lazy = (selector, make) => {
      const box = $(selector, root);
      box.addEventListener("toggle", () => { const into = $("div", box); if (box.open && !into.firstChild) into.append(make()); });
    };
    const table = (head, rows, numbersFrom) => {
      const t = el("table", undefined, { class: "list" }), tr_ = el("tr"), body = el("tbody"), h = el("thead");
      head.forEach((text) => tr_.append(el("th", text, { scope: "col" })));
      h.append(tr_);
      for (const r of rows) {
        const line = el("tr");
        r.forEach((text, i) => line.append(el("td", text, i >= numbersFrom ? { class: "n" } : {})));
        body.append(line);
      }
      t.append(h, body);
      return t;
    };
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    lazy(".kinds", () => table(["kind", "class", "datagrams", "of them repeated", "bytes"], (s.kinds || []).map((k, i) => [k, s.class[i], sum(s.n[i]), s.retrans[i], sum(s.bytes[i])]), 2));
    lazy(".matrix", () => table(["node", ...(s.kinds || [])], Array.from({ length: m.n }, (_, i) => [m.label(i), ...(s.kinds || []).map((_, k) => s.n[k][i])]), 1));
    lazy(".entries", () => {
      const q = d.requests, ms = (v) => (v / 1e3).toFixed(1), most = 5000;
      const order = Array.from({ length: m.count }, (_, i) => i).sort((a, b) => m.asked[a] - m.asked[b]);
      const box = document.createDocumentFragment();
      if (order.length > most) box.append(el("p", `The first ${most} of ${order.length} requests.`));
      box.append(table(["node", "request", "ended by", "asked (s)", "wait (ms)", "in the section (ms)"], order.slice(0, most).map((i) => [
        m.label(q.node[i]), m.id(i), d.endings[q.how[i]] + (m.flag[i] & 1 ? ", VIOLATION" : ""), (m.asked[i] / 1e6).toFixed(3),
        m.enter[i] >= 0 ? ms(m.enter[i] - m.asked[i]) : "–", m.enter[i] >= 0 ? ms(m.end[i] - m.enter[i]) : "–",
      ]), 3));
      return box;
    });
  };

  // ---- The page ----------------------------------------------------------

  readColours();
  const models = runs.map((d) => new Model(d));
  const lanes = [];
  models.forEach((m, k) => {
    const root = $(`section[data-run="${k}"]`);
    const l = new Lanes(m, root);
    lanes.push(l);
    new Mesh(m, root, l);
    perRunCharts(m, $(`.run-charts[data-run="${k}"]`));
  });
  if ($("#waits")) { // else no run has a section to wait for
    new Chart($("#wait-ecdf"), { xLabel: "wait (ms)", yLabel: "share of entries that waited no longer", y1: 1, x0: 0, series: once(() => waitSeries(models, false)), empty: "nobody entered" });
    new Chart($("#wait-time"), { x: inSeconds, xLabel: models.length > 1 ? "time since the epoch of each run" : "time since the epoch", yLabel: "wait (ms)", x0: 0, series: once(() => waitSeries(models, true)), empty: "nobody entered" });
  }

  const themes = ["auto", "light", "dark"];
  $("#theme").addEventListener("click", (e) => {
    const now = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % 3];
    if (now === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = now;
    e.target.textContent = "Colours: " + now;
    e.target.setAttribute("aria-label", "Colours: " + (now === "auto" ? "as the system has them" : now));
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  let before;
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; document.documentElement.dataset.theme = "light"; printing = true; redrawAll(); });
  addEventListener("afterprint", () => { if (before) document.documentElement.dataset.theme = before; else delete document.documentElement.dataset.theme; printing = false; redrawAll(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; for (const v of views) later(v); } });
  addEventListener("keydown", (e) => { if (e.key === "Escape") hideTip(); });

  for (const b of $$(".copy")) {
    b.addEventListener("click", async () => {
      const text = $("code", b.parentElement).textContent;
      try {
        await navigator.clipboard.writeText(text);
        b.textContent = "Copied";
      } catch { // a page opened as a file may not
        getSelection().selectAllChildren($("code", b.parentElement));
        b.textContent = "Selected";
      }
    });
  }
  for (const b of $$(".save")) {
    b.addEventListener("click", () => {
      const text = $(".scenario", b.closest("[data-run]")).textContent;
      const a = el("a", "", { download: "scenario.yaml", href: URL.createObjectURL(new Blob([text], { type: "application/yaml" })) });
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 1000);
    });
  }

  redrawAll();
  // The first picture stands; tests and benchmarks read these two.
  document.documentElement.dataset.readyMs = performance.now().toFixed(0);
  window.churnbedReport = { lanes, models };
})();
