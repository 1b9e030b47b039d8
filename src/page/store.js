/* SPDX-License-Identifier: Apache-2.0
 *
 * Where conversations are kept.
 *
 * A talk is {id, title, isNamed, made, changed, tip, isPrivate}: a tree of messages, and the
 * last message of the branch that is shown. A node is one message (talk.js). Each node is
 * a record of its own: a stream writes a small record again and again, and two tabs that write
 * into one talk add nodes to the same tree.
 *
 * Talks are kept on this device, in IndexedDB; private ones in this tab alone, so that a reload
 * does not lose them. Tabs tell each other what they have changed. */

const store = {
	talks: new Map(),     /* by id: all that this tab knows of */
	own: new Map(),       /* by id: {talk, nodes} of the private ones */
	pending: new Map(),   /* by id: {talk, node} or {talk} that is being written */
	db: null,             /* null: this browser keeps nothing */
	ready: null,          /* a promise: it is known whether there is a db */
	isOff: false,         /* it is known that there is none */
	channel: new BroadcastChannel("halod"),
};

const asked = (request) => new Promise((done, failed) => {
	request.onsuccess = () => done(request.result);
	request.onerror = () => failed(request.error);
});

const ended = (transaction) => new Promise((done, failed) => {
	transaction.oncomplete = done;
	transaction.onerror = transaction.onabort = () => failed(transaction.error);
});

async function openStore() {
	for (const { talk, nodes } of kept.get("private", []))
		store.own.set(talk.id, { talk, nodes: new Map(nodes.map((n) => [n.id, n])) });
	try {
		const opening = indexedDB.open("halod", 1);
		opening.onupgradeneeded = () => {
			opening.result.createObjectStore("talks", { keyPath: "id" });
			opening.result.createObjectStore("nodes", { keyPath: ["talk", "id"] });
		};
		store.db = await asked(opening);
		/* Another tab has a newer page, or the data are cleared: neither must wait for this tab. */
		store.db.onversionchange = () => {
			store.db.close();
			store.db = null;
			notice("What this browser keeps has changed: reload the page.");
		};
	} catch (e) {
		store.isOff = true;
		notice("This browser keeps no conversations: " + e.message);
	}
	const list = store.db ? await asked(store.db.transaction("talks").objectStore("talks").getAll()) : [];
	for (const t of [...list, ...[...store.own.values()].map((o) => o.talk)])
		if (!store.talks.has(t.id)) store.talks.set(t.id, t);
}

const nodesIn = (id) => IDBKeyRange.bound([id], [id, []]);

/* A talk as another tab has left it; undefined: it is not kept. */
async function readTalk(id) {
	return store.db ? asked(store.db.transaction("talks").objectStore("talks").get(id)) : undefined;
}

/* The nodes of a talk, by id. */
async function readNodes(id) {
	if (store.own.has(id)) return store.own.get(id).nodes;
	const list = store.db ? await asked(store.db.transaction("nodes").objectStore("nodes").getAll(nodesIn(id))) : [];
	return new Map(list.map((n) => [n.id, n]));
}

function saveOwn() {
	const all = [...store.own.values()].map(({ talk, nodes }) => ({ talk, nodes: [...nodes.values()] }));
	if (!kept.set("private", all)) notice("This tab has no room for the whole conversation: a reload would lose it.");
}

/* Writes a talk and some of its nodes. */
async function save(talk, nodes = []) {
	store.talks.set(talk.id, talk);
	const own = [{ talk }, ...nodes.map((node) => ({ talk, node }))];
	for (const one of own) store.pending.set((one.node ?? talk).id, one);
	await store.ready;
	await write(talk, nodes);
	/* Unless it has been changed meanwhile. */
	for (const one of own) if (store.pending.get((one.node ?? talk).id) === one) store.pending.delete((one.node ?? talk).id);
}

async function write(talk, nodes) {
	if (talk.isPrivate || !store.db) {
		if (!store.own.has(talk.id)) store.own.set(talk.id, { talk, nodes: new Map() });
		for (const n of nodes) store.own.get(talk.id).nodes.set(n.id, n);
		saveOwn();
		return;
	}
	try {
		const t = store.db.transaction(["talks", "nodes"], "readwrite");
		t.objectStore("talks").put(talk);
		for (const n of nodes) t.objectStore("nodes").put(n);
		await ended(t);
		store.channel.postMessage({ changed: talk.id });
	} catch (e) {
		notice("The conversation could not be kept: " + (e?.message ?? "this device has no room"));
	}
}

async function dropNode(talk, node) {
	if (store.own.has(talk.id)) {
		store.own.get(talk.id).nodes.delete(node.id);
		saveOwn();
	} else if (store.db) {
		const t = store.db.transaction("nodes", "readwrite");
		t.objectStore("nodes").delete([talk.id, node.id]);
		await ended(t);
	}
}

