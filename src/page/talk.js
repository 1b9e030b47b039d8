/* SPDX-License-Identifier: Apache-2.0
 *
 * The conversation that is open: a tree of messages, of which one branch is shown.
 *
 * A node is a message in the API's shape, and {talk, id, parent, made} of its place. `parent`
 * is "" at the root. A user's node may have `files`: {name, text}, {name, url},
 * {name, film} or {name, sound}, with data URLs. An answer has
 * `shown`, what the page tells about it: {finish, fault, timings, thought_ms, isGoing}. isGoing:
 * some tab is writing it. Neither is sent as it is. */

let talk = newTalk();
let nodes = new Map();
const LARGEST_FILE = 11 << 20; /* bytes of a sound or film: in base64 it fits into the usual max_body */
const LARGEST_TALK = 15 << 20; /* characters of files: all of them are sent each time, and the usual max_body is 16 MiB */
const runs = new Map(); /* by talk: the answer that this tab writes there (answer.js) */

function newTalk() {
	return { id: newId(), title: "New conversation", isNamed: false, made: Date.now(), changed: Date.now(), tip: "",
		isPrivate: !keepsNow() };
}

/* The switch itself is kept on the device: who has turned it off once means it. */
function keepsNow() {
	try { return !store.isOff && localStorage.getItem("halod.keeps") !== "no"; } catch { return false; }
}

/* From the root to `tip`. */
function pathTo(tip) {
	const path = [], seen = new Set();
	for (let n = nodes.get(tip); n && !seen.has(n.id); n = nodes.get(n.parent)) {
		seen.add(n.id);
		path.unshift(n);
	}
	return path;
}

const byAge = (a, b) => a.made - b.made || (a.id < b.id ? -1 : 1);
const childrenOf = (id) => [...nodes.values()].filter((n) => n.parent === id).sort(byAge);
const isEmpty = (n) => n.role === "assistant" && !n.content && !n.tool_calls && !n.reasoning_content;

/* Adds a node behind `parent` and shows its branch. It is saved by the caller. */
function addNode(parent, fields) {
	const last = Math.max(0, ...[...nodes.values()].map((n) => n.made));
	const node = { talk: talk.id, id: newId(), parent, made: Math.max(Date.now(), last + 1), ...fields };
	nodes.set(node.id, node);
	talk.tip = node.id;
	talk.changed = Date.now();
	if (!talk.isNamed && node.role === "user" && !parent) talk.title = titleOf(node);
	return node;
}

function titleOf(node) {
	const line = (node.content || node.files?.[0]?.name || "").trim().split("\n")[0];
	return line.length > 70 ? line.slice(0, 69) + "…" : line || "New conversation";
}

/* An answer that failed before its first word is no branch: nobody looks for it. */
function dropEmpty(node) {
	if (!node || !isEmpty(node) || childrenOf(node.id).length) return;
	nodes.delete(node.id);
	talk.tip = node.parent;
	dropNode(talk, node);
}

/* Shows the branch of `node`, down to the newest message behind it. */
function chooseBranch(node) {
	const behind = [...nodes.values()].filter((n) => pathTo(n.id).includes(node));
	talk.tip = behind.sort(byAge).at(-1).id;
	save(talk);
}

/* --- as the API wants it --------------------------------------------------------------------- */

function contentOf(node) {
	const files = node.files ?? [];
	const texts = files.filter((f) => f.text !== undefined).map((f) => {
		const longest = Math.max(2, ...(f.text.match(/`+/g) ?? []).map((s) => s.length));
		return f.name + ":\n" + "`".repeat(longest + 1) + "\n" + f.text + "\n" + "`".repeat(longest + 1);
	});
	const text = [...texts, node.content].filter(Boolean).join("\n\n");
	const parts = files.filter((f) => f.url || f.film || f.sound)
		.map((f) => f.url ? { type: "image_url", image_url: { url: f.url } }
			: f.film ? { type: "video_url", video_url: { url: f.film } } : soundPart(f.sound));
	return parts.length ? [...parts, ...(text ? [{ type: "text", text }] : [])] : text;
}

/* With sounds or films. Pictures alone are bounded by the server. */
function isTooLarge(list) {
	const all = list.flatMap((node) => node.files ?? []);
	return all.some((f) => f.sound || f.film)
		&& all.reduce((n, f) => n + (f.sound ?? f.film ?? f.url ?? f.text).length, 0) > LARGEST_TALK;
}

const partsOf = (content) => typeof content === "string" ? [{ type: "text", text: content }] : content;

function joined(a, b) {
	return typeof a === "string" && typeof b === "string" ? a + "\n\n" + b : [...partsOf(a), ...partsOf(b)];
}

/* The messages to send for an answer behind `tip`. Empty answers are left out, and a user's
 * messages in a row become one: many templates demand that user and assistant alternate. A
 * call without a result gets "(no result)". */
function toSend(tip) {
	const out = [], { system } = settings();
	if (system) out.push({ role: "system", content: system });
	for (const n of pathTo(tip)) {
		const last = out.at(-1);
		if (isEmpty(n)) continue;
		for (const c of n.role === "user" ? pendingCalls(out) : [])
			out.push({ role: "tool", tool_call_id: c.id, content: "(no result)" });
		if (n.role === "user" && last?.role === "user") last.content = joined(last.content, contentOf(n));
		else if (n.role === "user") out.push({ role: "user", content: contentOf(n) });
		else if (n.role === "tool") out.push({ role: "tool", tool_call_id: n.tool_call_id, content: n.content });
		else out.push({ role: "assistant", content: n.content,
			...(n.reasoning_content && { reasoning_content: n.reasoning_content }), ...(n.tool_calls && { tool_calls: n.tool_calls }) });
	}
	return out;
}

function pendingCalls(list) {
	const i = list.findLastIndex((m) => m.role === "assistant");
	const done = list.slice(i + 1).map((m) => m.tool_call_id);
	return (list[i]?.tool_calls ?? []).filter((c) => !done.includes(c.id));
}
