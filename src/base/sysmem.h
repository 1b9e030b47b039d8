/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory this process may still use, as Linux tells it. Thread: any.
 */
#pragma once
#include <stdint.h>

struct sysmem {
	int64_t total;     /* bytes; of the machine, or of the control group's limit */
	int64_t available; /* bytes that can be had without swapping; at most total */
};

/* Reads proc/meminfo below root ("/" for this machine), and the limits of this process's
 * control group (version 2) and of the groups above it. A group's page cache that is not
 * in use counts as available, as in MemAvailable. Where there is no meminfo, both are
 * INT64_MAX. */
void sysmem_read(const char *root, struct sysmem *out);
