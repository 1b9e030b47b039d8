/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server does, asked for every few seconds: plots, and why requests were slow. */

/* --- status: requests ----------------------------------------------------------------------- */

const total = (r) => (r.queue_ms ?? 0) + (r.prefill_ms ?? 0) + (r.decode_ms ?? 0);

/* A client that went away (499) has not failed. */
const isFailed = (r) => (r.status >= 400 && r.status !== 499) || r.finish === "error";

/* A sentence that says which phase took most of the time, and what made it long. */
function why(r) {
	if (isFailed(r)) return "It failed with status " + r.status + " (" + r.finish + ").";
	if (r.queue_ms === null) return "It ended in the queue.";
	if (r.prefill_ms === null) return "It ended before its first token.";
	const share = (v) => Math.round(100 * v / (total(r) || 1)) + " %";
	const computed = r.prompt_tokens - r.cached_tokens;
	if (r.queue_ms >= Math.max(r.prefill_ms, r.decode_ms))
		return "It waited for its turn: " + share(r.queue_ms) + " of its time.";
	if (r.prefill_ms >= r.decode_ms)
		return "Reading the prompt took " + share(r.prefill_ms) + ": " + plural(computed, "token was computed", "tokens were computed")
			+ (r.cached_tokens ? "." : ", none came from the cache.");
	return "Writing took "+ share(r.decode_ms) + ": " + plural(r.output_tokens, "token", "tokens")
		+ (r.tpot_ms === null ? "." : " at " + ms(r.tpot_ms) + " each.");
}

function rowsOf(r) {
	const computed = r.prompt_tokens - r.cached_tokens;
	const rows = [
		["Queue", ms(r.queue_ms), r.preempted ? "stopped for others " + plural(r.preempted, "time", "times") : ""],
		["Prefill", ms(r.prefill_ms), plural(computed, "token", "tokens") + " computed"],
		["Cached", r.cached_tokens ? "−" + ms(r.cache_saved_ms) : ms(0), plural(r.cached_tokens, "token", "tokens")
			+ (r.disk_tokens ? ", " + count.format(r.disk_tokens) + " from disk" : "") + (r.cached_tokens ? "; saved, estimated" : "")],
		["Decode", ms(r.decode_ms), plural(r.output_tokens, "token", "tokens") + (r.reasoning_tokens ? ", " + count.format(r.reasoning_tokens) + " of reasoning" : "")],
		["Speculation", r.accepted_tokens ? "−" + ms(r.speculation_saved_ms) : ms(0), r.draft_tokens
			? count.format(r.accepted_tokens) + " of " + plural(r.draft_tokens, "draft token", "draft tokens") + " right" + (r.accepted_tokens ? "; saved, estimated" : "") : "no draft tokens"],
		["TTFT", ms(r.ttft_ms), "TPOT " + ms(r.tpot_ms)],
		["Ended", r.finish, r.path + ", " + r.id],
	];
	return rows.flatMap(([name, value, note]) => [make("dt", "", name), make("dd", "", value), make("dd", "", note)]);
}

function requestItem(r) {
	const time = make("time", "", new Date(r.ended * 1000).toLocaleTimeString("en", { hourCycle: "h23" }));
	const phases = make("div", "bar");
	for (const [name, v] of [["q", r.queue_ms], ["p", r.prefill_ms], ["d", r.decode_ms]]) {
		const part = make("i", name);
		part.style.flexGrow = v ?? 0;
		phases.append(part);
	}
	const summary = make("summary", isFailed(r) ? "bad" : "", null, time, make("div", "", null, phases),
		make("span", "", isFailed(r) ? "failed" : ms(total(r))), make("span", "unseen", ". " + why(r)));
	const item = make("li", "", null, make("details", "", null, summary, make("p", "", why(r)), make("dl", "", null, ...rowsOf(r))));
	item.dataset.id = r.id + " " + r.ended;
	return item;
}

/* Rows of requests already shown are kept, so that they stay open or closed. */
function showRequests(requests) {
	const list = $("requests"), longest = Math.max(...requests.map(total), 1e-9);
	const old = new Map([...list.children].map((e) => [e.dataset.id, e]));
	const items = requests.map((r) => {
		const item = old.get(r.id + " " + r.ended) ?? requestItem(r);
		item.querySelector(".bar").style.width = 100 * total(r) / longest + "%";
		return item;
	});
	if (!items.length) items.push(make("li", "none", "None yet."));
	if (items.length !== list.children.length || items.some((e, i) => e !== list.children[i])) list.replaceChildren(...items);
}

/* --- status: asked for every few seconds ------------------------------------------------------ */

function setState(kind, text) {
	$("state").dataset.is = kind;
	$("state").textContent = text;
}

function promptRead(n, total) {
	return "Reading the prompt: " + count.format(n) + " of " + plural(total, "token", "tokens");
}

function phaseOf(a) {
	if (a.state === "queued") return "Waiting in the queue";
	if (a.state === "prefill") return promptRead(a.prefilled_tokens, a.prompt_tokens);
	return "Writing: " + plural(a.output_tokens, "token", "tokens");
}

function showStats(s) {
	setState(s.waiting ? "wait" : "ok", s.running ? "working" : "ready");
	$("model").textContent = s.model + " on " + s.backend;
	$("running").textContent = count.format(s.running);
	$("waiting").textContent = count.format(s.waiting);
	$("kv").textContent = percent(s.kv_usage);
	$("active").replaceChildren(...s.active.map((a) => make("li", "", null, make("span", "", phaseOf(a)), make("span", "", ms(a.age_ms)))));
	plotTimes("ttft", "Time to first token", s.buckets, s.ttft_ms);
	plotTimes("tpot", "Time per output token", s.buckets, s.tpot_ms);
	plotSpeed(s.buckets);
	plotLoad(s.buckets);
	plotKv(s.buckets);
	if (s.memory.total) plotMemory(s.buckets, s.memory);
	showRequests(s.requests);
	for (const run of runs.values()) {
		/* How far its prompt is, the answer's own stream tells, and earlier. */
		const mine = run.waiting && s.active.find((a) => a.id === run.id && a.state !== "prefill");
		if (mine) { run.waiting = phaseOf(mine); showRun(run); }
	}
	if (!models.length) readModels().catch(() => { /* asked again with the next look */ });
}

async function showHealth() {
	const h = await (await ask("/health")).json();
	const load = h.status === "loading" ? " " + percent(h.load) : "";
	setState(h.status === "loading" || h.status === "draining" ? "wait" : "bad", h.status + load);
}

let timer = 0;
async function look() {
	let isBusy = runs.size > 0;
	clearTimeout(timer);
	try {
		const response = await ask("/stats");
		if (response.status === 503) {
			await showHealth();
			models = []; /* another one may be there next */
			isBusy = true;
		} else {
			const s = await (await must(response)).json();
			showStats(s);
			isBusy ||= s.running + s.waiting > 0;
		}
	} catch (e) {
		models = [];
		if (e.status === 401) setState("wait", "needs a key");
		else setState("bad", e instanceof Refusal ? e.message : "no answer");
	}
	clearTimeout(timer);
	if (!document.hidden) timer = setTimeout(look, isBusy ? 1000 : 3000);
}

/* Looks a moment after a request began or ended: then it runs, or has a row. */
function lookSoon() {
	clearTimeout(timer);
	timer = setTimeout(look, 150);
}