async function dropTalk(id) {
	store.talks.delete(id);
	if (store.own.delete(id)) {
		saveOwn();
	} else if (store.db) {
		const t = store.db.transaction(["talks", "nodes"], "readwrite");
		t.objectStore("talks").delete(id);
		t.objectStore("nodes").delete(nodesIn(id));
		await ended(t);
		store.channel.postMessage({ dropped: id });
	}
}

/* From the device into this tab, or back. */
async function moveTalk(talk, isPrivate) {
	const nodes = [...(await readNodes(talk.id)).values()];
	await dropTalk(talk.id);
	talk.isPrivate = isPrivate;
	await save(talk, nodes);
}

/* Calls visit(node) for each node that is kept, one after the other: all of them at once may
 * be much memory, because pictures are in them. */
async function eachNode(visit) {
	for (const { nodes } of store.own.values()) for (const n of nodes.values()) visit(n);
	if (!store.db) return;
	const request = store.db.transaction("nodes").objectStore("nodes").openCursor();
	await new Promise((done, failed) => {
		request.onerror = () => failed(request.error);
		request.onsuccess = () => {
			if (!request.result) { done(); return; }
			visit(request.result.value);
			request.result.continue();
		};
	});
}

/* --- export and import ------------------------------------------------------------------------ */

async function exportTalks(talks) {
	const out = [];
	for (const talk of talks) out.push({ ...talk, nodes: [...(await readNodes(talk.id)).values()] });
	const name = talks.length === 1 ? talks[0].title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40) : "conversations";
	download("halod-" + name + ".json", JSON.stringify({ halod: 1, talks: out }, null, 1));
}

const isText = (v) => typeof v === "string";
const isId = (v) => isText(v) && v.length > 0 && v.length <= 64;

/* A node of a file, with what the page knows and nothing else; throws at what is wrong. */
function readNode(from, talk) {
	if (!isId(from?.id) || !["user", "assistant", "tool"].includes(from.role) || !isText(from.content) || !isText(from.parent))
		throw new Error("a message lacks its id, parent, role or content");
	const to = { talk, id: from.id, parent: from.parent, made: Number(from.made) || 0, role: from.role, content: from.content };
	if (isText(from.reasoning_content)) to.reasoning_content = from.reasoning_content;
	if (isText(from.tool_call_id)) to.tool_call_id = from.tool_call_id;
	if (Array.isArray(from.tool_calls))
		to.tool_calls = from.tool_calls.map((c) => ({ id: String(c?.id), type: "function",
			function: { name: String(c?.function?.name), arguments: String(c?.function?.arguments) } }));
	if (Array.isArray(from.files))
		to.files = from.files.filter((f) => isText(f?.name)).flatMap((f) => isText(f.text) ? { name: f.name, text: f.text }
			: /^data:image\//.test(f.url) ? { name: f.name, url: f.url }
			: /^data:video\//.test(f.film) ? { name: f.name, film: f.film }
			: /^data:audio\//.test(f.sound) ? { name: f.name, sound: f.sound } : []);
	if (from.role === "assistant") {
		to.shown = { finish: isText(from.shown?.finish) ? from.shown.finish : "" };
		const t = ["ttft_ms", "predicted_n", "predicted_per_second"].map((k) => [k, from.shown?.timings?.[k]]);
		if (t.every(([, v]) => Number.isFinite(v))) to.shown.timings = Object.fromEntries(t);
		if (isText(from.shown?.fault)) to.shown.fault = from.shown.fault;
		if (Number.isFinite(from.shown?.thought_ms)) to.shown.thought_ms = from.shown.thought_ms;
	}
	return to;
}

/* Adds the talks of an exported file. One that is here already gets what it lacks. Returns how
 * many there were; throws before anything is written where the file is wrong. */
async function importTalks(text, isPrivate) {
	let file;
	try { file = JSON.parse(text); } catch (e) { throw new Error("it is no JSON: " + e.message); }
	if (!Array.isArray(file?.talks)) throw new Error("it was not exported by this page");
	const read = file.talks.map((from) => {
		if (!isId(from?.id) || !isText(from.title) || !Array.isArray(from.nodes)) throw new Error("a conversation lacks its id, title or messages");
		const nodes = from.nodes.map((n) => readNode(n, from.id));
		const tip = nodes.some((n) => n.id === from.tip) ? from.tip : nodes.at(-1)?.id ?? "";
		return { nodes, talk: { id: from.id, title: from.title, isNamed: Boolean(from.isNamed), made: Number(from.made) || 0,
			changed: Number(from.changed) || 0, tip, isPrivate } };
	});
	for (const { talk, nodes } of read) {
		const old = store.talks.get(talk.id);
		await save(old ?? talk, nodes);
	}
	return read.length;
}
