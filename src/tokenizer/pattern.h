/* SPDX-License-Identifier: Apache-2.0
 *
 * A regular expression out of a configuration file, in Python's dialect as far as
 * PCRE2 shares it, matched from the start of a name as re.match does. Thread: any
 * once compiled.
 */
#pragma once
#include "base/buf.h"

struct pattern;

/* E_FORMAT with the offset of the fault. */
enum status pattern_compile(struct str source, struct pattern **out,
			    struct fail *fail) MUST_USE;
void pattern_destroy(struct pattern *p);
/* E_LIMIT where matching takes unreasonably long: patterns are hostile too. */
enum status pattern_match(const struct pattern *p, struct str s, bool *out,
			  struct fail *fail) MUST_USE;
