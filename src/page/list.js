/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of conversations: open, search, rename, delete and undo, export, import, and the
 * switch that says whether they are kept. And what other tabs tell. */

/* --- open ---------------------------------------------------------------------------------- */

async function openTalk(id) {
	const found = store.talks.get(id);
	if (!found) { beginTalk(); return; }
	const read = await readNodes(id);
	const run = runs.get(id);
	if (run) read.set(run.node.id, run.node);
	talk = run?.talk ?? found;
	nodes = read;
	views.clear();
	kept.set("open", talk.id);
	showBranch();
	showTalks();
	toEnd();
	findLost();
}

function beginTalk() {
	talk = newTalk();
	nodes = new Map();
	views.clear();
	kept.set("open", "");
	showBranch();
	showTalks();
}

/* --- the list --------------------------------------------------------------------------------- */

let found = null; /* while one searches: {id: a piece of the text that was found} */

const byChange = (a, b) => b.changed - a.changed;

function dayOf(time) {
	const day = new Date(time), today = new Date();
	if (day.toDateString() === today.toDateString()) return day.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
	return day.toLocaleDateString("en", { day: "numeric", month: "short", ...(day.getFullYear() !== today.getFullYear() && { year: "numeric" }) });
}

function talkItem(t) {
	const open = button("", () => { openTalk(t.id); see("chat"); }, "open");
	const note = [dayOf(t.changed), t.isPrivate && "private", runs.has(t.id) && "writing"].filter(Boolean).join(" · ");
	open.append(make("b", "", t.title), make("small", "", found?.[t.id] || note));
	if (t.id === talk.id) open.setAttribute("aria-current", "true");
	const menu = make("div", "actions", null, button("Rename", () => renameTalk(t, item)),
		button("Export", () => exportTalks([t])), button("Delete", () => deleteTalk(t)));
	const item = make("li", "", null, open, ...(t.id === talk.id ? [menu] : []));
	return item;
}

function showTalks() {
	if ($("talks").querySelector("form")) return; /* somebody writes a new name */
	const had = document.activeElement?.closest("#talks li") ? document.activeElement.textContent : null;
	const list = [...store.talks.values()].filter((t) => !found || found[t.id] !== undefined).sort(byChange);
	$("talks").replaceChildren(...list.map(talkItem));
	if (!list.length) $("talks").append(make("li", "none", found ? "Nothing found." : "None yet."));
	if (had !== null) [...$("talks").querySelectorAll("button")].find((e) => e.textContent === had)?.focus();
	$("keeps").checked = !talk.isPrivate;
	document.title = nodes.size ? talk.title + " – halod" : "halod";
}

function renameTalk(t, item) {
	const field = make("input"), form = make("form", "", null, field);
	let isOver = false;
	const end = (name) => {
		if (isOver) return;
		isOver = true;
		form.remove();
		if (name) { Object.assign(t, { title: name, isNamed: true }); save(t); }
		showTalks();
	};
	field.value = t.title;
	field.maxLength = 200;
	field.setAttribute("aria-label", "Name of the conversation");
	field.onkeydown = (event) => { if (event.key === "Escape") { event.stopPropagation(); end(""); } };
	field.onblur = () => end(field.value.trim());
	form.onsubmit = (event) => { event.preventDefault(); end(field.value.trim()); };
	item.replaceChildren(form);
	field.select();
}

async function deleteTalk(t) {
	const had = [...(await readNodes(t.id)).values()];
	runs.get(t.id)?.stop.abort();
	await dropTalk(t.id);
	if (t.id === talk.id) beginTalk();
	showTalks();
	notice("Deleted: " + t.title, "Undo", async () => {
		await save(t, had);
		openTalk(t.id);
	});
}

