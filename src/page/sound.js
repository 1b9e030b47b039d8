/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds for a model that hears: recorded by the microphone, or from files. What the server may
 * not read, or is too large, becomes a WAV file of one channel and 16,000 samples a second.
 * Where the model hears nothing and another one of the server does, that one writes down what is
 * recorded. */

const RATE = 16000;            /* models hear no more */
const LONGEST_RECORDING = 300; /* seconds: ten megabytes of WAV, below the server's usual max_body */
const LARGEST_READ = 64 << 20; /* bytes of a file that the browser is to convert */
let isAsking = false;          /* the browser asks the user whether the page may listen */
let isWriting = false;         /* the server writes down what was said */
let recording = null;          /* {recorder, pieces, began, clock, then}, while the microphone is on */
let unwritten = [];            /* {name, wav}: what was recorded and could not be written down */

/* --- WAV ------------------------------------------------------------------------------------ */

/* samples: floats in -1 to 1. */
function wavOf(samples) {
	const out = new DataView(new ArrayBuffer(44 + 2 * samples.length));
	const word = (at, text) => [...text].forEach((c, i) => out.setUint8(at + i, c.charCodeAt(0)));
	word(0, "RIFF");
	out.setUint32(4, 36 + 2 * samples.length, true);
	word(8, "WAVEfmt ");
	out.setUint32(16, 16, true);
	out.setUint16(20, 1, true);
	out.setUint16(22, 1, true);
	out.setUint32(24, RATE, true);
	out.setUint32(28, 2 * RATE, true);
	out.setUint16(32, 2, true);
	out.setUint16(34, 16, true);
	word(36, "data");
	out.setUint32(40, 2 * samples.length, true);
	samples.forEach((v, i) => out.setInt16(44 + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, v))), true));
	return new Blob([out.buffer], { type: "audio/wav" });
}

/* The browser reads more formats than the server. A context of this rate resamples, and one of one
 * channel mixes. */
async function toWav(blob) {
	const reader = new OfflineAudioContext(1, 1, RATE);
	let heard;
	try { heard = await reader.decodeAudioData(await blob.arrayBuffer()); } catch { throw new Error("this browser cannot read it"); }
	const mixer = new OfflineAudioContext(1, heard.length, RATE), source = mixer.createBufferSource();
	source.buffer = heard;
	source.connect(mixer.destination);
	source.start();
	return wavOf((await mixer.startRendering()).getChannelData(0));
}

async function readSound(file) {
	const isRead = /^audio\/(wav|x-wav|wave|vnd\.wave|mpeg|mp3|flac|x-flac)$/.test(file.type);
	if (isRead && file.size <= LARGEST_FILE) return dataUrl(file);
	if (file.size > LARGEST_READ) throw new Error("it is longer than 64 MiB");
	const wav = await toWav(file);
	if (wav.size > LARGEST_FILE) throw new Error("it is longer than 11 MiB" + (isRead ? ", also " : " ") + "as WAV of 16,000 samples a second; cut it");
	return dataUrl(wav);
}

/* As the API has it: the format by name, and the bytes in base64. */
function soundPart(url) {
	const kind = /^data:audio\/(?:x-|vnd\.)?(\w+)/.exec(url)?.[1];
	const format = { mpeg: "mp3", mp3: "mp3", flac: "flac" }[kind] ?? "wav";
	return { type: "input_audio", input_audio: { data: url.slice(url.indexOf(",") + 1), format } };
}

/* --- the microphone ------------------------------------------------------------------------- */

const clockOf = (seconds) => Math.floor(seconds / 60) + ":" + String(Math.floor(seconds % 60)).padStart(2, "0");

/* The model that writes down what is said; undefined: the one that answers hears it, or none does. */
const writer = () => modelNow()?.hears ? undefined : models.find((m) => m.hears);

