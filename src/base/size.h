/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes as people write them. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* "512K", "16M", "4G", "1T" or plain bytes, at most 2^62. False: it is none of these. */
bool size_parse(const char *text, int64_t *out);
/* The same, or "auto", which is -1. */
bool size_parse_auto(const char *text, int64_t *out);
