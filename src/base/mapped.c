/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapped.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"

#define SAMPLES 64
#define SAMPLE_BYTES ((size_t)4096)

/* The signal handler reads this table without the lock, so a row's p is written last. */
static struct {
	_Atomic(const char *) p; /* NULL: this row is free */
	size_t n;
	char path[MAPPED_PATH_BYTES];
	/* the file as it was when it was mapped; inode 0: it is not known */
	dev_t device;
	ino_t inode;
	int64_t bytes, time_ns;
	uint64_t sum; /* of samples, as they were then */
} files[MAPPED_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int code;

static uint64_t sample(const char *p, size_t n)
{
	uint64_t sum = n;
	for (size_t i = 0; i < SAMPLES; i++) {
		size_t at = n / SAMPLES * i;
		sum = hash_bytes(sum, p + at, MIN(SAMPLE_BYTES, n - at));
	}
	return sum;
}

void mapped_add(const void *p, size_t n, const char *path)
{
	size_t len = strlen(path);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAPPED_MAX; i++) {
		if (atomic_load(&files[i].p))
			continue;
		struct stat st = {0};
		if (stat(path, &st) != 0)
			st.st_ino = 0;
		files[i].n = n;
		files[i].device = st.st_dev;
		files[i].inode = st.st_ino;
		files[i].bytes = st.st_size;
		files[i].time_ns = file_time_ns(&st);
		snprintf(files[i].path, MAPPED_PATH_BYTES, "%s", len < MAPPED_PATH_BYTES ? path :
			 path + len - (MAPPED_PATH_BYTES - 1));
		atomic_store(&files[i].p, p);
		/* After p is known to on_bus: this reads the file. */
		files[i].sum = sample(p, n);
		break;
	}
	pthread_mutex_unlock(&lock);
}

void mapped_remove(const void *p)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; p && i < MAPPED_MAX; i++)
		if (atomic_load(&files[i].p) == p)
			atomic_store(&files[i].p, NULL);
	pthread_mutex_unlock(&lock);
}

bool mapped_path(int i, char out[MAPPED_PATH_BYTES])
{
	pthread_mutex_lock(&lock);
	bool is_there = atomic_load(&files[i].p) != NULL;
	if (is_there)
		memcpy(out, files[i].path, MAPPED_PATH_BYTES);
	pthread_mutex_unlock(&lock);
	return is_there;
}

/* Lock held. */
static enum status check_mapping(int i, struct fail *fail)
{
	const char *path = files[i].path;
	struct stat st;
	if (!files[i].inode || stat(path, &st) != 0 || st.st_dev != files[i].device ||
	    st.st_ino != files[i].inode)
		return OK;
	bool is_same = st.st_size == files[i].bytes && file_time_ns(&st) == files[i].time_ns;
	if (is_same)
		return OK;
	bool is_cut = (size_t)st.st_size < files[i].n;
	if (is_cut || sample(files[i].p, files[i].n) != files[i].sum)
		return fail_set(fail, E_IO, "%s was %s while it is in use. Put a new file beside "
				"an old one and rename it, or stop halod first", path,
				is_cut ? "cut short" : "written to");
	metric_add(METRIC_WEIGHTS_TOUCHED, 1);
	log_warn("%s has a new time of its last write, and seems to be the same: if it was "
		 "written to, restart halod", path);
	files[i].bytes = st.st_size;
	files[i].time_ns = file_time_ns(&st);
	return OK;
}

enum status mapped_check(struct fail *fail)
{
	enum status st = OK;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAPPED_MAX && st == OK; i++)
		if (atomic_load(&files[i].p))
			st = check_mapping(i, fail);
	pthread_mutex_unlock(&lock);
	return st;
}

/* Runs in a signal handler: may only read memory and call write(2) and _exit(2). */
static void on_bus(int number, siginfo_t *info, void *context)
{
	(void)context;
	for (int i = 0; i < MAPPED_MAX; i++) {
		const char *p = atomic_load(&files[i].p), *at = info->si_addr;
		if (!p || (uintptr_t)at < (uintptr_t)p ||
		    (uintptr_t)at - (uintptr_t)p >= files[i].n)
			continue;
		log_from_signal((const char *const[]){
			files[i].path, " was cut short, or cannot be read any more, while "
			"it is in use: the process ends. Put a new file beside an old one "
			"and rename it, or stop halod first", NULL});
		_exit(code);
	}
	signal(number, SIG_DFL);
	raise(number); /* ends the process when this returns, also if nothing faulted here */
}

void mapped_watch(int exit_code)
{
	struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
	code = exit_code;
	sigemptyset(&a.sa_mask);
	sigaction(SIGBUS, &a, NULL);
}
