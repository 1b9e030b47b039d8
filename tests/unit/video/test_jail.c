/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process may do before and behind jail_enter. Each act is tried by a child of its own,
 * first without the jail, so that a refusal comes of the jail and not of this machine.
 */
#include "video/jail.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

#define MEMORY ((int64_t)1 << 30)
enum { DONE, REFUSED, NO_JAIL };

static bool can_open(void)
{
	return open("/dev/null", O_RDONLY) >= 0;
}

static bool can_connect(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static bool can_fork(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	return pid > 0;
}

static bool can_execute(void)
{
	execl("/bin/true", "true", (char *)NULL); /* ends with DONE */
	return false;
}

static bool can_signal(void)
{
	return kill(getppid(), 0) == 0;
}

static void *map(size_t n, int how)
{
	return mmap(NULL, n, how, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool can_map_code(void)
{
	return map(4096, PROT_READ | PROT_EXEC) != MAP_FAILED;
}

static bool can_make_code(void)
{
	void *p = map(4096, PROT_READ | PROT_WRITE);
	return p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0;
}

static bool can_take_all(void)
{
	return map((size_t)MEMORY, PROT_READ | PROT_WRITE) != MAP_FAILED;
}

static bool can_compute(void)
{
	void *p = map(1 << 24, PROT_READ | PROT_WRITE);
	return p != MAP_FAILED && write(STDOUT_FILENO, "", 0) == 0;
}

static bool can_go_on(void)
{
	for (volatile bool on = true; on;)
		;
	return true;
}

/* The child's status, as waitpid has it. */
static int try_in_child(bool (*act)(void), bool is_jailed)
{
	int how = 0;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (is_jailed && !jail_enter(MEMORY, 1))
			_exit(NO_JAIL);
		_exit(act() ? DONE : REFUSED);
	}
	return pid > 0 && waitpid(pid, &how, 0) == pid ? how : -1;
}

static bool ended_with(int how, int code)
{
	return WIFEXITED(how) && WEXITSTATUS(how) == code;
}

int main(void)
{
	const struct {
		const char *what;
		bool (*act)(void);
		bool by_filter; /* or by RLIMIT_AS: a sanitizer needs what they refuse */
	} acts[] = {
		{"opens a file", can_open, false},
		{"makes a socket", can_connect, false},
		{"starts a process", can_fork, true},
		{"becomes another program", can_execute, true},
		{"signals halod", can_signal, true},
		{"maps code", can_map_code, true},
		{"makes memory executable", can_make_code, true},
		{"takes more memory", can_take_all, true},
	};
	for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
		ok(ended_with(try_in_child(acts[i].act, false), DONE), "outside it %s",
		   acts[i].what);
		if (!acts[i].by_filter || !TAP_IS_SANITIZED)
			ok(ended_with(try_in_child(acts[i].act, true), REFUSED),
			   "inside nobody %s", acts[i].what);
	}
	ok(ended_with(try_in_child(can_compute, true), DONE), "it computes and writes");
	int how = try_in_child(can_go_on, true);
	ok(WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU,
	   "it ends by its time of the processor: %s", strsignal(WTERMSIG(how)));
	return tap_done();
}
