/* SPDX-License-Identifier: Apache-2.0
 *
 * The message that is written: its text, and files by button, drop or paste. */

const LONGEST_TEXT = 2 << 20; /* bytes of a file that goes as text */
const WIDEST = 2048;          /* pixels of a picture's longer side: models see no more */
let files = [];               /* {name, text}, {name, url}, {name, film} or {name, sound} */

function send() {
	if (recording) { endRecording("sent"); return; } /* and comes back */
	const text = $("prompt").value.trim();
	if (runs.has(talk.id) || !(text || files.length)) return;
	if (files.length && isTooLarge([...pathTo(talk.tip), { files }])) {
		notice("A conversation with sounds or films holds 15 MiB of files, six minutes of recordings, and this would be more. "
			+ "Remove a file, or begin a new conversation with it.");
		return;
	}
	const wasEmpty = nodes.get(talk.tip);
	dropEmpty(wasEmpty);
	const node = addNode(talk.tip, { role: "user", content: text, ...(files.length && { files }) });
	files = [];
	showFiles();
	$("prompt").value = "";
	keepDraft();
	save(talk, [node]);
	answer();
	toEnd();
}

function keepDraft() {
	const p = $("prompt");
	kept.set("draft", p.value);
	p.style.height = "auto";
	p.style.height = p.scrollHeight + "px";
}

/* Puts the last question back, to be changed. */
function editLast() {
	const asked = pathTo(talk.tip).findLast((n) => n.role === "user");
	if (asked && !runs.has(talk.id)) editNode(viewOf(asked), asked);
}

/* --- files ------------------------------------------------------------------------------------ */

function showFiles() {
	$("files").hidden = !(files.length || unwritten.length);
	$("files").replaceChildren(...files.map((f) => {
		const remove = button("×", () => { files = files.filter((other) => other !== f); showFiles(); $("prompt").focus(); });
		remove.setAttribute("aria-label", "Remove " + f.name);
		const chip = make("span", "chip", null, make("span", "", f.name), remove);
		if (f.url) chip.prepend(fileElement(f));
		if (f.sound) chip.classList.add("sound");
		return chip;
	}), ...unwrittenChips());
}

const dataUrl = (blob) => new Promise((done, failed) => {
	const reader = new FileReader();
	reader.onload = () => done(reader.result);
	reader.onerror = () => failed(reader.error);
	reader.readAsDataURL(blob);
});

/* As it is where the server reads its format and it is not too large; else drawn anew. */
async function readPicture(file) {
	const bitmap = await createImageBitmap(file);
	const scale = Math.min(1, WIDEST / Math.max(bitmap.width, bitmap.height));
	if (scale === 1 && /^image\/(jpeg|png|webp)$/.test(file.type)) return dataUrl(file);
	const canvas = make("canvas");
	canvas.width = Math.round(bitmap.width * scale);
	canvas.height = Math.round(bitmap.height * scale);
	canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
	return canvas.toDataURL(file.type === "image/jpeg" ? "image/jpeg" : "image/png", 0.9);
}

async function readText(file) {
	/* Some PDFs are ASCII: their commands would go to the model as if they were the text. */
	if (file.type === "application/pdf" || (await file.slice(0, 5).text()) === "%PDF-")
		throw new Error("the page does not read PDF; copy the text that you need, or attach it as a text file");
	if (file.size > LONGEST_TEXT) throw new Error("it is longer than 2 MiB");
	const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
	if (text.includes("\0")) throw new Error("it is no text");
	return text;
}

/* As it is: the server chooses frames of it. */
function readFilm(file) {
	if (!modelNow()?.watches) throw new Error("this model, or this server, takes no films; add pictures of it");
	if (!/^video\/(mp4|webm|quicktime|(x-)?matroska)$/.test(file.type)) throw new Error("films are MP4, WebM or Matroska");
	if (file.size > LARGEST_FILE) throw new Error("it is longer than 11 MiB; cut it, or make it smaller");
	return dataUrl(file);
}

async function addFiles(list) {
	for (const file of list) {
		const name = file.name || "picture";
		try {
			if (file.type.startsWith("audio/")) {
				if (!modelNow()?.hears) throw new Error("this model hears nothing");
				files.push({ name, sound: await readSound(file) });
			} else if (file.type.startsWith("video/")) files.push({ name, film: await readFilm(file) });
			else if (!file.type.startsWith("image/") || file.type === "image/svg+xml") files.push({ name, text: await readText(file) });
			else if (!modelNow()?.sees) throw new Error("this model sees no pictures");
			else files.push({ name, url: await readPicture(file) });
		} catch (e) {
			notice(name + " was left out: " + (e instanceof TypeError ? "it is no text in UTF-8" : e.message));
		}
	}
	showFiles();
	$("prompt").focus();
}

/* Files only: text that is dropped or pasted goes into the field as ever. */
function takesFiles(target, name, transferOf) {
	target.addEventListener(name, (event) => {
		const data = transferOf(event);
		if (!data?.files.length || (name === "paste" && data.types.includes("text/plain"))) return;
		event.preventDefault();
		addFiles(data.files);
	});
}

function beginCompose() {
	const chat = $("chat");
	takesFiles($("prompt"), "paste", (event) => event.clipboardData);
	takesFiles(chat, "drop", (event) => event.dataTransfer);
	chat.addEventListener("dragover", (event) => {
		if (!event.dataTransfer.types.includes("Files")) return;
		event.preventDefault();
		$("box").classList.add("over");
	});
	for (const name of ["dragleave", "drop"]) chat.addEventListener(name, () => $("box").classList.remove("over"));
	$("attach").onclick = () => $("file").click();
	$("file").onchange = () => { addFiles([...$("file").files]); $("file").value = ""; };
	$("record").onclick = () => { if (recording) endRecording("kept"); else beginRecording(); };
	$("composer").onsubmit = (event) => {
		event.preventDefault();
		if (runs.has(talk.id)) stop(); else send();
	};
	$("prompt").oninput = keepDraft;
	$("prompt").onkeydown = (event) => {
		if (event.key === "ArrowUp" && !$("prompt").value) { event.preventDefault(); editLast(); }
		if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
		event.preventDefault();
		send();
	};
	$("prompt").value = kept.get("draft", "");
	keepDraft();
}
