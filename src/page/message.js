/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages as the page shows them. Each node of the branch that is shown has a view: {root,
 * and its parts}, kept by the node's id, so that a view stays while its message grows. */

const views = new Map();

function atEnd() {
	const log = $("log");
	return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
}
function toEnd() { $("log").scrollTop = $("log").scrollHeight; }

function viewOf(node) {
	let view = views.get(node.id);
	if (!view) views.set(node.id, view = node.role === "user" ? userView() : answerView());
	return view;
}

function userView() {
	const view = { files: make("div", "files"), text: make("div", "said"), actions: make("div", "actions") };
	view.root = make("div", "message user", null, view.files, view.text, view.actions);
	return view;
}

function answerView() {
	const thought = make("details", "thought", null, make("summary", "", "Thinking"), make("div"));
	thought.hidden = true;
	const view = { thought, text: make("div", "text"), calls: make("div"), fault: make("div", "fault"),
		meta: make("span", "meta"), actions: make("div", "actions") };
	view.fault.hidden = true;
	view.fault.setAttribute("role", "alert");
	view.root = make("article", "message", null, thought, view.text, view.calls, view.fault,
		make("div", "below", null, view.meta, view.actions));
	return view;
}

/* --- what can be done with a message ------------------------------------------------------------- */

/* Steps through what was asked or answered in its place. */
function branchButtons(node) {
	const all = childrenOf(node.parent).filter((n) => n.role === node.role), i = all.indexOf(node);
	if (all.length < 2) return [];
	const step = (d, text, label) => {
		const e = button(text, () => { chooseBranch(all[i + d]); showBranch(); });
		e.setAttribute("aria-label", label);
		e.disabled = !all[i + d];
		return e;
	};
	return [step(-1, "‹", "The version before"), make("span", "branch", (i + 1) + " of " + all.length), step(1, "›", "The next version")];
}

/* Can the answer go on from its last word? Thoughts that were cut are closed by that. */
const canGoOn = (node) => Boolean(node.content || node.reasoning_content) && !node.tool_calls && !node.shown.isGoing
	&& ["length", "stopped", "broken", "lost"].includes(node.shown.finish);

function showActions(view, node) {
	const isBusy = runs.has(talk.id), list = [];
	if (node.role === "user") {
		list.push(copyButton(() => node.content));
		if (!isBusy) list.push(button("Edit", () => editNode(view, node)));
	} else if (!node.shown.isGoing) {
		if (node.content) list.push(copyButton(() => node.content));
		if (!isBusy && canGoOn(node) && node.id === talk.tip) list.push(button(node.content ? "Go on" : "Answer now", () => answer(node)));
		if (!isBusy) list.push(button(isEmpty(node) ? "Try again" : "Regenerate", () => regenerate(node)));
	}
	if (!isBusy) list.push(...branchButtons(node));
	const state = list.map((e) => e.textContent + e.disabled).join("|");
	if (view.actions.dataset.state === state) return; /* a button with the focus stays */
	view.actions.dataset.state = state;
	view.actions.replaceChildren(...list);
}

function regenerate(node) {
	if (runs.has(talk.id)) return;
	dropEmpty(node);
	talk.tip = node.parent;
	answer();
}

/* The question becomes a field. Sent, it is another version of the question. */
function editNode(view, node) {
	const area = make("textarea"), form = make("form", "edit");
	const close = () => { form.replaceWith(view.text); view.actions.hidden = false; };
	area.value = node.content;
	area.setAttribute("aria-label", "Edit the message");
	area.rows = Math.min(12, node.content.split("\n").length + 1);
	area.onkeydown = (event) => {
		if (event.key === "Escape") { event.stopPropagation(); close(); }
		if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
	};
	form.onsubmit = (event) => {
		event.preventDefault();
		if (runs.has(talk.id) || !(area.value.trim() || node.files)) return;
		close();
		const fresh = addNode(node.parent, { role: "user", content: area.value.trim(), ...(node.files && { files: node.files }) });
		save(talk, [fresh]);
		answer();
	};
	form.append(area, button("Cancel", close), make("button", "solid", "Send"));
	view.actions.hidden = true;
	view.text.replaceWith(form);
	area.focus();
}

/* --- parts of a message ------------------------------------------------------------------------------ */

function fileElement(file) {
	if (file.url) {
		const e = make("img");
		e.src = file.url;
		e.alt = file.name;
		return e;
	}
	if (file.sound || file.film) {
		const e = make(file.film ? "video" : "audio");
		e.controls = true;
		e.src = file.film ?? file.sound;
		e.setAttribute("aria-label", file.name);
		return e;
	}
	return make("details", "file", null, make("summary", "", file.name), make("pre", "", file.text));
}

