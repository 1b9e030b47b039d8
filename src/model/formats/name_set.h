/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of names of layers: exact ones, and patterns, which begin with "re:". Thread: any once
 * it is read.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "base/status.h"

struct pattern;

/* All zeros: empty. */
struct name_set {
	char **exact;
	size_t n_exact;
	struct strmap by_name;
	struct pattern **patterns;
	size_t n_patterns;
};

void name_set_deinit(struct name_set *s);
/* Add a name, which stands for `value`, or a pattern. */
enum status name_set_add(struct name_set *s, const char *name, uint32_t value,
			 struct fail *fail) MUST_USE;
/* Add the strings of `list`, which may be NULL. E_UNSUPPORTED with `key` if it is another
 * thing than a list of strings. */
enum status name_set_read(struct name_set *s, const json_t *list, const char *key,
			  struct fail *fail) MUST_USE;
/* E_LIMIT if a pattern takes too long to match. */
enum status name_set_has(const struct name_set *s, const char *name, bool *out,
			 struct fail *fail) MUST_USE;
