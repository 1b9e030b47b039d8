/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *out, const char *name, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int rc = pthread_attr_init(&attr);
	if (rc != 0)
		return rc;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	if (rc == 0)
		rc = pthread_create(out, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		pthread_setname_np(*out, name);
	return rc;
}