function prettyJson(text) {
	try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

/* Calls, and a result for each. The page runs no tools: the user types what one would give. */
function showCalls(view, node) {
	const calls = node.shown.isGoing || node.shown.finish === "tool_calls" ? node.tool_calls ?? [] : [];
	const below = childrenOf(node.id), results = [];
	for (let n = below.at(-1); n?.role === "tool"; n = childrenOf(n.id).at(-1)) results.push(n);
	const state = JSON.stringify([calls, results.map((n) => n.content), node.id === talk.tip, runs.has(talk.id)]);
	if (view.calls.dataset.state === state) return;
	view.calls.dataset.state = state;
	const boxes = calls.map((c) => make("div", "call", null, make("div", "", "Calls ", make("b", "", c.function.name)),
		make("pre", "", prettyJson(c.function.arguments))));
	results.forEach((n, i) => boxes[i]?.append(make("div", "", "Result"), make("pre", "", n.content)));
	view.calls.replaceChildren(...boxes);
	if (calls.length && node.id === talk.tip && !runs.has(talk.id)) offerResults(view, node, boxes);
}

function offerResults(view, node, boxes) {
	const form = make("form"), fields = boxes.map((box) => {
		const area = make("textarea");
		area.rows = 2;
		box.append(make("label", "", "Result of the call", area));
		return area;
	});
	form.append(...boxes, make("button", "solid", fields.length > 1 ? "Send results" : "Send result"));
	form.onsubmit = (event) => {
		event.preventDefault();
		if (runs.has(talk.id)) return;
		let parent = node.id;
		const fresh = node.tool_calls.map((c, i) => {
			const n = addNode(parent, { role: "tool", tool_call_id: c.id, content: fields[i].value });
			parent = n.id;
			return n;
		});
		save(talk, fresh);
		answer();
	};
	view.calls.append(form);
}

function showThought(view, node) {
	const { shown } = node, summary = view.thought.firstChild;
	view.thought.hidden = !node.reasoning_content;
	if (view.thought.hidden) return;
	const text = node.reasoning_content.trim(), box = view.thought.lastChild;
	if (box.textContent !== text) box.textContent = text;
	if (shown.isGoing && shown.thought_ms === undefined) summary.textContent = "Thinking";
	else summary.textContent = (shown.thought_ms ?? 0) < 100 ? "Thought" : "Thought for " + ms(shown.thought_ms);
}

const ENDS = { length: "reached the longest length that an answer may have", stopped: "stopped",
	broken: "the connection broke here", lost: "the page was closed here" };

function metaOf(shown) {
	const parts = [], t = shown.timings;
	if (t) {
		parts.push("TTFT " + ms(t.ttft_ms), plural(t.predicted_n, "token", "tokens"));
		if (t.predicted_per_second > 0) parts.push(count.format(Math.round(t.predicted_per_second)) + " tokens/s");
	}
	if (ENDS[shown.finish]) parts.push(ENDS[shown.finish]);
	return parts.join(" · ");
}

function showNode(node) {
	const view = viewOf(node);
	if (node.role === "user") {
		view.text.textContent = node.content;
		view.text.hidden = !node.content;
		if (!view.files.children.length) view.files.append(...(node.files ?? []).map(fileElement));
	} else {
		const follow = atEnd();
		showThought(view, node);
		showText(view.text, node.content, !node.shown.isGoing);
		showCalls(view, node);
		view.fault.hidden = !node.shown.fault;
		view.fault.textContent = node.shown.fault ?? "";
		view.meta.textContent = node.shown.isGoing ? runs.get(talk.id)?.waiting ?? "" : metaOf(node.shown);
		if (follow) toEnd();
	}
	showActions(view, node);
}

/* Shows the branch of the open conversation. */
function showBranch() {
	const path = pathTo(talk.tip).filter((n) => n.role !== "tool"), follow = atEnd();
	for (const n of path) showNode(n);
	const wanted = [$("hello"), ...path.map((n) => viewOf(n).root)];
	$("hello").hidden = path.length > 0;
	$("hello-where").textContent = talk.isPrivate ? "Private: the conversation stays in this tab, and goes with it."
		: "The conversation is kept in this browser, on this device.";
	if (wanted.some((e, i) => $("log").children[i] !== e) || $("log").children.length !== wanted.length)
		$("log").replaceChildren(...wanted);
	if (follow) toEnd();
	setBusy();
}
