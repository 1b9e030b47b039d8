/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a prompt was not found further in the prefix cache: a pure function of counts. The
 * answer is about the first token that had to be computed. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum miss_reason {
	MISS_NONE,        /* all that can be found of a prompt was found */
	MISS_NEW,         /* no earlier prompt has the same tokens so far */
	MISS_DIFFERS,     /* the prompt that is most alike has another token here */
	MISS_EVICTED,     /* its pages were known, and were evicted or found no room */
	MISS_NO_STATE,    /* its pages are known, but no recurrent state was kept there */
	MISS_OTHER_MODEL, /* kv_dir has it of another model, version or setting */
	MISS_OFF,         /* nothing is kept: prefix_cache = off */
	MISS_REASONS
};
/* "differs", as the API and /metrics spell it. */
const char *miss_name(enum miss_reason r);

/* All counts are tokens, from the beginning of the prompt. */
struct miss_facts {
	int32_t n_prompt;
	int32_t n_cached;   /* need not be computed; whole pages */
	int32_t n_pages;    /* whose pages were found, with or without a state */
	int32_t page_size;
	int32_t n_alike;    /* in common with the history that is most alike … */
	int32_t n_history;  /* … and the tokens of that history; 0: no history is known */
	/* tokens that kv_dir has of another model, version or setting; 0: none */
	int32_t n_foreign;
	bool keeps;         /* there is a prefix cache */
};

struct miss {
	enum miss_reason reason;
	int32_t at; /* index of the token that the reason is about; n_prompt for MISS_NONE */
};
struct miss miss_of(const struct miss_facts *f);
