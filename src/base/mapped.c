/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapped.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define FILES_MAX 1024
#define PATH_BYTES 400

/* The signal handler reads this table without the lock, so a row's p is written last. */
static struct {
	_Atomic(const char *) p; /* NULL: this row is free */
	size_t n;
	char path[PATH_BYTES];
} files[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int code;

void mapped_add(const void *p, size_t n, const char *path)
{
	size_t len = strlen(path);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < FILES_MAX; i++) {
		if (atomic_load(&files[i].p))
			continue;
		files[i].n = n;
		snprintf(files[i].path, PATH_BYTES, "%s",
			 len < PATH_BYTES ? path : path + len - (PATH_BYTES - 1));
		atomic_store(&files[i].p, p);
		break;
	}
	pthread_mutex_unlock(&lock);
}

void mapped_remove(const void *p)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; p && i < FILES_MAX; i++)
		if (atomic_load(&files[i].p) == p)
			atomic_store(&files[i].p, NULL);
	pthread_mutex_unlock(&lock);
}

/* Runs in a signal handler: may only read memory and call write(2) and _exit(2). */
static void on_bus(int number, siginfo_t *info, void *context)
{
	(void)context;
	for (int i = 0; i < FILES_MAX; i++) {
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
