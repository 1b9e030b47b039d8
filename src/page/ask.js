/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the server. */

function ask(path, more = {}) {
	const headers = { ...more.headers };
	const key = kept.get("key", "");
	if (key) headers.Authorization = "Bearer " + key;
	return fetch(path, { ...more, headers, cache: "no-store", credentials: "omit" });
}

class Refusal extends Error {
	constructor(status, message) { super(message); this.status = status; }
}

/* Returns the answer if it is OK; else throws a Refusal with the server's words. 401 also
 * asks the user for the key. */
async function must(response) {
	if (response.ok) return response;
	let text = "status " + response.status;
	try { text = (await response.json()).error.message ?? text; } catch { /* no JSON */ }
	if (response.status === 401) askForKey(kept.get("key", "") ? "This key is not known to the server." : "");
	throw new Refusal(response.status, text);
}

let keyRefused = false; /* the user cancelled the dialog: do not open it again by itself */
function askForKey(why) {
	if (keyRefused || $("key-dialog").open) return;
	if (why) $("key-why").textContent = why;
	$("settings-dialog").close();
	$("key-dialog").showModal();
}

/* Yields each event of a stream as an object; skips comments and [DONE]. */
async function* eventsOf(response) {
	/* Through a TextDecoderStream the last pieces before a break would be lost. */
	const reader = response.body.getReader(), decoder = new TextDecoder();
	let rest = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
		rest = lines.pop();
		for (const line of lines)
			if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
	}
}

/* --- models ------------------------------------------------------------------------------- */

/* Those that write, as /v1/models tells them: [{id, sees, watches, hears}]. */
let models = [];

function modelNow() {
	const chosen = kept.get("model", "");
	return models.find((m) => m.id === chosen) ?? models[0];
}

async function readModels() {
	const list = (await (await must(await ask("/v1/models"))).json()).data;
	const writers = list.filter((m) => m.architecture?.output_modalities?.includes("text"));
	const takes = (m, what) => m.architecture?.input_modalities?.includes(what) ?? false;
	models = (writers.length ? writers : list).map((m) => ({ id: m.id, sees: takes(m, "image"),
		watches: m.architecture?.video_files === true, hears: takes(m, "audio") }));
	showModels();
}

function showModels() {
	const select = $("models");
	select.hidden = models.length < 2;
	$("model").hidden = !select.hidden;
	select.replaceChildren(...models.map((m) => new Option(m.id, m.id, false, m === modelNow())));
	showTaken();
}

/* What the chosen model takes, beside text. */
function showTaken() {
	const { sees, watches, hears } = modelNow() ?? {};
	const all = ["Add a file", sees && "a picture", watches && "a film", hears && "a sound"].filter(Boolean);
	const what = all.slice(0, -1).join(", ") + (all.length > 1 ? " or " : "") + all.at(-1);
	$("attach").title = what;
	$("attach").setAttribute("aria-label", what);
	showMicrophone();
}
