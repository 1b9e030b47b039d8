#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl doctor, on made-up copies of the /sys, /proc and /dev of other machines."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from tap import BUILD, FIBERS, SRC, TINY, done, eq, ok

LIBRARY = os.path.abspath(FIBERS)
AWQ = os.path.join(os.path.abspath(SRC), "tests/golden/models/qwen3-awq")
GIB = 1 << 30
DEVICE = "sys/class/drm/renderD128/device/"
NODE = "sys/class/kfd/kfd/topology/nodes/%d/properties"
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         %-20s %-20s bytes
Max open files            1024                 %-20s files
"""

# A Strix Halo of 128 GB in good order: a carve-out of 512 MiB, 120 GiB of GTT.
STRIX = {
    NODE % 0: "cpu_cores_count 32\nsimd_count 0\ngfx_target_version 0\n",
    NODE % 1: "cpu_cores_count 0\nsimd_count 80\nsimd_per_cu 2\n"
              "gfx_target_version 110501\ndrm_render_minor 128\n",
    "sys/class/kfd/kfd/proc/812/pasid": "32770\n",
    "proc/812/comm": "halod\n",
    DEVICE + "fw_version/mes_fw_version": "0x0000007e\n",
    DEVICE + "mem_info_gtt_total": "%d\n" % (120 * GIB),
    DEVICE + "mem_info_gtt_used": "%d\n" % (1 * GIB),
    DEVICE + "mem_info_vram_total": "%d\n" % (GIB // 2),
    DEVICE + "mem_info_vram_used": "%d\n" % (GIB // 4),
    DEVICE + "power_dpm_force_performance_level": "auto\n",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz ro amd_iommu=off ttm.pages_limit=31457280\n",
    "proc/sys/kernel/osrelease": "6.18.6-200.fc43.x86_64\n",
    "proc/meminfo": "MemTotal: %d kB\nMemAvailable: %d kB\n" % (125 << 20, 118 << 20),
    "proc/self/limits": LIMITS % ("8388608", "8388608", "524288"),
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "amd-pstate-epp\n",
    "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference": "performance\n",
    "sys/firmware/acpi/platform_profile": "performance\n",
    "dev/kfd": "", "dev/dri/renderD128": "",
    "kernels/gfx1151.hsaco": "", "kernels/gfx1100.hsaco": "",
}


def without(begin):
    """STRIX without the files whose paths begin so."""
    return {p: t for p, t in STRIX.items() if not p.startswith(begin)}


def plant(folder, files):
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)


class Result:
    """Its lines as {name: [(level, text)]}."""
    def __init__(self, p):
        self.code, self.out, self.err = p.returncode, p.stdout.decode(), p.stderr.decode()
        self.lines = {}
        for line in self.out.splitlines():
            m = re.match(r"(ok|warn|bad) +(\S+(?: \S+)*?)  *(.*)$", line)
            name = next(n for n in sorted(NAMES, key=len, reverse=True)
                        if line[6:].startswith(n + " "))
            self.lines.setdefault(name, []).append((m.group(1), line[6:].strip()))

    def level(self, name):
        return self.lines.get(name, [(None, "")])[0][0]

    def text(self, name):
        return self.lines.get(name, [(None, "")])[0][1]

    def not_fine(self):
        return sorted((level, name) for name, rows in self.lines.items()
                      for level, _ in rows if level != "ok")


NAMES = ["chip", "kernels", "driver", "firmware", "/dev/kfd", "/dev/dri/renderD128",
         "/dev/dri/renderD129", "GPU memory", "IOMMU", "GPU clock", "GPU programs", "memory",
         "CPU clock", "power", "locked", "open files", "limits", "HIP runtime", "model", "both",
         "images", "lora", "self-check", "read rate"]


def doctor(files, *args, program=None, prepare=None, **run):
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        plant(root, files)
        if prepare:
            prepare(root)
        return Result(subprocess.run(
            [program or os.path.join(BUILD, "haloctl"), "doctor", "--root", root,
             "--hip-kernels", os.path.join(root, "kernels"), *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **run))


def says(r, level, name, *words):
    """The line, and that it says what to do where it is not fine."""
    text = r.text(name)
    fits = r.level(name) == level and all(w in text for w in words)
    fits = fits and ((level == "ok") == ("Fix: " not in text))
    ok(fits, "%s: %s" % (name, level), r.out + r.err)


def good():
    r = doctor(STRIX)
    eq((r.code, r.not_fine()), (0, []), "a Strix Halo in good order")
    says(r, "ok", "chip", "gfx1151, 40 compute units, /dev/dri/renderD128")
    says(r, "ok", "kernels", "gfx1151")
    says(r, "ok", "driver", "Linux 6.18.6-200.fc43.x86_64")
    says(r, "ok", "firmware", "MES 0x7e")
    says(r, "ok", "GPU memory", "GTT has 120.0 GiB of the system's 125.0 GiB")
    says(r, "ok", "GPU clock", '"auto"', "19 to 30 %", "echo high")
    says(r, "ok", "GPU programs", "halod 812")
    says(r, "ok", "memory", "125.0 GiB, 118.0 GiB of it available")
    says(r, "ok", "open files", "524288, enough for 174677 connections")
    eq(len(r.out.splitlines()), sum(len(v) for v in r.lines.values()), "one line each")
    r = doctor(STRIX, "--backend", "cpu")
    ok(r.code == 0 and "--backend cpu" in r.text("chip") and "GPU memory" not in r.lines,
       "the CPU alone", r.out)


def slow():
    """All that costs speed is a warning."""
    r = doctor({**STRIX,
                DEVICE + "mem_info_gtt_total": "%d\n" % (62 * GIB),
                DEVICE + "power_dpm_force_performance_level": "low\n",
                "proc/cmdline": "BOOT_IMAGE=/vmlinuz ro\n",
                "sys/class/iommu/ivhd0/devices": "",
                "proc/sys/kernel/osrelease": "6.18.3\n",
                "sys/class/kfd/kfd/proc/913/pasid": "32771\n",
                "proc/913/comm": "ollama\n",
                "sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference":
                    "power\n",
                "sys/firmware/acpi/platform_profile": "low-power\n",
                "proc/self/limits": LIMITS % ("65536", "65536", "512")})
    eq(r.code, 0, "slow, but not bad")
    says(r, "warn", "GPU memory", "GTT has 62.0 GiB", "ttm.pages_limit=31719424")
    says(r, "warn", "IOMMU", "amd_iommu=off", "ROCm 7.1")
    says(r, "warn", "GPU clock", '"low"', "/sys/class/drm/renderD128/device/power_dpm")
    says(r, "warn", "driver", "6.18.4")
    says(r, "warn", "GPU programs", "halod 812", "ollama 913")
    says(r, "warn", "CPU clock", "performance")
    says(r, "warn", "power", '"low-power"')
    says(r, "warn", "locked", "64 KiB")
    says(r, "warn", "open files", "enough for 85 connections")
    eq(len(r.not_fine()), 9, "and nothing else")


def memory():
    # A GTT above the memory: what the system has left is what there is.
    large = {**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (128 * GIB)}
    says(doctor(large), "ok", "GPU memory", "GTT has 128.0 GiB", "118.0 GiB are free")
    says(doctor(STRIX), "ok", "GPU memory", "118.0 GiB are free")
    says(doctor(large, "--model", TINY), "ok", "model", "fits")
    r = doctor({**STRIX, DEVICE + "mem_info_vram_total": "%d\n" % (96 * GIB),
                DEVICE + "mem_info_gtt_total": "%d\n" % (15 * GIB),
                "proc/meminfo": "MemTotal: %d kB\nMemAvailable: 9 kB\n" % (31 << 20)})
    says(r, "warn", "GPU memory", "carve-out of 96.0 GiB", "halod takes the carve-out", "UMA", "pages_limit=32243712")
    r = doctor(without(DEVICE + "mem_info"))
    says(r, "warn", "GPU memory", "modprobe")


def firmware():
    r = doctor({**STRIX, DEVICE + "fw_version/mes_fw_version": "0x00000083\n"})
    eq((r.code, r.not_fine()), (1, [("bad", "firmware")]), "bad firmware")
    says(r, "bad", "firmware", "MES 0x83", "linux-firmware 20260110")
    r = doctor({**STRIX, DEVICE + "fw_version/mes_fw_version": "0x00000086\n"})
    says(r, "bad", "firmware", "MES 0x86", "hard hangs")
    r = doctor(without(DEVICE + "fw_version"))
    says(r, "warn", "firmware", "amdgpu_firmware_info")
    r = doctor({**STRIX, "sys/module/amdgpu/version": "6.16.13\n",
                "proc/sys/kernel/osrelease": "6.8.0-90-generic\n"})
    says(r, "ok", "driver", "6.8.0-90-generic", "amdgpu 6.16.13")
    for version, level in (("6.18.4", "ok"), ("6.17.12", "warn"), ("7.0-rc1", "ok"),
                           ("5.20.9", "warn")):
        r = doctor({**STRIX, "proc/sys/kernel/osrelease": version + "\n"})
        eq(r.level("driver"), level, "Linux " + version)


def rights():
    """Not by root, whom no mode keeps out. The program may lie where only root can go."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "haloctl")
        shutil.copy(os.path.join(BUILD, "haloctl"), program)
        as_user = {"user": 65534, "group": 65534, "extra_groups": []} \
            if os.geteuid() == 0 else {}
        mode = 0o660 if as_user else 0

        def close(root):
            os.chmod(os.path.join(root, "dev/kfd"), mode)
            os.chmod(os.path.join(root, "dev/dri/renderD128"), mode)

        def open_all(root):
            os.chmod(os.path.join(root, "dev/kfd"), 0o666)
            os.chmod(os.path.join(root, "dev/dri/renderD128"), 0o666)

        r = doctor(STRIX, program=program, prepare=close, **as_user)
        eq((r.code, r.not_fine()), (1, [("bad", "/dev/dri/renderD128"), ("bad", "/dev/kfd")]),
           "no rights")
        says(r, "bad", "/dev/kfd", "sudo usermod -aG render,video ")
        r = doctor(STRIX, program=program, prepare=open_all, **as_user)
        eq((r.code, r.not_fine()), (0, []), "with them")
    r = doctor(without("dev/"))
    eq(r.code, 1, "a container without the device")
    says(r, "bad", "/dev/kfd", "--device /dev/kfd")