/* Browsers give the microphone to pages from https or this machine only. */
function showMicrophone() {
	const e = $("record"), can = Boolean(navigator.mediaDevices?.getUserMedia && window.MediaRecorder);
	e.hidden = !(models.some((m) => m.hears) || recording);
	e.disabled = !can || isAsking || isWriting;
	e.title = !can ? "The browser gives the microphone only to pages over https or from localhost"
		: isWriting ? "What was said is being written down" : recording ? "Stop the recording"
		: writer() ? "Dictate: " + writer().id + " writes down what is said" : "Record a sound";
	e.setAttribute("aria-label", e.title);
	e.setAttribute("aria-pressed", Boolean(recording));
	$("clock").hidden = !recording;
	$("clock").textContent = recording ? clockOf((Date.now() - recording.began) / 1000) : "";
}

function stopTracks(stream) {
	for (const track of stream.getTracks()) track.stop();
}

async function beginRecording() {
	const place = talk.id;
	let stream;
	isAsking = true;
	showMicrophone();
	try {
		stream = await navigator.mediaDevices.getUserMedia({ audio: true });
	} catch (e) {
		notice(e.name === "NotAllowedError" ? "The browser was not allowed to use the microphone."
			: e.name === "NotFoundError" ? "There is no microphone." : "The microphone cannot be used: " + e.message);
		return;
	} finally {
		isAsking = false;
		showMicrophone();
	}
	const pieces = [];
	let recorder;
	try {
		recorder = new MediaRecorder(stream);
		recorder.ondataavailable = (event) => pieces.push(event.data);
		recorder.start();
	} catch (e) {
		stopTracks(stream);
		notice("The sound cannot be recorded: " + e.message);
		return;
	}
	const done = new Promise((end) => { recorder.onstop = end; }); /* also where it is unplugged */
	recording = { recorder, pieces, began: Date.now(), then: "kept", clock: setInterval(() => {
		if (Date.now() - recording.began > LONGEST_RECORDING * 1000) endRecording("kept");
		else showMicrophone();
	}, 250) };
	showMicrophone();
	await done;
	await keepRecording(stream, place);
}

/* place: the conversation in which it began. */
async function keepRecording(stream, place) {
	const { pieces, began, clock, then } = recording;
	clearInterval(clock);
	stopTracks(stream);
	recording = null;
	showMicrophone();
	if (then === "dropped") return;
	const name = "recording " + clockOf((Date.now() - began) / 1000);
	let wav;
	try { wav = await toWav(new Blob(pieces)); } catch (e) {
		notice("The recording was lost: " + e.message);
		return;
	}
	const isThere = await takeRecording({ name, wav });
	if (then !== "sent" || !isThere) return;
	if (talk.id === place) send();
	else notice("What was recorded was not sent: it began in another conversation.");
}

/* Into the field as text, or to the files. False: it waits there for another try. */
async function takeRecording(one) {
	const by = writer();
	unwritten = unwritten.filter((other) => other !== one);
	try {
		if (by) await writeDown(one.wav, by);
		else files.push({ name: one.name, sound: await dataUrl(one.wav) });
		return true;
	} catch (e) {
		unwritten.push(one);
		notice("The recording was not written down: " + e.message);
		return false;
	} finally {
		showFiles();
		$("prompt").focus();
	}
}

/* For each recording that was not written down. */
function unwrittenChips() {
	return unwritten.map((one) => {
		const again = button("Write down", () => { if (!isWriting) takeRecording(one); });
		const remove = button("×", () => { unwritten = unwritten.filter((other) => other !== one); showFiles(); $("prompt").focus(); });
		remove.setAttribute("aria-label", "Remove " + one.name);
		return make("span", "chip sound", null, make("span", "", one.name), again, remove);
	});
}

/* What was said goes where the cursor is. */
async function writeDown(wav, by) {
	const form = new FormData(), field = $("prompt");
	form.append("model", by.id);
	form.append("file", wav, "recording.wav");
	isWriting = true;
	showFiles();
	showMicrophone();
	try {
		const { text } = await (await must(await ask("/v1/audio/transcriptions", { method: "POST", body: form }))).json();
		const before = field.value.slice(0, field.selectionStart);
		field.setRangeText((before && !/\s$/.test(before) ? " " : "") + text, field.selectionStart, field.selectionEnd, "end");
		keepDraft();
	} finally {
		isWriting = false;
		showMicrophone();
	}
}

/* then: "kept", "sent" or "dropped". */
function endRecording(then) {
	recording.then = then;
	if (recording.recorder.state !== "inactive") recording.recorder.stop();
}
