/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots over the last ten minutes: an axis with values, and what a bucket of ten seconds holds
 * under the pointer, a finger, or the arrow keys.
 *
 * A spec is {label, text, unit(v), tell(bucket), buckets, marks}, and the scale: isLog, or from 0
 * to `top`. marks(bucket): [{name, from, to}] are bars, or ticks where isTick. */

const HEIGHT = 92, LEFT = 52, RIGHT = 4, ABOVE = 9, BELOW = 17;
const plots = new Map(); /* by id: {spec, at}; at: the bucket that is told, or null */

function draw(tag, name, attributes, text) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
	if (name) e.setAttribute("class", name);
	for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
	if (text !== undefined) e.textContent = text;
	return e;
}

/* The next of 1, 2, 5, 10, 20, … */
function roundUp(v) {
	const step = 10 ** Math.floor(Math.log10(v));
	return step * [1, 2, 5, 10].find((k) => k * step >= v * 0.999999);
}

/* {y(v), ticks}: where a value stands, and the values at the axis. */
function scaleOf(spec) {
	const bottom = HEIGHT - BELOW, room = bottom - ABOVE;
	if (!spec.isLog) {
		const top = spec.top;
		return { y: (v) => bottom - Math.min(v / top, 1) * room, ticks: spec.isWhole && top % 2 ? [0, top] : [0, top / 2, top] };
	}
	const values = spec.buckets.flatMap((b) => spec.marks(b).flatMap((m) => [m.from, m.to])).filter((v) => v > 0);
	const low = Math.floor(Math.log10(Math.min(...values, 1e9))), high = Math.max(Math.ceil(Math.log10(Math.max(...values, 1e-9))), low + 1);
	const every = Math.ceil((high - low) / 3), ticks = [];
	if (!values.length) return { y: () => bottom, ticks: [] };
	for (let k = low; k <= high; k += every) ticks.push(10 ** k);
	return { y: (v) => bottom - (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low) * room, ticks };
}

function showPlot(id) {
	const { spec, at } = plots.get(id), svg = $(id), width = svg.clientWidth || 330, n = spec.buckets.length;
	const slot = (width - LEFT - RIGHT) / n, x = (i) => LEFT + i * slot, { y, ticks } = scaleOf(spec), shapes = [];
	svg.setAttribute("viewBox", "0 0 " + width + " " + HEIGHT);
	for (const v of ticks)
		shapes.push(draw("line", "grid", { x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }),
			draw("text", "", { x: LEFT - 5, y: y(v) + 3.5, "text-anchor": "end" }, spec.unit(v)));
	for (const [i, text, anchor] of [[0, "10 min ago", "start"], [n / 2, "5 min ago", "middle"], [n, "now", "end"]])
		shapes.push(draw("text", "", { x: x(i), y: HEIGHT - 4, "text-anchor": anchor }, text));
	spec.buckets.forEach((b, i) => {
		for (const m of spec.marks(b)) {
			const high = y(m.to), low = y(m.from);
			if (m.isTick) shapes.push(draw("line", m.name, { x1: x(i) + slot / 2, x2: x(i) + slot / 2, y1: low, y2: high }));
			else shapes.push(draw("rect", m.name, { x: x(i) + 0.5, width: Math.max(slot - 1, 1), y: high, height: Math.max(low - high, 0.5) }));
		}
	});
	if (at !== null) shapes.push(draw("line", "cursor", { x1: x(at) + slot / 2, x2: x(at) + slot / 2, y1: ABOVE, y2: HEIGHT - BELOW }));
	svg.replaceChildren(...shapes);
	svg.setAttribute("aria-label", spec.label + ": " + spec.text);
	const ago = (n - 1 - (at ?? 0)) * 10;
	$(id + "-text").textContent = at === null ? spec.text
		: (ago < 10 ? "now" : ago < 60 ? ago + " s ago" : Math.floor(ago / 60) + " min " + (ago % 60 || "00") + " s ago") + ": " + spec.tell(spec.buckets[at]);
}

function plot(id, spec) {
	if (!plots.has(id)) beginPlot(id);
	plots.get(id).spec = spec;
	showPlot(id);
}

