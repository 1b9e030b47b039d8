/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends spans to a collector by OTLP over HTTP, in JSON, from a thread of its own. Spans
 * that the collector does not take in time are dropped and counted. No request waits for
 * it. Thread: io.
 */
#pragma once
#include "base/buf.h"

struct exporter;

struct exporter_opts {
	const char *endpoint; /* "http://127.0.0.1:4318/v1/traces" */
	const char *version;
	int max_queue; /* most traces that wait to be sent; 0: 2048 */
	int timeout_s; /* of a request to the collector; 0: 5 */
};

/* E_CONFIG: the endpoint is no HTTP address. */
enum status exporter_create(const struct exporter_opts *o, struct exporter **out,
			    struct fail *fail) MUST_USE;
/* Queues the n spans of a request, separated by commas. Takes the text out of *spans. Drops
 * the spans if the queue is full. Never waits for the collector. */
void exporter_add(struct exporter *e, struct buf *spans, int n);
/* Sends the waiting spans, for at most two requests' time. NULL is fine. */
void exporter_destroy(struct exporter *e);
