/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes as people write them. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "512K", "16M", "4G", "1T" or plain bytes, at most 2^62. False: it is none of these. */
bool size_parse(const char *text, int64_t *out);
/* The same, or "auto", which is -1. */
bool size_parse_auto(const char *text, int64_t *out);
/* For people: "4.31 GiB", or "12.0 MiB" below 1 GiB. */
void size_format(char *out, size_t size, int64_t n_bytes);
