/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/pattern.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"

/* PCRE2's match limit. A sane pattern over a name of 100 bytes takes a few hundred steps.
 * This limit takes about a millisecond. */
#define MAX_STEPS 100000

struct pattern {
	pcre2_code *code;
	pcre2_match_context *limits;
};

enum status pattern_compile(struct str source, struct pattern **out,
			    struct fail *fail)
{
	int error;
	PCRE2_SIZE at;
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)source.p, source.n,
					 PCRE2_ANCHORED | PCRE2_UTF, &error, &at,
					 NULL);
	if (!code) {
		char words[120];
		pcre2_get_error_message(error, (PCRE2_UCHAR *)words, sizeof words);
		return fail_set(fail, E_FORMAT, "pattern \"%.*s\", byte %zu: %s",
				(int)MIN(source.n, 100), source.p, (size_t)at,
				words);
	}
	struct pattern *p = xmalloc(sizeof *p);
	*p = (struct pattern){code, pcre2_match_context_create(NULL)};
	pcre2_set_match_limit(p->limits, MAX_STEPS);
	pcre2_set_depth_limit(p->limits, MAX_STEPS);
	*out = p;
	return OK;
}

void pattern_destroy(struct pattern *p)
{
	if (!p)
		return;
	pcre2_match_context_free(p->limits);
	pcre2_code_free(p->code);
	free(p);
}

enum status pattern_match(const struct pattern *p, struct str s, bool *out,
			  struct fail *fail)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	int rc = pcre2_match(p->code, (PCRE2_SPTR)s.p, s.n, 0, 0, data, p->limits);
	pcre2_match_data_free(data);
	/* rc 0: the pattern matched, but the match data had no room for its offsets */
	*out = rc >= 0;
	if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
		return OK;
	return fail_set(fail, E_LIMIT, "a pattern takes too long on \"%.*s\"",
			(int)MIN(s.n, 100), s.p);
}
