/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model writes, as elements: Markdown (markdown-it), code in colours (highlight.js),
 * formulas (KaTeX).
 *
 * markdown-it gives tokens, highlight.js a tree, and KaTeX elements. This file makes elements
 * of them, one by one, with texts as texts. So nothing that a model writes is ever read as
 * markup, and the page's policy forbids that anyway (trusted types). */

const md = markdownit({ html: false, linkify: true, breaks: true });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); /* "page.py" is no address */

/* --- formulas in the text ------------------------------------------------------------------- */

const BACKSLASH = 0x5c, DOLLAR = 0x24;

/* "\(…\)", "\[…\]", "$$…$$" and "$…$" within a line of text. A dollar opens a formula only
 * before what is no space, and closes one only behind what is no space and before what is no
 * digit: "$5 and $10" has none. */
function mathInLine(state, isSilent) {
	const { src, pos } = state, first = src.charCodeAt(pos);
	let open, close;
	if (first === BACKSLASH) {
		open = src.slice(pos, pos + 2);
		if (open !== "\\(" && open !== "\\[") return false;
		close = open === "\\(" ? "\\)" : "\\]";
	} else if (first === DOLLAR) {
		open = close = src.startsWith("$$", pos) ? "$$" : "$";
	} else {
		return false;
	}
	const from = pos + open.length;
	let end = src.indexOf(close, from);
	if (open === "$") {
		if (!/\S/.test(src[from] ?? " ")) return false;
		while (end > 0 && (/\s|\\/.test(src[end - 1]) || /\d/.test(src[end + 1] ?? ""))) end = src.indexOf("$", end + 1);
	}
	if (end < 0 || end > state.posMax || !src.slice(from, end).trim()) return false;
	if (!isSilent) {
		const token = state.push("math", "", 0);
		token.content = src.slice(from, end);
		token.meta = { isBlock: open === "$$" || open === "\\[" };
	}
	state.pos = end + close.length;
	return true;
}

/* The same in lines of their own, and \begin{…} … \end{…}. */
function mathBlock(state, startLine, endLine, isSilent) {
	const lineAt = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]);
	const first = lineAt(startLine);
	const name = first.match(/^\\begin\{([a-zA-Z]+\*?)\}/)?.[1];
	const open = name ? "" : ["$$", "\\["].find((o) => first.startsWith(o));
	if (open === undefined) return false;
	const close = name ? "\\end{" + name + "}" : open === "$$" ? "$$" : "\\]";
	let text = first.slice(open.length), line = startLine;
	while (!text.includes(close)) {
		if (++line >= endLine || state.sCount[line] < state.blkIndent) return false;
		text += "\n" + lineAt(line);
	}
	const at = text.indexOf(close);
	if (text.slice(at + close.length).trim()) return false; /* text goes on: a formula in a line */
	if (isSilent) return true;
	const token = state.push("math", "", 0);
	token.content = name ? text : text.slice(0, at);
	token.meta = { isBlock: true };
	token.map = [startLine, line + 1];
	state.line = line + 1;
	return true;
}

md.inline.ruler.before("escape", "math", mathInLine);
md.block.ruler.before("fence", "math", mathBlock, { alt: ["paragraph", "reference", "blockquote", "list"] });

/* KaTeX writes the style of what is seen property by property. In the MathML beside it, which
 * only screen readers see, it is an attribute. The page's policy allows none. */
function leaveStylesOut(node) {
	delete node.attributes?.style;
	node.children?.forEach(leaveStylesOut);
}

function mathElement(tex, isBlock) {
	const e = make(isBlock ? "div" : "span", isBlock ? "formula" : "");
	try {
		const tree = katex.__renderToDomTree(tex, {
			displayMode: isBlock, strict: "ignore", maxSize: 40, maxExpand: 500 });
		leaveStylesOut(tree);
		e.append(tree.toNode());
	} catch { /* it is no LaTeX, or not yet all of it */
		e.replaceChildren(make("code", "", tex.trim()));
	}
	if (isBlock) e.tabIndex = 0; /* a keyboard can scroll it */
	return e;
}

/* --- code ------------------------------------------------------------------------------------- */

const MOST_COLOURED = 100000; /* characters: above it a block of code has one colour */

function addColoured(to, node) {
	for (const child of node.children) {
		if (typeof child === "string") { to.append(child); continue; }
		const [first, ...rest] = (child.scope ?? "").split(".");
		const e = make("span", [first && "hljs-" + first, ...rest.map((r) => r + "_")].filter(Boolean).join(" "));
		addColoured(e, child);
		to.append(e);
	}
}

function fillCode(code, text, language) {
	if (!hljs.getLanguage(language) || text.length > MOST_COLOURED) { code.textContent = text; return; }
	code.replaceChildren();
	addColoured(code, hljs.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode);
}

const languageOf = (token) => token.info.trim().split(/\s+/)[0];

function codeBlock(text, name) {
	const code = make("code"), pre = make("pre", "", null, code);
	pre.tabIndex = 0;
	fillCode(code, text.replace(/\n$/, ""), name);
	return make("figure", "code", null, make("span", "", name || "text"), pre, copyButton(() => code.textContent));
}

/* --- tokens to elements --------------------------------------------------------------------------- */

const TAGS = new Set(["p", "ul", "ol", "li", "blockquote", "em", "strong", "s", "tr", "th", "td", "thead", "tbody"]);

/* Only what opens a page or a letter. rel: the other page learns nothing of this one. */
function linkElement(token) {
	const href = token.attrGet("href") ?? "";
	if (!/^(https?|mailto):/i.test(href)) return make("span");
	const e = make("a");
	e.href = href;
	e.target = "_blank";
	e.rel = "noopener noreferrer";
	if (token.attrGet("title")) e.title = token.attrGet("title");
	return e;
}

