/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sysmem.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/tap.h"

static char root[] = "/tmp/test_sysmem-XXXXXX";

/* A file below root; its folders are made. */
static void put(const char *path, const char *text)
{
	char full[600], command[700];
	snprintf(full, sizeof full, "%s/%s", root, path);
	snprintf(command, sizeof command, "mkdir -p $(dirname %s)", full);
	FILE *f = system(command) == 0 ? fopen(full, "w") : NULL;
	if (!f || fputs(text, f) < 0)
		exit(99);
	fclose(f);
}

static void check(int64_t total, int64_t available, const char *what)
{
	struct sysmem m;
	sysmem_read(root, &m);
	is_int(m.total, total, "%s: total", what);
	is_int(m.available, available, "%s: available", what);
}

int main(void)
{
	char command[100];
	if (!mkdtemp(root))
		return 99;
	check(INT64_MAX, INT64_MAX, "no /proc");
	put("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:  600 kB\n");
	check(1024000, 614400, "meminfo");
	put("proc/self/cgroup", "4:memory:/old\n0::/a/b\n");
	check(1024000, 614400, "a group without files");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	check(1024000, 614400, "a group without a limit");
	put("sys/fs/cgroup/a/b/memory.max", "500000\n");
	put("sys/fs/cgroup/a/b/memory.current", "300000\n");
	put("sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 100000\nslab 3\n");
	check(500000, 300000, "its unused page cache is available");
	put("sys/fs/cgroup/a/memory.max", "400000\n");
	put("sys/fs/cgroup/a/memory.current", "390000\n");
	check(400000, 10000, "the group above has less left");
	put("sys/fs/cgroup/a/memory.current", "500000\n");
	check(400000, 0, "more is used than allowed");
	struct sysmem m;
	sysmem_read("/", &m);
	ok(m.available > 0 && m.available <= m.total, "this machine has memory");
	snprintf(command, sizeof command, "rm -r %s", root);
	ok(system(command) == 0, "cleaned up");
	return tap_done();
}