function beginPlot(id) {
	const svg = $(id), state = { spec: null, at: null };
	const tell = (at) => { state.at = at; showPlot(id); };
	const move = (event) => {
		const r = svg.getBoundingClientRect(), n = state.spec.buckets.length;
		const i = Math.floor((event.clientX - r.left - LEFT) / (r.width - LEFT - RIGHT) * n);
		tell(Math.max(0, Math.min(n - 1, i)));
	};
	plots.set(id, state);
	svg.setAttribute("role", "img");
	svg.setAttribute("tabindex", "0");
	svg.onpointermove = svg.onpointerdown = move;
	svg.onpointerleave = svg.onblur = () => tell(null);
	svg.onkeydown = (event) => {
		const n = state.spec.buckets.length, at = state.at ?? n;
		const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[event.key];
		if (to === undefined) return;
		event.preventDefault();
		$(id + "-text").setAttribute("aria-live", "polite");
		tell(Math.max(0, Math.min(n - 1, to)));
	};
}

addEventListener("resize", () => { for (const id of plots.keys()) showPlot(id); });

/* --- the plots of the page --------------------------------------------------------------------- */

const most = (buckets, pick) => Math.max(0, ...buckets.map(pick));

/* A median, and a line up to p95. The scale is logarithmic: one slow request hides no other. */
function plotTimes(id, label, buckets, all) {
	const pick = (b) => b[id + "_ms"];
	plot(id, {
		label, buckets, isLog: true, unit: (v) => v >= 1000 ? v / 1000 + " s" : v + " ms",
		text: all.n ? "median " + ms(all.median) + ", p95 " + ms(all.p95) : "no requests",
		tell: (b) => pick(b).n ? "median " + ms(pick(b).median) + ", p95 " + ms(pick(b).p95) + ", " + plural(pick(b).n, "request", "requests") : "no requests",
		marks: (b) => pick(b).n ? [{ name: "p95", isTick: true, from: pick(b).median, to: pick(b).p95 },
			{ name: "median", isTick: true, from: pick(b).median, to: pick(b).median }] : [],
	});
}

function plotSpeed(buckets) {
	const top = most(buckets, (b) => b.tokens_per_second);
	const text = (v) => (v < 10 ? Number(v.toFixed(1)) : count.format(Math.round(v))) + " tokens/s";
	plot("speed", {
		label: "Tokens per second", buckets, top: roundUp(Math.max(top, 1)), unit: (v) => count.format(v),
		text: "at most " + text(top), tell: (b) => text(b.tokens_per_second),
		marks: (b) => b.tokens_per_second ? [{ name: "made", from: 0, to: b.tokens_per_second }] : [],
	});
}

function plotLoad(buckets) {
	const all = (b) => b.running + b.waiting + b.failed, failed = buckets.reduce((sum, b) => sum + b.failed, 0);
	plot("load", {
		label: "Requests", buckets, top: Math.max(most(buckets, all), 1), isWhole: true, unit: (v) => count.format(v),
		text: "at most " + most(buckets, (b) => b.running) + " running, " + most(buckets, (b) => b.waiting) + " waiting"
			+ (failed ? "; " + failed + " failed" : ""),
		tell: (b) => b.running + " running, " + b.waiting + " waiting, " + b.failed + " failed",
		marks: (b) => [{ name: "running", from: 0, to: b.running }, { name: "waiting", from: b.running, to: b.running + b.waiting },
			{ name: "failed", from: b.running + b.waiting, to: all(b) }].filter((m) => m.to > m.from),
	});
}

function plotKv(buckets) {
	const top = most(buckets, (b) => b.kv_usage);
	plot("kv-plot", {
		label: "KV in use", buckets, top: top > 0.5 ? 1 : roundUp(Math.max(top, 0.02)), unit: percent,
		text: "at most " + percent(top), tell: (b) => percent(b.kv_usage),
		marks: (b) => b.kv_usage ? [{ name: "kv", from: 0, to: b.kv_usage }] : [],
	});
}

function plotMemory(buckets, now) {
	plot("memory", {
		label: "Memory of the machine", buckets, top: now.total, unit: (v) => v ? (v / 2 ** 30).toFixed(v < 2 ** 33 ? 1 : 0) + " GiB" : "0",
		text: gib(now.used) + " of " + gib(now.total) + " in use; halod " + gib(now.process),
		tell: (b) => gib(b.memory_used) + " in use",
		marks: (b) => b.memory_used ? [{ name: "mem", from: 0, to: b.memory_used }] : [],
	});
}