/* A picture of another host is not fetched: that would tell it who reads. */
function pictureElement(token) {
	const link = linkElement({ attrGet: (name) => token.attrGet(name === "href" ? "src" : name) });
	link.textContent = "Picture: " + (token.content || token.attrGet("src"));
	return link;
}

/* Headings in an answer come below the page's own, and never skip a level. */
function headingElement(token, state) {
	const size = Number(token.tag.slice(1));
	state.level = Math.min(size + 2, state.level + 1, 6);
	return make("h" + state.level, "head" + size);
}

function opened(token, state) {
	if (token.type === "heading_open") return headingElement(token, state);
	if (token.type === "link_open") return linkElement(token);
	if (token.type === "table_open") {
		const table = make("table"), box = make("div", "scroll", null, table);
		box.tabIndex = 0;
		return Object.assign(table, { outer: box });
	}
	const e = make(TAGS.has(token.tag) ? token.tag : "span");
	if (token.tag === "ol" && token.attrGet("start")) e.start = Number(token.attrGet("start"));
	const align = /text-align:(\w+)/.exec(token.attrGet("style") ?? "")?.[1];
	if (align) e.className = align;
	return e;
}

function addText(to, text) {
	text.split(/<br\s*\/?>/i).forEach((piece, i) => to.append(...(i ? [make("br")] : []), piece));
}

/* A list's item that begins with "[ ]" or "[x]". */
function addTask(to, token) {
	const box = to.matches("li, li > p:first-child") && token.content.match(/^\[([ xX])\] /);
	if (!box) return token.children;
	to.append(make("span", "task", box[1] === " " ? "☐ " : "☑ "));
	token.children[0].content = token.children[0].content.slice(4);
	return token.children;
}

function addTokens(root, tokens, state) {
	const stack = [root];
	for (const token of tokens) {
		const top = stack.at(-1);
		if (token.nesting === 1) {
			const hidden = token.hidden; /* the paragraph of a tight list */
			const e = hidden ? top : opened(token, state);
			if (!hidden) top.append(e.outer ?? e);
			stack.push(e);
		} else if (token.nesting === -1) {
			stack.pop();
		} else if (token.type === "inline") {
			addTokens(top, addTask(top, token), state);
		} else if (token.type === "fence" || token.type === "code_block") {
			top.append(codeBlock(token.content, languageOf(token)));
		} else if (token.type === "math") {
			top.append(mathElement(token.content, token.meta.isBlock));
		} else if (token.type === "code_inline") {
			top.append(make("code", "", token.content));
		} else if (token.type === "image") {
			top.append(pictureElement(token));
		} else if (token.type === "hr") {
			top.append(make("hr"));
		} else if (token.type === "hardbreak" || token.type === "softbreak") {
			top.append(make("br"));
		} else {
			addText(top, token.content);
		}
	}
}

/* --- a text that grows ------------------------------------------------------------------------------ */

/* Tokens of each block at the top: [[token…]…]. */
function groupsOf(tokens) {
	const groups = [];
	for (const token of tokens) {
		if (token.level === 0 && token.nesting >= 0) groups.push([]);
		groups.at(-1).push(token);
	}
	return groups;
}

/* Makes `e` show `text`. A stream changes only the last block of what was shown: later lines
 * reopen no block that has ended. So all before it stays as it is, and is not read again. At the
 * end (isWhole) all is read once more where a link's address has come behind the link. */
function showText(e, text, isWhole) {
	let shown = e.shown;
	const hasLateLinks = isWhole && Object.keys(shown?.env.references ?? {}).length > 0;
	if (!shown || !text.startsWith(shown.text) || hasLateLinks) {
		e.replaceChildren();
		shown = e.shown = { text: "", blocks: [], env: hasLateLinks ? { references: shown.env.references } : {} };
	}
	const last = shown.blocks.at(-1), from = last?.from ?? 0, tail = text.slice(from);
	const lines = [0];
	for (let i = tail.indexOf("\n"); i >= 0; i = tail.indexOf("\n", i + 1)) lines.push(i + 1);
	const first = Math.max(shown.blocks.length - 1, 0);
	const groups = groupsOf(md.parse(tail, shown.env));
	groups.forEach((tokens, i) => {
		const [begin, end] = tokens[0].map, old = shown.blocks[first + i];
		const source = tail.slice(lines[begin], lines[end] ?? tail.length);
		const isGrowing = i === groups.length - 1 && !isWhole;
		if (old?.source === source && (old.isGrowing === isGrowing || tokens[0].type !== "fence")) return;
		const state = { level: shown.blocks[first + i - 1]?.level ?? 2 };
		const node = blockElement(tokens, state, old, isGrowing);
		const block = { source, isGrowing, from: from + lines[begin], node, level: state.level };
		if (!old) e.append(block.node);
		else if (old.node !== block.node) old.node.replaceWith(block.node);
		shown.blocks[first + i] = block;
	});
	while (shown.blocks.length > Math.max(first + groups.length, 0)) shown.blocks.pop().node.remove();
	shown.text = text;
}

const GROWS = 8000; /* characters: a longer block of code gets its colours when it is whole */

function blockElement(tokens, state, old, isGrowing) {
	const token = tokens[0];
	if (token.type === "fence" && old?.node.matches("figure.code") && old.node.firstChild.textContent === (languageOf(token) || "text")) {
		const text = token.content.replace(/\n$/, "");
		if (isGrowing && text.length > GROWS) old.node.querySelector("code").textContent = text;
		else fillCode(old.node.querySelector("code"), text, languageOf(token));
		return old.node;
	}
	const holder = make("div", "block");
	addTokens(holder, tokens, state);
	return holder.children.length === 1 ? holder.firstChild : holder;
}
