/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of requests. They stay in this tab. */

function settings() {
	return { system: "", thinking: "", temperature: "", maxTokens: "", tools: [], fields: {}, ...kept.get("settings", {}) };
}

function fillSettings() {
	const s = settings();
	$("system").value = s.system;
	$("thinking").value = s.thinking;
	$("temperature").value = s.temperature;
	$("max-tokens").value = s.maxTokens;
	$("tools").value = s.tools.length ? JSON.stringify(s.tools, null, 1) : "";
	$("fields").value = Object.keys(s.fields).length ? JSON.stringify(s.fields) : "";
	$("settings-wrong").textContent = "";
}

function readJson(id, name, isRight, empty) {
	const text = $(id).value.trim();
	if (!text) return empty;
	let value;
	try { value = JSON.parse(text); } catch (e) { throw new Error(name + ": " + e.message); }
	if (!isRight(value)) throw new Error(name + " must be " + (Array.isArray(empty) ? "a JSON list" : "a JSON object"));
	return value;
}

function readNumber(id, name) {
	const text = $(id).value.trim();
	if (text && !Number.isFinite(Number(text))) throw new Error(name + " must be a number");
	return text;
}

function saveSettings() {
	const isObject = (v) => v && typeof v === "object" && !Array.isArray(v);
	kept.set("settings", {
		system: $("system").value.trim(),
		thinking: $("thinking").value,
		temperature: readNumber("temperature", "Temperature"),
		maxTokens: readNumber("max-tokens", "Longest answer"),
		tools: readJson("tools", "Tools", Array.isArray, []),
		fields: readJson("fields", "Further fields", isObject, {}),
	});
}
