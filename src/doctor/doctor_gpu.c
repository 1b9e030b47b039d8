/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the GPU as the kernel shows it: /sys/class/kfd lists the GPUs that can compute, and
 * /sys/class/drm has their settings.
 */
#include <ctype.h>
#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/gpumem.h"
#include "doctor/doctor.h"

#define GIB ((double)(1 << 30))
#define DEVICE "/sys/class/drm/renderD%d/device/"

enum { MAX_NODES = 64, PAGES_OF_GIB = (1 << 30) / 4096 };

/* --- the chip --------------------------------------------------------------------- */

static bool is_target(const char *arch)
{
	static const char *const targets[] = {
#define GPU_TARGET(arch, ...) #arch,
#include "backend/hip/gpu_targets.def"
#undef GPU_TARGET
	};
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		if (strcmp(targets[i], arch) == 0)
			return true;
	return false;
}

static bool has_kernels(const struct doctor *d, const char *arch)
{
	const struct backend_opts o = {.kernel_dir = d->hip_kernels};
	char *path = hip_device_file(arch, "hsaco", &o);
	free(path);
	return path != NULL;
}

/* Reads node i of the topology. False: there is none, or it is no GPU. The version 110501 means
 * gfx1151: two decimal digits each for major version, minor version and stepping. */
static bool read_node(const struct doctor *d, int i, struct doctor_gpu *out)
{
	struct buf text = {0};
	char *path = doctor_path(d, "/sys/class/kfd/kfd/topology/nodes/%d/properties", i);
	bool is_read = file_read(path, 1 << 16, &text, NULL) == OK;
	free(path);
	int64_t version = is_read ? doctor_field(buf_str(&text), "gfx_target_version") : -1;
	int64_t n_simd = doctor_field(buf_str(&text), "simd_count");
	int64_t per_cu = doctor_field(buf_str(&text), "simd_per_cu");
	int64_t render = doctor_field(buf_str(&text), "drm_render_minor");
	buf_deinit(&text);
	if (version <= 0)
		return false;
	*out = (struct doctor_gpu){.render = (int)render};
	snprintf(out->arch, sizeof out->arch, "gfx%d%x%x", (int)(version / 10000 % 100),
		 (unsigned)(version / 100 % 100), (unsigned)(version % 100));
	out->n_cu = per_cu > 0 && n_simd > 0 ? (int)(n_simd / per_cu) : 0;
	out->is_shared = gpumem_is_shared(out->arch);
	return true;
}

/* The first AMD GPU on the PCI bus, as "0000:c5:00.0". False: there is none. */
static bool find_on_bus(const struct doctor *d, char *out, size_t size)
{
	char *path = doctor_path(d, "/sys/bus/pci/devices");
	DIR *dir = opendir(path);
	bool is_found = false;
	for (struct dirent *e; dir && !is_found && (e = readdir(dir));) {
		if (*e->d_name == '.')
			continue;
		is_found = doctor_number(d, "/sys/bus/pci/devices/%s/vendor", e->d_name) ==
				   0x1002 &&
			   doctor_number(d, "/sys/bus/pci/devices/%s/class", e->d_name) >>
				   16 == 3; /* a display controller */
		if (is_found)
			snprintf(out, size, "%s", e->d_name);
	}
	if (dir)
		closedir(dir);
	free(path);
	return is_found;
}

static void say_no_gpu(struct doctor *d)
{
	char address[256];
	if (find_on_bus(d, address, sizeof address))
		doctor_say(d, DOCTOR_BAD, "chip", "the AMD GPU at %s is not ready to compute: "
			   "/sys/class/kfd does not list it. Fix: sudo modprobe amdgpu",
			   address);
	else if (strcmp(d->backend, "hip") == 0)
		doctor_say(d, DOCTOR_BAD, "chip", "no AMD GPU in this machine. Fix: --backend "
			   "cpu");
	else
		doctor_say(d, DOCTOR_OK, "chip", "no AMD GPU in this machine; halod computes "
			   "on the CPU");
}

/* Choose the same GPU as halod: the first that has kernels. Else the first that is a target of
 * the build, because its kernels can be built. */
