/* SPDX-License-Identifier: Apache-2.0
 *
 * The text goes through three stages, byte by byte. Each stage takes time linear in the
 * text, whatever stop strings a client chose.
 *
 * Stage 1, stops: every stop string runs its own Knuth-Morris-Pratt automaton over the
 * text. An automaton's state is the length of the text's longest tail that is a beginning
 * of the automaton's string. So as many bytes as the largest of all states must be held
 * back. The first byte that completes a string ends the text.
 *
 * Stage 2, tags: cuts what stage 1 lets through into channels.
 *
 *        ┌────────── "<think>", first text of a block ──────────┐
 *        │                                                      ▼
 *     CONTENT                                               REASONING
 *        ▲                                                      │
 *        └────────── "</think>", anywhere in it ────────────────┘
 *
 * A block starts blank. Until its first other text shows whether a tag follows, white space
 * is held (at the answer's start) or dropped (behind a tag). After that, content passes
 * untouched, so a model may write about tags. In reasoning the close tag's automaton runs,
 * and white space is held in case the tag follows. A tag that changes nothing is dropped:
 * models repeat what the template has already written. Such are an open tag in reasoning
 * that the template opened, and a close tag at the start of content.
 *
 * Stage 3, tool calls: toolparse.c, over what stage 2 calls content. Where the format
 * has channels of its own for reasoning, stage 2 is off.
 */
#include "output/outparse.h"

#include <stdlib.h>

#include "base/alloc.h"

/* A string and how many of its bytes match the end of the text. */
struct matcher {
	char *pat;
	size_t n, at;
	size_t *back; /* [n] Knuth-Morris-Pratt table: the state to try if byte i + 1 does not
		       * match */
};

struct span_mark {
	enum out_channel channel;
	size_t begin, end; /* byte range in `out` */
};

struct outparse {
	struct matcher *stops;
	int n_stops;
	bool include_stop;
	int i_stop; /* index of the stop string found; -1: none */
	struct buf maybe_stop;

	bool split;
	struct matcher open, close; /* of `open` only the text is used, not its automaton */
	enum out_channel channel;
	bool is_blank;  /* the block has had only white space so far */
	bool trim;      /* drop this white space: it follows a tag */
	struct buf hold;
	size_t n_space; /* white space at the front of a blank block's `hold` */

	struct toolparse *tools; /* NULL: tool calls are not parsed */
	struct str begun;        /* beginning of the answer that the prompt holds; not parsed yet */

	struct buf out;
	struct span_mark *marks;
	struct out_span *spans;
	int n_spans, cap_spans;
};

/* --- matcher ------------------------------------------------------------- */

static void matcher_init(struct matcher *m, struct str s)
{
	*m = (struct matcher){.n = s.n};
	if (s.n == 0)
		return;
	m->pat = xmalloc(s.n);
	memcpy(m->pat, s.p, s.n);
	m->back = xcalloc(s.n, sizeof *m->back);
	for (size_t i = 1, k = 0; i < s.n; i++) {
		while (k > 0 && s.p[i] != s.p[k])
			k = m->back[k - 1];
		if (s.p[i] == s.p[k])
			k++;
		m->back[i] = k;
	}
}

static void matcher_deinit(struct matcher *m)
{
	free(m->pat);
	free(m->back);
}

/* Reads c; true if c completes the string. */
static bool matcher_push(struct matcher *m, char c)
{
	if (m->n == 0)
		return false;
	while (m->at > 0 && m->pat[m->at] != c)
		m->at = m->back[m->at - 1];
	if (m->pat[m->at] == c)
		m->at++;
	if (m->at < m->n)
		return false;
	m->at = 0;
	return true;
}

/* --- spans --------------------------------------------------------------- */

static void add_span(void *ctx, enum out_channel channel, struct str text)
{
	struct outparse *p = ctx;
	if (p->n_spans == 0 || p->marks[p->n_spans - 1].channel != channel) {
		if (p->n_spans == p->cap_spans) {
			p->cap_spans = p->cap_spans ? 2 * p->cap_spans : 4;
			p->marks = xrealloc(p->marks, (size_t)p->cap_spans *
							      sizeof *p->marks);
			p->spans = xrealloc(p->spans, (size_t)p->cap_spans *
							      sizeof *p->spans);
		}
		p->marks[p->n_spans++] =
			(struct span_mark){channel, p->out.n, p->out.n};
	}
	buf_add_str(&p->out, text);
	p->marks[p->n_spans - 1].end = p->out.n;
}

