/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory this process may still use, as Linux reports it. Thread: any.
 */
#pragma once
#include <stdint.h>

struct sysmem {
	int64_t total; /* bytes: the machine's memory, or the cgroup limit if that is lower */
	int64_t available; /* bytes available without swapping; at most total */
};

/* Read proc/meminfo below root ("/" for this machine), and the limits of this process's
 * cgroup (version 2) and its parents. A cgroup's inactive page cache counts as available,
 * as it does in MemAvailable. Without meminfo both fields are INT64_MAX. */
void sysmem_read(const char *root, struct sysmem *out);