def chips():
    cpu = {p: t for p, t in STRIX.items() if "kfd" not in p and "drm" not in p}
    r = doctor(cpu)
    eq((r.code, r.not_fine()), (0, []), "no GPU at all")
    says(r, "ok", "chip", "no AMD GPU in this machine; halod computes on the CPU")
    ok("memory" in r.lines and "open files" in r.lines and "driver" not in r.lines,
       "the other checks follow", r.out)
    eq(doctor(cpu, "--backend", "hip").code, 1, "no GPU, and it was asked for")
    bus = "sys/bus/pci/devices/0000:c5:00.0/"
    r = doctor({**cpu, bus + "vendor": "0x1002\n", bus + "class": "0x030000\n"})
    says(r, "bad", "chip", "0000:c5:00.0", "sudo modprobe amdgpu")
    r = doctor({**cpu, bus + "vendor": "0x1002\n", bus + "class": "0x040300\n"})
    says(r, "ok", "chip", "no AMD GPU")
    r = doctor(without("kernels/gfx1151"))
    says(r, "bad", "kernels", "gfx1151.hsaco", "clang-19")
    # A small GPU beside a CPU is no fault, and a large one that comes later is used.
    small = STRIX[NODE % 1].replace("110501", "100306")
    r = doctor({**STRIX, NODE % 1: small})
    eq((r.code, r.level("kernels"), "driver" in r.lines), (0, "warn", False),
       "a chip without kernels")
    eq(r.text("chip").split(",")[0].split()[-1], "gfx1036", "its name")
    card = "sys/class/drm/renderD129/device/"
    r = doctor({**STRIX, NODE % 1: small,
                NODE % 2: "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\n"
                          "drm_render_minor 129\n",
                card + "mem_info_vram_total": "%d\n" % (48 * GIB),
                card + "mem_info_vram_used": "%d\n" % GIB,
                card + "mem_info_gtt_total": "%d\n" % (62 * GIB),
                card + "mem_info_gtt_used": "0\n",
                "dev/dri/renderD129": ""})
    eq((r.code, r.not_fine(), len(r.lines["chip"])), (0, [], 2), "two GPUs")
    says(r, "ok", "kernels", "gfx1100")
    says(r, "ok", "GPU memory", "48.0 GiB, 47.0 GiB of it free")
    says(r, "ok", "/dev/dri/renderD129", "may be read")