/* Emits text from stage 2. */
static void outparse_emit(struct outparse *p, const char *text, size_t n)
{
	if (n == 0)
		return;
	if (p->tools && p->channel == OUT_CONTENT)
		toolparse_push(p->tools, (struct str){text, n});
	else
		add_span(p, p->channel, (struct str){text, n});
}

static void begin_spans(struct outparse *p)
{
	buf_clear(&p->out);
	p->n_spans = 0;
	if (p->begun.n)
		outparse_emit(p, p->begun.p, p->begun.n);
	p->begun.n = 0;
}

static int end_spans(struct outparse *p, const struct out_span **out_spans)
{
	/* set pointers only now, because `out` may have moved while it grew */
	for (int i = 0; i < p->n_spans; i++) {
		const struct span_mark *m = &p->marks[i];
		p->spans[i].channel = m->channel;
		p->spans[i].text =
			(struct str){p->out.p + m->begin, m->end - m->begin};
	}
	*out_spans = p->spans;
	return p->n_spans;
}

/* --- stage 2: tags ------------------------------------------------------- */

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void release(struct outparse *p, size_t n)
{
	outparse_emit(p, p->hold.p, n);
	buf_drop(&p->hold, n);
}

/* After a tag, starts the next block, which is blank. */
static void begin_block(struct outparse *p, enum out_channel channel)
{
	p->channel = channel;
	p->is_blank = p->trim = true;
	p->close.at = 0;
	p->n_space = 0;
	buf_clear(&p->hold);
}

/* Reads c in a reasoning block that has text already. */
static void push_reasoning(struct outparse *p, char c)
{
	size_t before = p->close.at;
	buf_add_c(&p->hold, c);
	if (matcher_push(&p->close, c)) {
		begin_block(p, OUT_CONTENT);
		return;
	}
	/* hold may still become the tag, so keep all of it */
	if (p->close.at == before + 1 || (p->close.at == 0 && is_space(c)
					  && before == 0))
		return;
	size_t n = p->hold.n - p->close.at;
	while (n > 0 && is_space(p->hold.p[n - 1]))
		n--;
	release(p, n);
}

static bool is_prefix(struct str s, const struct matcher *tag)
{
	return s.n <= tag->n && memcmp(s.p, tag->pat, s.n) == 0;
}

/* The block starts with text that is no tag: process `hold` as text. */
static void end_blank(struct outparse *p)
{
	p->is_blank = p->trim = false;
	if (p->channel == OUT_CONTENT) {
		release(p, p->hold.n);
		return;
	}
	struct buf held = p->hold;
	p->hold = (struct buf){0};
	for (size_t i = 0; i < held.n; i++)
		push_reasoning(p, held.p[i]);
	buf_deinit(&held);
}

/* Reads c where a tag may stand. `hold` is white space and then a prefix of a tag. */
static void push_blank(struct outparse *p, char c)
{
	if (is_space(c) && p->hold.n == p->n_space) {
		if (!p->trim) {
			buf_add_c(&p->hold, c);
			p->n_space++;
		}
		return;
	}
	buf_add_c(&p->hold, c);
	struct str word = {p->hold.p + p->n_space, p->hold.n - p->n_space};
	bool is_open = is_prefix(word, &p->open);
	bool is_close = is_prefix(word, &p->close);
	if (is_open && word.n == p->open.n)
		begin_block(p, OUT_REASONING);
	else if (is_close && word.n == p->close.n)
		begin_block(p, OUT_CONTENT);
	else if (!is_open && !is_close)
		end_blank(p);
}

static void push_tags(struct outparse *p, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p->is_blank) {
			push_blank(p, text[i]);
		} else if (p->channel == OUT_REASONING) {
			push_reasoning(p, text[i]);
		} else {
			outparse_emit(p, text + i, n - i);
			return;
		}
	}
}

/* --- stage 1: stop strings ----------------------------------------------- */

/* The index of the longest stop string that c completes; -1: none. *out_held: bytes at
 * the end of the text that may still become a stop string. */
