/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sysmem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { MAX_PATH = 4096 };

/* The number after `key` in a file of lines "key value"; `none` if the key is missing. */
static int64_t number_of(const char *path, const char *key, int64_t none)
{
	FILE *f = fopen(path, "re");
	char line[256];
	size_t n = strlen(key);
	int64_t found = none;
	while (f && found == none && fgets(line, sizeof line, f))
		if (strncmp(line, key, n) == 0)
			found = strtoll(line + n, NULL, 10);
	if (f)
		fclose(f);
	return found;
}

/* The single number in a file; `none` if the file holds a word such as "max". */
static int64_t number_in(const char *path, int64_t none)
{
	FILE *f = fopen(path, "re");
	long long v;
	bool good = f && fscanf(f, "%lld", &v) == 1;
	if (f)
		fclose(f);
	return good ? v : none;
}

/* Copy this process's cgroup path from the line "0::/path" of proc/self/cgroup. Returns
 * false if the system has no cgroup version 2. */
static bool group_of_self(const char *root, char *out, size_t size)
{
	char path[MAX_PATH];
	snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
	FILE *f = fopen(path, "re");
	bool found = false;
	while (f && !found && fgets(out, (int)size, f))
		if (strncmp(out, "0::/", 4) == 0) {
			memmove(out, out + 3, strlen(out + 3) + 1);
			out[strcspn(out, "\n")] = '\0';
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

/* Apply the memory limit of one cgroup to *m. */
static void apply_group(const char *root, const char *group, struct sysmem *m)
{
	char path[2 * MAX_PATH];
	snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/memory.max", root, group);
	int64_t max = number_in(path, INT64_MAX);
	if (max == INT64_MAX)
		return;
	snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/memory.current", root, group);
	int64_t used = number_in(path, 0);
	snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/memory.stat", root, group);
	used -= number_of(path, "inactive_file ", 0);
	m->total = MIN(m->total, max);
	m->available = MIN(m->available, MAX(0, max - MAX(0, used)));
}

void sysmem_read(const char *root, struct sysmem *out)
{
	char path[MAX_PATH], group[MAX_PATH];
	if (strcmp(root, "/") == 0)
		root = "";
	snprintf(path, sizeof path, "%s/proc/meminfo", root);
	int64_t total = number_of(path, "MemTotal:", -1);
	int64_t available = number_of(path, "MemAvailable:", -1);
	*out = (struct sysmem){total < 0 ? INT64_MAX : total * 1024,
			       available < 0 ? INT64_MAX : available * 1024};
	bool has_group = group_of_self(root, group, sizeof group);
	while (has_group && strlen(group) > 1) {
		apply_group(root, group, out);
		*strrchr(group, '/') = '\0';
	}
	out->available = MIN(out->available, out->total);
}
