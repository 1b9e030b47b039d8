/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans in the JSON of OTLP (opentelemetry-proto, trace/v1). Thread: any.
 */
#pragma once
#include "base/buf.h"

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2 };

struct span {
	const char *name, *trace_id, *id;
	const char *parent_id; /* "": a root span */
	enum span_kind kind;
	int64_t start_ns, end_ns; /* ns since 1970 */
};

/* To append one span call span_begin, the attributes, then span_end. */
void span_begin(struct buf *b, const struct span *s);
void span_add_text(struct buf *b, const char *key, const char *value);
void span_add_int(struct buf *b, const char *key, int64_t value);
void span_add_number(struct buf *b, const char *key, double value);
void span_end(struct buf *b, bool is_error);
