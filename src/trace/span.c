/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids are hex digits and 64-bit integers are strings, as OTLP's JSON demands.
 */
#include "trace/span.h"

void span_begin(struct buf *b, const struct span *s)
{
	buf_addf(b, "{\"traceId\":\"%s\",\"spanId\":\"%s\"", s->trace_id, s->id);
	if (*s->parent_id)
		buf_addf(b, ",\"parentSpanId\":\"%s\"", s->parent_id);
	buf_add_z(b, ",\"name\":");
	buf_add_json(b, str_of(s->name));
	buf_addf(b, ",\"kind\":%d,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\","
		 "\"attributes\":[", s->kind, (long long)s->start_ns, (long long)s->end_ns);
}

static void add_key(struct buf *b, const char *key)
{
	if (b->p[b->n - 1] != '[')
		buf_add_c(b, ',');
	buf_addf(b, "{\"key\":\"%s\",\"value\":{", key);
}

void span_add_text(struct buf *b, const char *key, const char *value)
{
	add_key(b, key);
	buf_add_z(b, "\"stringValue\":");
	buf_add_json(b, str_of(value));
	buf_add_z(b, "}}");
}

void span_add_int(struct buf *b, const char *key, int64_t value)
{
	add_key(b, key);
	buf_addf(b, "\"intValue\":\"%lld\"}}", (long long)value);
}

void span_add_number(struct buf *b, const char *key, double value)
{
	add_key(b, key);
	buf_add_z(b, "\"doubleValue\":");
	buf_add_json_num(b, value);
	buf_add_z(b, "}}");
}

void span_end(struct buf *b, bool is_error)
{
	buf_add_z(b, is_error ? "],\"status\":{\"code\":2}}" : "]}");
}