def runtime():
    r = doctor(STRIX)
    ok("HIP runtime" not in r.lines, "a copy has no runtime to load", r.out)
    r = doctor(STRIX, "--hip-library", LIBRARY)
    says(r, "ok", "HIP runtime", LIBRARY, "HIP 7.2")
    for version, word in (("60400000", "load no kernels"), ("50200000", "load no kernels"),
                          ("70000000", "preempted"), ("70100000", "preempted"),
                          ("70900000", "preempted"), ("71000000", "preempted"),
                          ("70200000", ""), ("70300000", ""), ("71100000", ""),
                          ("100100000", "")):
        r = doctor(STRIX, "--hip-library", LIBRARY,
                   env={**os.environ, "HIP_CPU_VERSION": version})
        says(r, "bad" if word else "ok", "HIP runtime", word)
    other = {**STRIX, NODE % 1: STRIX[NODE % 1].replace("110501", "110000")}
    r = doctor(other, "--hip-library", LIBRARY, env={**os.environ, "HIP_CPU_VERSION": "60100000"})
    says(r, "ok", "HIP runtime", "HIP 6.1")
    r = doctor(STRIX, "--hip-library", "/nonexistent/libhip.so")
    says(r, "bad", "HIP runtime", "tried /nonexistent/libhip.so", "hip-runtime-amd")
    eq(r.code, 1, "which is bad")


