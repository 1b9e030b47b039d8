/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine around the GPU: memory, clocks of the CPU, limits of this process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sysmem.h"
#include "doctor/doctor.h"

#define GIB ((double)(1 << 30))
#define CPUFREQ "/sys/devices/system/cpu/cpu0/cpufreq/"
#define PROFILE "/sys/firmware/acpi/platform_profile"

/* Linux's default limit of locked memory since 5.16. */
#define DEFAULT_LOCKED ((int64_t)8 << 20)

/* halod opens up to three files for each connection, and some more. */
enum { FILES_OF_CONNECTION = 3, OTHER_FILES = 256, CONNECTIONS = 256 };

static void check_memory(struct doctor *d)
{
	struct sysmem m;
	sysmem_read(d->root, &m);
	if (m.total == INT64_MAX)
		doctor_say(d, DOCTOR_WARN, "memory", "/proc/meminfo cannot be read. Fix: mount "
			   "/proc");
	else
		doctor_say(d, DOCTOR_OK, "memory", "%.1f GiB, %.1f GiB of it available",
			   (double)m.total / GIB, (double)m.available / GIB);
}

/* With "powersave" the clock rises only if the processor chooses it by itself. Then the
 * preference says how readily. */
static void check_clock(struct doctor *d)
{
	char governor[40], driver[40], wish[40];
	if (!doctor_line(d, governor, sizeof governor, CPUFREQ "scaling_governor")) {
		doctor_say(d, DOCTOR_OK, "CPU clock", "Linux does not set it here");
		return;
	}
	doctor_line(d, driver, sizeof driver, CPUFREQ "scaling_driver");
	doctor_line(d, wish, sizeof wish, CPUFREQ "energy_performance_preference");
	bool chooses = strstr(driver, "-epp") || strcmp(driver, "intel_pstate") == 0;
	bool is_slow = strcmp(governor, "powersave") == 0 &&
		       (!chooses || strcmp(wish, "power") == 0);
	if (is_slow)
		doctor_say(d, DOCTOR_WARN, "CPU clock", "governor \"%s\" keeps it low. Fix: echo "
			   "performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/"
			   "scaling_governor", governor);
	else
		doctor_say(d, DOCTOR_OK, "CPU clock", "governor \"%s\" of %s", governor,
			   *driver ? driver : "an unnamed driver");
}

static void check_profile(struct doctor *d)
{
	static const char *const slow[] = {"low-power", "quiet", "cool"};
	char profile[40];
	if (!doctor_line(d, profile, sizeof profile, PROFILE)) {
		doctor_say(d, DOCTOR_OK, "power", "the firmware offers no power profiles");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(slow); i++)
		if (strcmp(profile, slow[i]) == 0) {
			doctor_say(d, DOCTOR_WARN, "power", "profile \"%s\" limits the chip's "
				   "power. Fix: echo performance | sudo tee " PROFILE, profile);
			return;
		}
	doctor_say(d, DOCTOR_OK, "power", "profile \"%s\"", profile);
}

/* A row of /proc/self/limits: soft and hard limit, INT64_MAX for "unlimited". False: there
 * is no such row. The columns have fixed widths. */
static bool limit_of(struct str text, const char *name, int64_t *soft, int64_t *hard)
{
	ptrdiff_t at = str_find(text, str_of(name), 0);
	char a[24], b[24];
	if (at < 0 || sscanf(text.p + at + strlen(name), "%23s %23s", a, b) != 2)
		return false;
	*soft = strcmp(a, "unlimited") == 0 ? INT64_MAX : strtoll(a, NULL, 10);
	*hard = strcmp(b, "unlimited") == 0 ? INT64_MAX : strtoll(b, NULL, 10);
	return true;
}

static void check_locked(struct doctor *d, int64_t soft)
{
	if (soft == INT64_MAX)
		doctor_say(d, DOCTOR_OK, "locked", "no limit of locked memory");
	else if (soft >= DEFAULT_LOCKED)
		doctor_say(d, DOCTOR_OK, "locked", "%lld MiB of memory may be locked",
			   (long long)(soft >> 20));
	else
		doctor_say(d, DOCTOR_WARN, "locked", "only %lld KiB of memory may be locked, less "
			   "than Linux's default. Fix: ulimit -l unlimited, or LimitMEMLOCK= of "
			   "the unit", (long long)(soft >> 10));
}

/* halod raises the soft limit by itself, up to the hard one. */
static void check_open(struct doctor *d, int64_t hard)
{
	int64_t n = MAX(hard - OTHER_FILES, 0) / FILES_OF_CONNECTION;
	if (hard == INT64_MAX)
		doctor_say(d, DOCTOR_OK, "open files", "no limit");
	else if (n >= CONNECTIONS)
		doctor_say(d, DOCTOR_OK, "open files", "%lld, enough for %lld connections",
			   (long long)hard, (long long)n);
	else
		doctor_say(d, DOCTOR_WARN, "open files", "%lld, enough for %lld connections. Fix: "
			   "raise the hard limit (ulimit -Hn, LimitNOFILE= of the unit), or "
			   "lower max_connections", (long long)hard, (long long)n);
}

static void check_limits(struct doctor *d)
{
	struct buf text = {0};
	int64_t soft, hard;
	char *path = doctor_path(d, "/proc/self/limits");
	bool is_read = file_read(path, 1 << 16, &text, NULL) == OK;
	if (is_read && limit_of(buf_str(&text), "Max locked memory", &soft, &hard))
		check_locked(d, soft);
	if (is_read && limit_of(buf_str(&text), "Max open files", &soft, &hard))
		check_open(d, hard);
	if (!is_read)
		doctor_say(d, DOCTOR_WARN, "limits", "/proc/self/limits cannot be read. Fix: "
			   "mount /proc");
	buf_deinit(&text);
	free(path);
}

void doctor_check_machine(struct doctor *d)
{
	check_memory(d);
	check_clock(d);
	check_profile(d);
	check_limits(d);
}