static void check_chip(struct doctor *d)
{
	int n = 0;
	bool is_good = false;
	for (int i = 0; i < MAX_NODES; i++) {
		struct doctor_gpu g;
		if (!read_node(d, i, &g))
			continue;
		n++;
		doctor_say(d, DOCTOR_OK, "chip", "%s, %d compute units, /dev/dri/renderD%d",
			   g.arch, g.n_cu, g.render);
		bool has = has_kernels(d, g.arch);
		if (is_good || (!has && (d->has_gpu || !is_target(g.arch))))
			continue;
		d->gpu = g;
		d->has_gpu = true;
		is_good = has;
	}
	if (n == 0)
		say_no_gpu(d);
	else if (is_good)
		doctor_say(d, DOCTOR_OK, "kernels", "halod has kernels for %s", d->gpu.arch);
	else if (d->has_gpu)
		doctor_say(d, DOCTOR_BAD, "kernels", "%s.hsaco is not installed. Fix: sudo apt "
			   "install clang-19 lld-19, then configure and make again",
			   d->gpu.arch);
	else
		doctor_say(d, strcmp(d->backend, "hip") == 0 ? DOCTOR_BAD : DOCTOR_WARN,
			   "kernels", "none for this chip; halod computes on the CPU. Fix: "
			   "build with --with-gpu-targets");
}

/* --- driver and firmware ---------------------------------------------------------- */

static void check_driver(struct doctor *d)
{
	static const struct {
		const char *arch;
		int version[3];
	} known[] = {
#define KERNEL(arch, major, minor, patch) {arch, {major, minor, patch}},
#include "doctor/doctor_known.def"
#undef KERNEL
	};
	char kernel[80], driver[80];
	int v[3] = {0};
	if (!doctor_line(d, kernel, sizeof kernel, "/proc/sys/kernel/osrelease") ||
	    sscanf(kernel, "%d.%d.%d", &v[0], &v[1], &v[2]) < 2) {
		doctor_say(d, DOCTOR_WARN, "driver", "the version of Linux is not known. Fix: "
			   "uname -r tells it");
		return;
	}
	/* Only a driver built outside of the kernel has a version file. The list of kernel
	 * versions does not apply to such a driver. */
	if (doctor_line(d, driver, sizeof driver, "/sys/module/amdgpu/version")) {
		doctor_say(d, DOCTOR_OK, "driver", "Linux %s with amdgpu %s of its own package",
			   kernel, driver);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const int *least = known[i].version;
		int order = v[0] != least[0] ? v[0] - least[0]
			    : v[1] != least[1] ? v[1] - least[1] : v[2] - least[2];
		if (strcmp(known[i].arch, d->gpu.arch) != 0 || order >= 0)
			continue;
		doctor_say(d, DOCTOR_WARN, "driver", "Linux %s: on %s the driver is sound from "
			   "%d.%d.%d on. Fix: install a kernel of that version or later",
			   kernel, d->gpu.arch, least[0], least[1], least[2]);
		return;
	}
	doctor_say(d, DOCTOR_OK, "driver", "Linux %s with the kernel's amdgpu", kernel);
}

static void check_firmware(struct doctor *d)
{
	static const struct {
		const char *arch;
		int64_t version;
		const char *what, *fix;
	} known[] = {
#define MES(arch, version, what, fix) {arch, version, what, fix},
#include "doctor/doctor_known.def"
#undef MES
	};
	int64_t mes = doctor_number(d, DEVICE "fw_version/mes_fw_version", d->gpu.render);
	bool has_row = false;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(known[i].arch, d->gpu.arch) != 0)
			continue;
		has_row = true;
		if (mes != known[i].version)
			continue;
		doctor_say(d, DOCTOR_BAD, "firmware", "MES 0x%llx is known for %s. Fix: %s",
			   (long long)mes, known[i].what, known[i].fix);
		return;
	}
	if (mes >= 0)
		doctor_say(d, DOCTOR_OK, "firmware", "MES 0x%llx; nothing is known against it",
			   (long long)mes);
	else if (has_row)
		doctor_say(d, DOCTOR_WARN, "firmware", "the kernel does not tell the version of "
			   "MES, and some are bad. Fix: sudo grep MES "
			   "/sys/kernel/debug/dri/*/amdgpu_firmware_info");
	else
		doctor_say(d, DOCTOR_OK, "firmware", "nothing is known against firmware of %s",
			   d->gpu.arch);
}