static int push_stops(struct outparse *p, char c, size_t *out_held)
{
	int found = -1;
	size_t held = 0;
	for (int i = 0; i < p->n_stops; i++) {
		struct matcher *m = &p->stops[i];
		if (matcher_push(m, c) && (found < 0 || m->n > p->stops[found].n))
			found = i;
		held = MAX(held, m->at);
	}
	*out_held = held;
	return found;
}

int outparse_push(struct outparse *p, struct str text,
		  const struct out_span **out_spans)
{
	begin_spans(p);
	if (p->n_stops == 0)
		push_tags(p, text.p, text.n);
	if (p->n_stops == 0 || p->i_stop >= 0)
		return end_spans(p, out_spans);
	size_t held = p->maybe_stop.n;
	for (size_t i = 0; i < text.n && p->i_stop < 0; i++) {
		buf_add_c(&p->maybe_stop, text.p[i]);
		p->i_stop = push_stops(p, text.p[i], &held);
	}
	if (p->i_stop >= 0)
		held = p->include_stop ? 0 : p->stops[p->i_stop].n;
	push_tags(p, p->maybe_stop.p, p->maybe_stop.n - held);
	buf_drop(&p->maybe_stop, p->maybe_stop.n - held);
	if (p->i_stop >= 0)
		buf_clear(&p->maybe_stop); /* drop the stop string itself */
	return end_spans(p, out_spans);
}

/* --- the whole ----------------------------------------------------------- */

struct outparse *outparse_create(const struct outparse_opts *o)
{
	struct outparse *p = xcalloc(1, sizeof *p);
	p->stops = xcalloc((size_t)MAX(o->n_stops, 1), sizeof *p->stops);
	p->n_stops = o->n_stops;
	for (int i = 0; i < o->n_stops; i++)
		matcher_init(&p->stops[i], o->stops[i]);
	p->include_stop = o->include_stop;
	p->i_stop = -1;
	p->split = o->split_reasoning;
	if (p->split) {
		matcher_init(&p->open, o->think_open);
		matcher_init(&p->close, o->think_close);
		p->is_blank = true;
		p->trim = o->starts_in_reasoning;
		p->channel = o->starts_in_reasoning ? OUT_REASONING : OUT_CONTENT;
	}
	if (o->tools.format) {
		p->tools = toolparse_create(&o->tools, add_span, p);
		p->begun = o->tools.begun;
		p->is_blank &= p->begun.n == 0;
	}
	return p;
}

void outparse_destroy(struct outparse *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->n_stops; i++)
		matcher_deinit(&p->stops[i]);
	free(p->stops);
	toolparse_destroy(p->tools);
	matcher_deinit(&p->open);
	matcher_deinit(&p->close);
	buf_deinit(&p->maybe_stop);
	buf_deinit(&p->hold);
	buf_deinit(&p->out);
	free(p->marks);
	free(p->spans);
	free(p);
}

int outparse_finish(struct outparse *p, bool is_cut, const struct out_span **out_spans)
{
	begin_spans(p);
	push_tags(p, p->maybe_stop.p, p->maybe_stop.n);
	buf_clear(&p->maybe_stop);
	release(p, p->hold.n);
	if (p->tools)
		toolparse_finish(p->tools, is_cut || p->i_stop >= 0);
	return end_spans(p, out_spans);
}

bool outparse_stopped(const struct outparse *p)
{
	return p->i_stop >= 0 || (p->tools && toolparse_is_over(p->tools));
}

int outparse_stop_index(const struct outparse *p) { return p->i_stop; }

bool outparse_in_reasoning(const struct outparse *p)
{
	if (p->tools && toolparse_in_reasoning(p->tools))
		return true;
	return p->split && p->channel == OUT_REASONING;
}

int outparse_n_begun(const struct outparse *p)
{
	return p->tools ? toolparse_n_begun(p->tools) : 0;
}

bool outparse_call(const struct outparse *p, struct buf *out)
{
	if (!p->tools || !toolparse_call(p->tools, out))
		return false;
	if (out)
		buf_add_str(out, buf_str(&p->maybe_stop));
	return true;
}

bool outparse_in_content(const struct outparse *p)
{
	return p->tools ? toolparse_in_content(p->tools) : p->channel == OUT_CONTENT;
}
