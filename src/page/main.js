/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user does with the page as a whole, and how it begins. */

/* On a phone one of the three is shown: "talks", "chat" or "status". */
function see(what) {
	document.body.dataset.view = what;
	for (const name of ["talks", "chat", "status"]) $("see-" + name).setAttribute("aria-pressed", name === what);
}

function beginNew() {
	if (nodes.size) beginTalk();
	see("chat");
	$("prompt").focus();
}

function beginDialogs() {
	$("open-settings").onclick = () => { fillSettings(); $("settings-dialog").showModal(); };
	$("open-key").onclick = () => { keyRefused = false; $("key").value = kept.get("key", ""); $("key-dialog").showModal(); };
	for (const e of document.querySelectorAll("[data-close]")) e.onclick = () => e.closest("dialog").close();
	$("key-dialog").onclose = () => { if (!$("key").value) keyRefused = true; };
	$("key-dialog").querySelector("form").onsubmit = (event) => {
		event.preventDefault();
		kept.set("key", $("key").value.trim());
		keyRefused = false;
		models = [];
		$("key-dialog").close();
		look();
	};
	$("settings-dialog").querySelector("form").onsubmit = (event) => {
		event.preventDefault();
		try {
			saveSettings();
			$("settings-dialog").close();
		} catch (e) {
			$("settings-wrong").textContent = e.message;
		}
	};
}

function onKey(event) {
	const isOpen = document.querySelector("dialog[open]"), withCtrl = event.ctrlKey || event.metaKey;
	if (isOpen) return;
	if (event.key === "Escape" && recording) endRecording("dropped");
	else if (event.key === "Escape") stop();
	if (withCtrl && event.key === "k") { event.preventDefault(); see("talks"); $("search").focus(); $("search").select(); }
	if (withCtrl && event.shiftKey && event.key.toLowerCase() === "o") { event.preventDefault(); beginNew(); }
}

async function begin() {
	for (const name of ["talks", "chat", "status"]) $("see-" + name).onclick = () => see(name);
	$("new").onclick = beginNew;
	$("models").onchange = () => { kept.set("model", $("models").value); showTaken(); };
	document.addEventListener("keydown", onKey);
	document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
	beginDialogs();
	beginCompose();
	look();
	store.ready = openStore();
	await store.ready;
	await saveUnsaved();
	beginList();
	/* Unless somebody was quicker and has asked already. */
	if (!nodes.size) await openTalk(kept.get("open", ""));
	else showTalks();
	if (document.activeElement === document.body) $("prompt").focus();
}

const begun = begin(); /* who drives the page by script waits for it: then every button works */
