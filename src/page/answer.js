/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer: asked for, read as it comes, kept while it comes.
 *
 * A run is {stop, id, talk, node, waiting}. It goes on when its user opens another
 * conversation. Half an answer is written to the store every SAVE_MS, and at the moment when
 * the page is closed also to sessionStorage, which is written at once: so a reload loses no word,
 * and offers to go on. */

const SAVE_MS = 500;

function addDelta(node, run, delta) {
	const { shown } = node;
	if (delta.reasoning_content) {
		run.begun_ms ??= performance.now();
		node.reasoning_content = (node.reasoning_content ?? "") + delta.reasoning_content;
	}
	if ((delta.content || delta.tool_calls) && run.begun_ms !== undefined)
		shown.thought_ms ??= performance.now() - run.begun_ms;
	node.content += delta.content ?? "";
	for (const piece of delta.tool_calls ?? []) {
		node.tool_calls ??= [];
		const call = node.tool_calls[piece.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
		call.id ||= piece.id ?? "";
		call.function.name += piece.function?.name ?? "";
		call.function.arguments += piece.function?.arguments ?? "";
	}
}

function bodyOf(node, goesOn) {
	const s = settings(), body = { ...s.fields, messages: toSend(goesOn ? node.id : node.parent), stream: true, return_progress: true };
	if (models.length > 1) body.model = modelNow().id;
	if (s.temperature !== "") body.temperature = Number(s.temperature);
	if (s.maxTokens !== "") body.max_tokens = Number(s.maxTokens);
	if (s.thinking) body.enable_thinking = s.thinking === "on";
	if (s.tools.length) body.tools = s.tools;
	/* Who hears hears films, too. */
	if (modelNow()?.hears && body.messages.some((m) => partsOf(m.content).some((p) => p.type === "video_url")))
		body.mm_processor_kwargs ??= { use_audio_in_video: true };
	if (goesOn) Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
	return JSON.stringify(body);
}

function showRun(run) {
	if (run.talk === talk) showNode(run.node);
}

async function readAnswer(run, body) {
	const { node } = run;
	let isDue = false, saved_ms = performance.now();
	const draw = () => { isDue = false; showRun(run); };
	const response = await must(await ask("/v1/chat/completions", {
		method: "POST", body, signal: run.stop.signal,
		headers: { "Content-Type": "application/json", "X-Request-Id": run.id },
	}));
	for await (const event of eventsOf(response)) {
		if (event.error) throw new Refusal(500, event.error.message);
		for (const choice of event.choices ?? []) {
			if (choice.index) continue; /* only the first choice is shown */
			addDelta(node, run, choice.delta ?? {});
			node.shown.finish = choice.finish_reason ?? node.shown.finish;
		}
		node.shown.timings = event.timings ?? node.shown.timings;
		run.waiting = event.prompt_progress ? promptRead(event.prompt_progress.processed, event.prompt_progress.total) : "";
		if (performance.now() - saved_ms > SAVE_MS) {
			saved_ms = performance.now();
			save(run.talk, [node]);
		}
		if (!isDue) { isDue = true; (document.hidden ? setTimeout : requestAnimationFrame)(draw); }
	}
	if (!node.shown.finish) throw new Error("the stream ended before the answer did");
}

/* Asks the server for an answer behind the tip, or to go on with `old`, and shows it as it
 * comes. */
async function answer(old) {
	const node = old ?? addNode(talk.tip, { role: "assistant", content: "", shown: {} });
	const run = { stop: new AbortController(), id: "page-" + newId(), talk, node, waiting: "Waiting for the server" };
	const body = bodyOf(node, Boolean(old));
	node.shown = { isGoing: true, ...(node.shown.thought_ms && { thought_ms: node.shown.thought_ms }) };
	runs.set(talk.id, run);
	const isOver = holdWriting(node.id);
	kept.set("open", talk.id);
	save(talk, [node]);
	lookSoon();
	showBranch();
	showTalks();
	toEnd();
	try {
		await readAnswer(run, body);
	} catch (e) {
		if (run.stop.signal.aborted) node.shown.finish = "stopped";
		else {
			node.shown.finish = isEmpty(node) ? "" : "broken";
			node.shown.fault = e instanceof Refusal ? e.message : "The connection broke: " + e.message;
		}
	}
	runs.delete(run.talk.id);
	delete node.shown.isGoing;
	if (run.begun_ms !== undefined) node.shown.thought_ms ??= performance.now() - run.begun_ms;
	if (node.shown.finish !== "tool_calls") delete node.tool_calls;
	run.talk.changed = Date.now();
	if (store.talks.has(run.talk.id)) await save(run.talk, [node]);
	isOver();
	if (run.talk === talk) showBranch();
	if (run.talk === talk && !document.querySelector("dialog[open]") && matchMedia("(pointer: fine)").matches
		&& document.activeElement === document.body) $("prompt").focus();
	showTalks();
	lookSoon();
}

function setBusy() {
	const isBusy = runs.has(talk.id);
	$("send").textContent = isBusy ? "Stop" : "Send";
	$("log").setAttribute("aria-busy", isBusy);
}

function stop() { runs.get(talk.id)?.stop.abort(); }

/* --- answers that were cut ----------------------------------------------------------------------- */

addEventListener("pagehide", () => {
	for (const { talk, node } of runs.values()) store.pending.set(node.id, { talk, node });
	if (store.pending.size) kept.set("unsaved", [...store.pending.values()]);
});

/* What the page had not yet written when it was closed. */
async function saveUnsaved() {
	for (const { talk, node } of kept.get("unsaved", [])) await save(talk, node ? [node] : []);
	sessionStorage.removeItem("halod.unsaved");
}

/* An answer of the open talk that nobody writes any more. */
async function findLost() {
	const of = talk.id;
	for (const node of nodes.values()) {
		if (!node.shown?.isGoing || runs.get(of)?.node === node) continue;
		if (await isWritten(node.id)) continue;
		const now = (await readNodes(of)).get(node.id); /* the tab that wrote it may have told its end a moment ago */
		if (talk.id !== of || !now?.shown.isGoing) continue;
		delete now.shown.isGoing;
		if (now.shown.finish !== "tool_calls") delete now.tool_calls;
		now.shown.finish ||= "lost";
		if (isEmpty(now)) now.shown.fault = "The page was closed before the answer came.";
		nodes.set(now.id, now);
		await save(talk, [now]);
		showBranch();
	}
}

/* A tab holds a lock while it writes an answer. The browser takes it from a tab that ends, so it
 * needs no guess of how long a tab that lives may take to say so. Over plain http in a LAN there
 * are no locks: there the tab is asked. Returns what gives it back. */
function holdWriting(id) {
	let release;
	const isOver = new Promise((done) => { release = done; });
	navigator.locks?.request("halod " + id, () => isOver);
	return release;
}

/* Where there are locks it waits until no tab writes the answer. */
async function isWritten(id) {
	if (!navigator.locks) return saysSo(id);
	await navigator.locks.request("halod " + id, () => {});
	return false;
}

function saysSo(id) {
	return new Promise((done) => {
		const hear = (event) => { if (event.data.here === id) finish(true); };
		const finish = (value) => { store.channel.removeEventListener("message", hear); clearTimeout(timeout); done(value); };
		const timeout = setTimeout(finish, 2000, false);
		store.channel.addEventListener("message", hear);
		store.channel.postMessage({ who: id });
	});
}
