/* SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/name_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/formats/quant.h"
#include "tokenizer/pattern.h"

void name_set_deinit(struct name_set *s)
{
	strmap_deinit(&s->by_name);
	for (size_t i = 0; i < s->n_exact; i++)
		free(s->exact[i]);
	for (size_t i = 0; i < s->n_patterns; i++)
		pattern_destroy(s->patterns[i]);
	free(s->exact);
	free(s->patterns);
}

enum status name_set_add(struct name_set *s, const char *name, uint32_t value,
			 struct fail *fail)
{
	if (strncmp(name, "re:", 3) != 0) {
		s->exact = xrealloc(s->exact, (s->n_exact + 1) * sizeof *s->exact);
		s->exact[s->n_exact] = xstrdup(name);
		strmap_put(&s->by_name, str_of(s->exact[s->n_exact]), value);
		s->n_exact++;
		return OK;
	}
	struct pattern *p;
	enum status st = pattern_compile(str_of(name + 3), &p, fail);
	if (st != OK)
		return st;
	s->patterns = xrealloc(s->patterns, (s->n_patterns + 1) * sizeof(struct pattern *));
	s->patterns[s->n_patterns++] = p;
	return OK;
}

enum status name_set_read(struct name_set *s, const json_t *list, const char *key,
			  struct fail *fail)
{
	if (list && !json_is_array(list))
		return quant_refuse(fail, key, list);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		if (!name)
			return quant_refuse(fail, key, list);
		enum status st = name_set_add(s, name, 0, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

enum status name_set_has(const struct name_set *s, const char *name, bool *out,
			 struct fail *fail)
{
	uint32_t unused;
	*out = strmap_get(&s->by_name, str_of(name), &unused);
	for (size_t i = 0; !*out && i < s->n_patterns; i++) {
		enum status st = pattern_match(s->patterns[i], str_of(name), out, fail);
		if (st != OK)
			return st;
	}
	return OK;
}
