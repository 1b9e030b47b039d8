/* SPDX-License-Identifier: Apache-2.0
 *
 * A regular expression from a configuration file. The syntax is Python's, as far as PCRE2
 * shares it. Matching starts at the first byte of the name, like re.match. Thread: any,
 * once compiled.
 */
#pragma once
#include "base/buf.h"

struct pattern;

/* Errors: E_FORMAT with the byte offset of the syntax error. */
enum status pattern_compile(struct str source, struct pattern **out,
			    struct fail *fail) MUST_USE;
void pattern_destroy(struct pattern *p);
/* E_LIMIT if matching takes too many steps: a file may hold a hostile pattern. */
enum status pattern_match(const struct pattern *p, struct str s, bool *out,
			  struct fail *fail) MUST_USE;
