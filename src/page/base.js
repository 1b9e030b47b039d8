/* SPDX-License-Identifier: Apache-2.0
 *
 * What every part of the page uses: elements, numbers as text, what the tab keeps, copying,
 * and notices. All scripts of the page are one script: a function can be called from
 * files above its own. */
"use strict";

const $ = (id) => document.getElementById(id);

/* An element with a class, a text and children; never markup. */
function make(tag, name, text, ...children) {
	const e = document.createElement(tag);
	if (name) e.className = name;
	if (text !== undefined && text !== null) e.textContent = text;
	e.append(...children);
	return e;
}

function button(text, onclick, name = "plain") {
	const e = make("button", name, text);
	e.type = "button";
	e.onclick = onclick;
	return e;
}

const count = new Intl.NumberFormat("en");
function ms(v) {
	if (v === null || v === undefined) return "–";
	if (v >= 1000) return (v / 1000).toFixed(v < 10000 ? 2 : 1) + " s";
	return (v >= 10 || v === 0 ? Math.round(v) : v.toFixed(v < 1 ? 2 : 1)) + " ms";
}
const percent = (share) => (share > 0 && share < 0.1 ? (share * 100).toFixed(1) : Math.round(share * 100)) + " %";
const plural = (n, one, many) => count.format(n) + " " + (n === 1 ? one : many);
const gib = (bytes) => (bytes / 2 ** 30).toFixed(bytes < 2 ** 33 ? 2 : 1) + " GiB";

/* Also without a secure context, where there is no crypto.randomUUID. */
function newId() {
	return Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/* Values that this tab keeps. In sessionStorage and not in localStorage: a key must not
 * outlive the tab. Nor may another program that is later served from this address read it. */
const kept = {
	get(name, other) {
		try { return JSON.parse(sessionStorage.getItem("halod." + name)) ?? other; }
		catch { return other; }
	},
	/* False: there is no room for it. */
	set(name, value) {
		try { sessionStorage.setItem("halod." + name, JSON.stringify(value)); return true; }
		catch { return false; }
	},
};

/* --- copying ----------------------------------------------------------------------------- */

/* Over plain http in a LAN there is no navigator.clipboard, but what is selected can be
 * copied. */
async function copyText(text) {
	if (navigator.clipboard) {
		try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed */ }
	}
	const had = document.activeElement, area = make("textarea", "unseen");
	area.value = text;
	area.readOnly = true;
	document.body.append(area);
	area.select();
	const is_copied = document.execCommand("copy");
	area.remove();
	had?.focus({ preventScroll: true });
	return is_copied;
}

/* textOf() gives what the button copies. */
function copyButton(textOf) {
	const e = button("Copy", async () => {
		e.textContent = await copyText(textOf()) ? "Copied" : "Not copied";
		setTimeout(() => { e.textContent = "Copy"; }, 1500);
	});
	return e;
}

function download(name, text) {
	const link = make("a");
	link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/* --- notices ------------------------------------------------------------------------------- */

/* A line above the composer, with something to do about it where there is. It goes by itself,
 * but not while the pointer or the focus is on it. */
let noticeTimer = 0;
function notice(text, name, action) {
	const box = $("notice");
	const close = () => {
		if (box.matches(":hover, :focus-within")) noticeTimer = setTimeout(close, 2000);
		else box.replaceChildren();
	};
	box.replaceChildren(make("span", "", text));
	if (name) box.append(button(name, () => { box.replaceChildren(); action(); }));
	clearTimeout(noticeTimer);
	noticeTimer = setTimeout(close, 10000);
}
