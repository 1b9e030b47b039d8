/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/miss.h"

#include "base/alloc.h"

static const char *const names[MISS_REASONS] = {
	[MISS_NONE] = "none",           [MISS_NEW] = "new",
	[MISS_DIFFERS] = "differs",     [MISS_EVICTED] = "evicted",
	[MISS_NO_STATE] = "no_state",   [MISS_OTHER_MODEL] = "other_model",
	[MISS_OFF] = "off",
};

const char *miss_name(enum miss_reason r)
{
	return names[r];
}

struct miss miss_of(const struct miss_facts *f)
{
	/* The last token always runs, and only whole pages are kept. */
	int32_t most = (f->n_prompt - 1) / f->page_size * f->page_size;
	int32_t known = MIN(f->n_alike / f->page_size * f->page_size, most);
	if (!f->keeps)
		return (struct miss){MISS_OFF, 0};
	if (f->n_cached >= most)
		return (struct miss){MISS_NONE, f->n_prompt};
	if (f->n_pages > f->n_cached)
		return (struct miss){MISS_NO_STATE, f->n_cached};
	if (f->n_cached < known)
		return (struct miss){MISS_EVICTED, f->n_cached};
	if (f->n_foreign > MAX(f->n_cached, known))
		return (struct miss){MISS_OTHER_MODEL, f->n_cached};
	/* A prompt that differs within the first page is another conversation. */
	if (f->n_alike >= f->page_size && f->n_alike >= f->n_cached &&
	    f->n_alike < f->n_history)
		return (struct miss){MISS_DIFFERS, f->n_alike};
	return (struct miss){MISS_NEW, MAX(f->n_alike, f->n_cached)};
}