async function deleteAll() {
	const all = [];
	for (const t of store.talks.values()) all.push([t, [...(await readNodes(t.id)).values()]]);
	for (const [t] of all) {
		runs.get(t.id)?.stop.abort();
		await dropTalk(t.id);
	}
	beginTalk();
	notice("Deleted: " + plural(all.length, "conversation", "conversations"), "Undo", async () => {
		for (const [t, had] of all) await save(t, had);
		showTalks();
	});
}

/* --- search -------------------------------------------------------------------------------------- */

/* Each word of what is searched for must stand in the title or in the messages. */
async function searchTalks() {
	const text = $("search").value.trim().toLowerCase();
	if (!text) { found = null; showTalks(); return; }
	const words = text.split(/\s+/), texts = new Map();
	for (const t of store.talks.values()) texts.set(t.id, [t.title]);
	await eachNode((n) => texts.get(n.talk)?.push(n.content));
	if ($("search").value.trim().toLowerCase() !== text) return; /* somebody wrote on */
	found = {};
	for (const [id, all] of texts) {
		const whole = all.join("\n"), low = whole.toLowerCase();
		if (!words.every((w) => low.includes(w))) continue;
		const at = low.indexOf(words[0], all[0].length);
		found[id] = at < 0 ? "" : "…" + whole.slice(Math.max(0, at - 20), at + 50).replace(/\s+/g, " ") + "…";
	}
	showTalks();
}

/* --- the switch, files -------------------------------------------------------------------------------- */

/* Says it for new conversations, and moves the one that is open. */
async function setKeeps(keeps) {
	try { localStorage.setItem("halod.keeps", keeps ? "yes" : "no"); } catch { /* this browser keeps nothing */ }
	if (store.talks.has(talk.id)) await moveTalk(talk, !keeps);
	else talk.isPrivate = !keeps;
	showBranch();
	showTalks();
}

async function importFile(file) {
	if (!file) return;
	try {
		const n = await importTalks(await file.text(), !keepsNow());
		notice("Imported: " + plural(n, "conversation", "conversations"));
	} catch (e) {
		notice(file.name + " cannot be imported: " + e.message);
	}
	showTalks();
}

/* --- other tabs --------------------------------------------------------------------------------------- */

async function hear({ data }) {
	if (data.who) {
		const run = [...runs.values()].find((r) => r.node.id === data.who);
		if (run) store.channel.postMessage({ here: data.who });
		return;
	}
	if (data.here) return;
	if (data.dropped) {
		store.talks.delete(data.dropped);
		runs.get(data.dropped)?.stop.abort();
		if (data.dropped === talk.id && nodes.size) {
			beginTalk();
			notice("Another tab has deleted this conversation.");
		}
	} else {
		await takeOver(await readTalk(data.changed));
	}
	showTalks();
}

/* What another tab has written. The branch that this tab shows stays, except where the other one
 * went on behind it. */
async function takeOver(now) {
	if (!now) return;
	const old = store.talks.get(now.id), tip = old?.tip;
	if (!old) store.talks.set(now.id, now);
	else Object.assign(old, now);
	if (now.id !== talk.id || !nodes.size) return;
	const mine = runs.get(talk.id)?.node, read = await readNodes(talk.id);
	if (mine) read.set(mine.id, mine);
	nodes = read;
	if (mine || !pathTo(now.tip).some((n) => n.id === tip)) talk.tip = tip;
	showBranch();
}

function beginList() {
	let timer = 0;
	store.channel.onmessage = hear;
	$("search").oninput = () => { clearTimeout(timer); timer = setTimeout(searchTalks, 150); };
	$("keeps").onchange = () => setKeeps($("keeps").checked);
	$("export").onclick = () => exportTalks([...store.talks.values()].sort(byChange));
	$("import").onclick = () => $("import-file").click();
	$("import-file").onchange = () => {
		const file = $("import-file").files[0];
		$("import-file").value = ""; // first: the same file may be chosen again at once
		importFile(file);
	};
	$("delete-all").onclick = deleteAll;
}