/* --- device files ----------------------------------------------------------------- */

static void check_file(struct doctor *d, const char *name)
{
	char *path = doctor_path(d, "%s", name);
	const struct passwd *user = getpwuid(getuid());
	if (access(path, F_OK) != 0)
		doctor_say(d, DOCTOR_BAD, name, "is missing, though the kernel has the GPU. "
			   "Fix: start the container with --device /dev/kfd --device /dev/dri");
	else if (access(path, R_OK | W_OK) != 0)
		doctor_say(d, DOCTOR_BAD, name, "may not be read and written by %s. Fix: sudo "
			   "usermod -aG render,video %s, then log in again",
			   user ? user->pw_name : "this user",
			   user ? user->pw_name : "USER");
	else
		doctor_say(d, DOCTOR_OK, name, "may be read and written");
	free(path);
}

static void check_files(struct doctor *d)
{
	char name[40];
	check_file(d, "/dev/kfd");
	snprintf(name, sizeof name, "/dev/dri/renderD%d", d->gpu.render);
	check_file(d, name);
}

/* --- memory ----------------------------------------------------------------------- */

/* Memory of the chosen GPU as halod takes it. False: the driver does not tell its size. */
static bool read_memory(const struct doctor *d, struct gpumem *g, struct sysmem *system,
			struct gpumem_have *have)
{
	char folder[64];
	snprintf(folder, sizeof folder, "/sys/class/drm/renderD%d/device", d->gpu.render);
	sysmem_read(d->root, system);
	bool is_told = gpumem_read(d->root, folder, g);
	if (!is_told)
		*g = (struct gpumem){0};
	if (d->gpu.is_shared)
		gpumem_of_apu(is_told ? g : NULL, system, INT64_MAX, have);
	else
		*have = (struct gpumem_have){g->vram, MAX(g->vram - g->vram_used, 0), false};
	return is_told;
}

void doctor_memory(const struct doctor *d, struct memory_have *out)
{
	struct gpumem g;
	struct sysmem system;
	struct gpumem_have have;
	if (!d->has_gpu || strcmp(d->backend, "cpu") == 0) {
		sysmem_read(d->root, &system);
		*out = (struct memory_have){system.total, system.available, true, "the CPU"};
		return;
	}
	read_memory(d, &g, &system, &have);
	*out = (struct memory_have){have.total, have.free, have.is_system, "the GPU"};
}

/* Linux gives GPUs half of the memory unless told otherwise. */
static void check_shared(struct doctor *d, const struct gpumem *g, const struct sysmem *system,
			 const struct gpumem_have *have)
{
	/* The most that GTT can be if the carve-out is given back to the system. memory_plan
	 * keeps as much free. */
	int64_t all = system->total + g->vram;
	int64_t best = all - MIN(all / 16, (int64_t)4 << 30);
	long long pages = best / (1 << 30) * PAGES_OF_GIB;
	double gtt = (double)g->gtt / GIB, vram = (double)g->vram / GIB;
	double total = (double)system->total / GIB;
	if (g->vram > (int64_t)4 << 30)
		doctor_say(d, DOCTOR_WARN, "GPU memory", "a carve-out of %.1f GiB is lost to the "
			   "system, and GTT has %.1f GiB; halod takes %s. Fix: in the firmware's "
			   "setup set the UMA frame buffer to 512 MB, and add "
			   "ttm.pages_limit=%lld to the kernel's command line", vram, gtt,
			   have->is_system ? "GTT" : "the carve-out", pages);
	else if (g->gtt < all / 4 * 3)
		doctor_say(d, DOCTOR_WARN, "GPU memory", "GTT has %.1f GiB of the system's "
			   "%.1f GiB. Fix: add ttm.pages_limit=%lld to the kernel's command "
			   "line, and reboot", gtt, total, pages);
	else
		doctor_say(d, DOCTOR_OK, "GPU memory", "GTT has %.1f GiB of the system's %.1f "
			   "GiB, the carve-out is %.1f GiB; %.1f GiB are free", gtt, total, vram,
			   (double)have->free / GIB);
}