def models():
    r = doctor(STRIX, "--model", TINY)
    says(r, "ok", "model", "fits: weights 0.01 GiB, a context of 4096 of 4096 tokens")
    r = doctor(STRIX, "--model", TINY, "--beside", TINY)
    says(r, "ok", "both", "both models are in memory together")
    r = doctor({**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (GIB // 12),
                DEVICE + "mem_info_gtt_used": "0\n",
                DEVICE + "mem_info_vram_total": "%d\n" % (GIB // 128)}, "--model", TINY,
               "--beside", TINY)
    says(r, "warn", "both", "the models take turns: ", "Fix: ctx or kv_cache")
    with tempfile.TemporaryDirectory() as folder: # alone, too, it has not its whole context
        long = os.path.join(folder, "long")
        shutil.copytree(os.path.join(SRC, "tests/golden/models/olmo2"), long)
        with open(os.path.join(long, "config.json"), encoding="utf-8") as f:
            config = {**json.load(f), "max_position_embeddings": 1 << 20}
        plant(long, {"config.json": json.dumps(config)})
        for part, status, words in ((6, "ok", "both models are in memory together"),
                                    (10, "warn", "the models take turns: a context of ")):
            r = doctor({**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (GIB // part),
                        DEVICE + "mem_info_gtt_used": "0\n",
                        DEVICE + "mem_info_vram_total": "%d\n" % (GIB // 128)}, "--model", TINY,
                       "--beside", long)
            says(r, status, "both", words)
    r = doctor(STRIX, "--model", os.path.join(SRC, "tests/golden/models/qwen35-mtp"))
    says(r, "ok", "model", "fits: weights 0.00 GiB with the MTP layer, a context of")
    r = doctor({**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (GIB // 64),
                DEVICE + "mem_info_gtt_used": "0\n",
                DEVICE + "mem_info_vram_total": "%d\n" % (GIB // 128)}, "--model", TINY)
    says(r, "bad", "model", "does not fit: weights 0.01 GiB", "the GPU has 0.02 GiB")
    # Pages of GTT are pages of the system.
    r = doctor({**STRIX, "proc/meminfo": "MemTotal: %d kB\nMemAvailable: 9000 kB\n" %
                (125 << 20)}, "--model", TINY)
    says(r, "bad", "model", "does not fit", "the GPU has 0.01 GiB")
    tight = {**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (600 << 20),
             DEVICE + "mem_info_gtt_used": "0\n"}
    sees = os.path.join(SRC, "tests/golden/vision/qwen3vl")
    r = doctor(STRIX, "--model", sees)
    says(r, "ok", "model", "fits: weights 0.00 GiB", " GiB for other models and images")
    alone = float(re.search(r"beside (\S+) GiB", r.text("model")).group(1))
    ok(alone > 0.7, "pixels, the cache of images and the tower are counted", alone)
    r = doctor(tight, "--model", sees)
    says(r, "bad", "model", "the model does not fit", "other models, images and buffers 0.7")
    small = {**STRIX, "proc/meminfo": "MemTotal: %d kB\nMemAvailable: %d kB\n" % (
        125 << 20, 600 << 10)}
    r = doctor(small, "--model", sees)
    says(r, "bad", "model", "the vision tower does not fit", "images to off")
    says(doctor(tight, "--model", AWQ), "ok", "model", "fits")
    readers = os.path.join(SRC, "tests/golden/readers")
    few = {**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (100 << 20),
           DEVICE + "mem_info_gtt_used": "0\n", DEVICE + "mem_info_vram_total": "4096\n"}
    bare = doctor(few, "--model", AWQ)
    both = doctor(few, "--model", AWQ, "--embedding-model", os.path.join(readers, "last"),
                  "--rerank-model", os.path.join(readers, "xlm-reranker"))
    says(bare, "ok", "model", "fits")
    says(both, "ok", "model", "fits", " GiB for other models and images")
    r = doctor({**few, DEVICE + "mem_info_gtt_total": "%d\n" % (1 << 20)}, "--model", AWQ,
               "--embedding-model", os.path.join(readers, "last"))
    says(r, "bad", "model", "Leave embedding_model out")
    asr = os.path.join(SRC, "tests/golden/vision/qwen3asr")
    more = {**few, DEVICE + "mem_info_gtt_total": "%d\n" % (200 << 20)}
    beside = re.search(r"beside (\S+) GiB", doctor(more, "--model", AWQ, "--transcription-model",
                                                   asr).text("model"))
    ok(beside and float(beside.group(1)) > 0.06, "a model that transcribes is counted", beside)
    alone, both = (float(re.search(r"beside (\S+) GiB", doctor(
        STRIX, "--model", AWQ, "--transcription-model", asr, *more).text("model")).group(1))
        for more in ([], ["--aligner-model", asr.replace("asr", "aligner")]))
    ok(both > alone, "and an aligner", (alone, both))
    r = doctor(STRIX, "--model", AWQ, "--aligner-model", asr.replace("asr", "aligner"))
    says(r, "bad", "model", "aligner_model: ", "hears nothing")
    r = doctor(STRIX, "--model", AWQ, "--transcription-model", AWQ)
    says(r, "bad", "model", "transcription_model: ", "hears nothing")
    drafts = doctor(few, "--model", AWQ, "--draft-model", AWQ)
    says(drafts, "ok", "model", "with the model that drafts")
    less = {**few, DEVICE + "mem_info_gtt_total": "%d\n" % (40 << 20)}
    pages = [int(re.search(r"(\d+) pages", doctor(less, "--model", AWQ, *more).text("model"))[1])
             for more in ([], ["--draft-model", AWQ])]
    ok(0 < pages[1] < pages[0] / 2, "its pages and weights are counted", pages)
    says(doctor(few, "--model", AWQ, "--draft-model", TINY), "bad", "model",
         "draft_model has another vocabulary: token ", "Fix: --draft-model names")
    says(doctor(few, "--model", AWQ, "--draft-model", "/nonexistent"), "bad", "model",
         "draft_model: ", "/nonexistent", "Fix: --draft-model names")
    base, lora = os.path.join(os.path.dirname(AWQ), "llama-biases"), os.path.join(
        os.path.abspath(SRC), "tests/golden/lora/all")
    says(doctor(few, "--model", base, "--lora", lora), "ok", "lora", "an adapter of rank ")
    for model, path, word in ((AWQ, lora, "another base model"), (base, "/nonexistent", "lora: ")):
        says(doctor(few, "--model", model, "--lora", path), "bad", "model", word,
             "Fix: --lora names an adapter")
    gemma = os.path.join(SRC, "tests/golden/vision/gemma3")
    for more in [], ["--backend", "cpu"]:
        ok("images" not in doctor(STRIX, *more, "--model", gemma).lines,
           "images are seen " + " ".join(more))
    unseen = os.path.join(SRC, "tests/golden/models/llama4")
    says(doctor(STRIX, "--model", unseen), "warn", "images", "llama4 is not supported")
    r = doctor(STRIX, "--model", "/nonexistent")
    says(r, "bad", "model", "/nonexistent", "haloctl pull")


def self_check(folder, *args):
    """On this machine, whose other lines may be anything."""
    p = subprocess.run([os.path.join(folder, "haloctl"), "doctor", "--read-mb", "1", *args],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return Result(p)


def computes():
    """A small model stands where halo-tiny is looked for: beside the program."""
    hip = ["--hip-library", LIBRARY]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(BUILD, "haloctl"), folder)
        says(self_check(folder), "warn", "self-check", "not near this program")
        tiny = os.path.join(folder, "models/halo-tiny")
        shutil.copytree(AWQ, tiny)
        path = os.path.join(tiny, "reference.json")
        with open(path) as f:
            ref = json.load(f)
        case = ref["cases"][0]
        case.pop("text", None)
        case["continuation_ids"] = case["continuation_ids"][:3]
        case["steps"] = case["steps"][:3]
        plant(tiny, {"reference.json": json.dumps({**ref, "cases": [case]})})
        r = self_check(folder, "--backend", "cpu")
        says(r, "ok", "self-check", "halo-tiny is right on", "tokens, mean difference 0.00")
        ok("read rate" not in r.lines, "no rate without a GPU", r.out)
        r = self_check(folder, *hip)
        says(r, "ok", "self-check", "halo-tiny is right on fibers on the CPU (gfx1151)")
        ok("GB/s of 256" in r.text("read rate"), "a rate", r.out)
        says(r, "ok", "HIP runtime", "sees gfx1151")
        r = self_check(folder, *hip, "--quick")
        ok("self-check" not in r.lines and "read rate" not in r.lines, "quick", r.out)
        case["steps"][0]["top"] = [[i, x - 1] for i, x in case["steps"][0]["top"]]
        plant(tiny, {"reference.json": json.dumps({**ref, "cases": [case]})})
        r = self_check(folder, "--backend", "cpu")
        says(r, "bad", "self-check", "is wrong on", "difference 1.0", "haloctl first-run")
        eq(r.code, 1, "wrong numbers are bad")
        os.remove(os.path.join(tiny, "model.safetensors"))
        says(self_check(folder), "bad", "self-check", "cannot be loaded")
        plant(tiny, {"reference.json": "{}"})
        says(self_check(folder), "bad", "self-check", "reference.json")


def large():
    """Qwen3.8-Flash-Next as people have it, planned for 128 GB and for 192 GB: its n-grams stay on
    the disk, so files of 99.7 to 128.7 GB take 66 to 77 GiB."""
    more = {**STRIX, DEVICE + "mem_info_gtt_total": "%d\n" % (184 * GIB),
            "proc/meminfo": "MemTotal: %d kB\nMemAvailable: %d kB\n" % (188 << 20, 180 << 20)}
    full, all_of = "a context of 262144 of 262144 tokens", "131072 pages"
    rows = (("iq4_xs", STRIX, "66.05", full, "95916 pages"),
            ("iq4_xs", more, "66.05", full, all_of),
            ("ud-q4_k_xl", STRIX, "76.86", full, "72364 pages"),
            ("mxfp4", STRIX, "66.23", full, "95522 pages"),
            ("nvfp4", STRIX, "69.23", full, "88999 pages"), ("nvfp4", more, "69.23", full, all_of),
            ("q6_k", STRIX, "107.68", "a context of 82704 of 262144 tokens", "5169 pages"),
            ("q6_k", more, "107.68", full, all_of))
    with tempfile.TemporaryDirectory() as tmp:
        for mix in dict.fromkeys(row[0] for row in rows):
            subprocess.run([os.path.join(BUILD, "haloctl"), "synth", "--shape",
                            "qwen3.8-flash-next", "--empty", "--format", mix, "--out",
                            os.path.join(tmp, mix)], check=True, stdout=subprocess.DEVNULL)
        for mix, machine, weights, context, pages in rows:
            r = doctor(machine, "--model", os.path.join(tmp, mix, "model.gguf"))
            says(r, "ok", "model", "fits: weights %s GiB with the MTP layer" % weights, context,
                 pages)


def usage():
    for args, word in ((["--backend", "cuda"], "auto, cpu or hip"),
                       (["--root", "/nonexistent"], "no folder /nonexistent")):
        p = subprocess.run([os.path.join(BUILD, "haloctl"), "doctor", *args],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        ok(p.returncode == 2 and word in p.stderr.decode(), "usage: " + word, p.stderr)


good()
slow()
memory()
firmware()
rights()
chips()
runtime()
models()
computes()
large()
usage()
done()
