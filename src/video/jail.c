/* SPDX-License-Identifier: Apache-2.0 */
#include "video/jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sanitizers reserve terabytes of addresses, and look at their process when it ends. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED 0
#endif

#if defined(__x86_64__)
#define JAIL_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define JAIL_ARCH AUDIT_ARCH_AARCH64
#else
#error halod-video knows the system calls of x86-64 and arm64: configure --without-libav
#endif

static bool jail_bound(int what, int64_t most)
{
	/* At the harder one Linux kills. SIGXCPU comes first and says why. */
	const struct rlimit limit = {(rlim_t)most, (rlim_t)(what == RLIMIT_CPU ? most + 1 : most)};
	return setrlimit((__rlimit_resource_t)what, &limit) == 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define MAY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), \
		ANSWER(SECCOMP_RET_ALLOW)
/* Where the third argument has PROT_EXEC: refused. */
#define MAY_WITHOUT_EXEC(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4), \
		LOAD(args[2]), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), \
		ANSWER(SECCOMP_RET_ERRNO | EACCES), ANSWER(SECCOMP_RET_ALLOW)

/* What is not listed fails as if it were forbidden, which libraries survive. */
static bool jail_filter(void)
{
	struct sock_filter code[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, JAIL_ARCH, 1, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		MAY(read), MAY(write), MAY(brk), MAY(munmap), MAY(mremap), MAY(madvise),
		MAY(futex), MAY(rt_sigprocmask), MAY(rt_sigreturn), MAY(clock_gettime),
		MAY(getrandom), MAY(sched_getaffinity), MAY(getpid), MAY(gettid), MAY(tgkill),
		MAY(exit), MAY(exit_group),
		MAY_WITHOUT_EXEC(mmap), MAY_WITHOUT_EXEC(mprotect),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog program = {sizeof code / sizeof code[0], code};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool jail_enter(int64_t max_bytes, int64_t cpu_s)
{
	bool is_in = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
		     prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && jail_bound(RLIMIT_CORE, 0) &&
		     jail_bound(RLIMIT_FSIZE, 0) && jail_bound(RLIMIT_CPU, cpu_s) &&
		     jail_bound(RLIMIT_NOFILE, 0);
	if (IS_WATCHED)
		return is_in;
	return is_in && prctl(PR_SET_DUMPABLE, 0) == 0 && jail_bound(RLIMIT_AS, max_bytes) &&
	       jail_filter();
}