static void check_memory(struct doctor *d)
{
	struct gpumem g;
	struct sysmem system;
	struct gpumem_have have;
	if (!read_memory(d, &g, &system, &have))
		doctor_say(d, DOCTOR_WARN, "GPU memory", "the driver does not tell its size. "
			   "Fix: sudo modprobe amdgpu");
	else if (d->gpu.is_shared && system.total < INT64_MAX)
		check_shared(d, &g, &system, &have);
	else
		doctor_say(d, DOCTOR_OK, "GPU memory", "%.1f GiB, %.1f GiB of it free",
			   (double)have.total / GIB, (double)have.free / GIB);
}

/* --- what makes it slow ----------------------------------------------------------- */

/* The IOMMU costs speed. Others measured the gain without it on gfx1151 only: 5 to 12 % of
 * decode, 13 to 16 % of prefill. */
static void check_iommu(struct doctor *d)
{
	char line[4096];
	doctor_line(d, line, sizeof line, "/proc/cmdline");
	char *path = doctor_path(d, "/sys/class/iommu");
	int n = 0;
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));)
		n += *e->d_name != '.';
	if (dir)
		closedir(dir);
	free(path);
	if (n == 0 || doctor_has_word(line, "amd_iommu=off"))
		doctor_say(d, DOCTOR_OK, "IOMMU", "off");
	else if (strcmp(d->gpu.arch, "gfx1151") != 0)
		doctor_say(d, DOCTOR_OK, "IOMMU", "on");
	else
		doctor_say(d, DOCTOR_WARN, "IOMMU", "on, which costs 5 to 16 %% of speed on "
			   "gfx1151; with ROCm 7.1 it crashes. Fix: add amd_iommu=off to the "
			   "kernel's command line, if you need neither the NPU nor devices in "
			   "virtual machines");
}

static void check_clock(struct doctor *d)
{
	char level[40];
	if (!doctor_line(d, level, sizeof level, DEVICE "power_dpm_force_performance_level",
			 d->gpu.render))
		doctor_say(d, DOCTOR_OK, "GPU clock", "the driver does not tell how it is set");
	else if (strcmp(level, "low") == 0 || strncmp(level, "profile_", 8) == 0)
		doctor_say(d, DOCTOR_WARN, "GPU clock", "is held at \"%s\". Fix: echo auto | sudo "
			   "tee " DEVICE "power_dpm_force_performance_level", level,
			   d->gpu.render);
	else if (strcmp(level, "auto") == 0 && strcmp(d->gpu.arch, "gfx1151") == 0)
		doctor_say(d, DOCTOR_OK, "GPU clock", "is set to \"auto\"; on desktops owners "
			   "measured 6 %% more in decode and 19 to 30 %% in prompts with \"high\": "
			   "echo high | sudo tee " DEVICE "power_dpm_force_performance_level",
			   d->gpu.render);
	else
		doctor_say(d, DOCTOR_OK, "GPU clock", "is set to \"%s\"", level);
}

/* The programs that have /dev/kfd open. On gfx1151 two of them keep the clock high even
 * when both are idle. */
static void check_clients(struct doctor *d)
{
	struct buf names = {0};
	int n = 0;
	char *path = doctor_path(d, "/sys/class/kfd/kfd/proc");
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		char comm[40];
		if (!isdigit((unsigned char)*e->d_name) || strlen(e->d_name) > 12)
			continue;
		doctor_line(d, comm, sizeof comm, "/proc/%s/comm", e->d_name);
		buf_addf(&names, "%s%s %s", n++ ? ", " : "", *comm ? comm : "process",
			 e->d_name);
	}
	if (dir)
		closedir(dir);
	free(path);
	if (n > 1)
		doctor_say(d, DOCTOR_WARN, "GPU programs", "%d use the GPU (%s), which keeps its "
			   "clock high. Fix: stop all but one", n, names.p);
	else
		doctor_say(d, DOCTOR_OK, "GPU programs", "%s", n ? names.p : "none");
	buf_deinit(&names);
}

void doctor_check_gpu(struct doctor *d)
{
	if (strcmp(d->backend, "cpu") == 0) {
		doctor_say(d, DOCTOR_OK, "chip", "not looked for: --backend cpu");
		return;
	}
	check_chip(d);
	if (!d->has_gpu)
		return;
	check_driver(d);
	check_firmware(d);
	check_files(d);
	check_memory(d);
	check_iommu(d);
	check_clock(d);
	check_clients(d);
}
