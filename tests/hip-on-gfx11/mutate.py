#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Would the interpreter notice? Mutations of kernels of each family, outside of `make check`.

In each kernel each s_waitcnt, each s_barrier and fifty other instructions, chosen by a
fixed seed, are replaced by s_nop, one at a time, among those that the kernel's cases reach.
The cases (run_fibers with HALOD_CHECK=case=NAME) then run on the changed code object, and must fail.
What was not noticed is listed. Exit status 1: less than --goal percent.

Left out, since no result can depend on them: hints; waits that found nothing under way in
any of the cases (the compiler puts them behind waits of inline assembly, and on paths that
join); s_cbranch_execz, which passes over what no lane would do; and what useless.py proves
to do nothing. All of the last ones are removed at once, too, and the cases must then pass.

--caches: of each kernel whose last workgroup reads what the others store, what makes that seen:
from s_waitcnt_vscnt before the barrier to buffer_gl0_inv, one at a time. Waits that found nothing
under way are left out. The cases must notice each of them.

    mutate.py [--target gfx1151] [--limit N] [--goal 90] [--caches] [KERNEL ...]
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import useless  # pylint: disable=wrong-import-position

SRC = os.environ.get("HALOD_SRCDIR", ".")
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
LIBRARY = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
# At least one of each family, and what runs it: a name of run_fibers' cases, and the format
# whose cases are enough.
KERNELS = {
    "attention_d64_split_kernel": "attention",
    "attention_d64_prefill_kernel": "attention",
    "attention_d128_tile_split_kernel": "attention",
    "attention_merge_kernel": "attention",
    "attention_mla_split_kernel": "attention",
    "attention_mla_tile_split_kernel": "attention",
    "attention_d64_fused_split_kernel": "attention_fused",
    "qk_norm_rope_kv_kernel": "qk_norm_rope_kv",
    "rope_table_kernel": "rope_table",
    "mla_rope_kv_kernel": "mla",
    "head_linear_int4_kernel": "mla",
    "head_linear_t_bf16_kernel": "mla",
    "kv_copy_kernel": "rows",
    "linear_int4_t32y1w16c32_m1_zero_kernel": "linear int4",
    "linear_int4_t32y4w16c16_m1_kernel": "linear int4",
    "linear_rows_int8_m1_kernel": "linear int8",
    "linear_rows_nvfp4_m4_kernel": "linear nvfp4",
    "linear_blocks_q4_k_m1_kernel": "linear q4_k",
    "linear_any_fp8_kernel": "linear fp8",
    "linear_tile_m16n64_q4_k_kernel": "linear q4_k",
    "linear_tile_m16n64_int4_kernel": "linear int4",
    "moe_router_bf16_kernel": "moe_router",
    "moe_choose_kernel": "moe_router",
    "moe_align_kernel": "moe_experts int4",
    "moe_int4_up_t32y4w8c32_kernel": "moe_experts int4",
    "moe_int4_down_t8y1w4c8_zero_kernel": "moe_experts int4",
    "moe_rows_up_q6_k_kernel": "moe_experts q6_k",
    "moe_rows_down_mxfp4_kernel": "moe_experts mxfp4",
    "moe_tile_up_m16n64_int4_kernel": "moe_experts int4",
    "moe_tile_down_m32n128_q4_k_kernel": "moe_experts q4_k",
    "moe_any_up_bf16_kernel": "moe_experts bf16",
    "moe_combine_kernel": "moe_experts int4",
    "moe_scale_bf16_kernel": "moe_experts int4",
    "delta_rule_n4_kernel": "delta",
    "state_space_n16_kernel": "delta",
    "causal_conv_kernel": "delta",
    "gated_norm_kernel": "delta",
    "norm_gated_kernel": "delta",
    "sigmoid_gate_kernel": "delta",
    "rms_norm_kernel": "rms_norm",
    "rms_norm_sum_kernel": "rms_norm",
    "silu_mul_kernel": "act_mul",
    "gelu_rows_kernel": "act_mul",
    "embed_rows_q5_k_kernel": "rows",
    "gather_rows_kernel": "rows",
    "logits_cap_kernel": "rows",
    "logits_top_kernel": "logits_top",
    "logits_runs_kernel": "logits_top",
}
# With --caches: the name of a kernel, and what runs it; the first that fits.
CACHED = (("moe_route_", "route"), ("moe_router_", "moe_router"), ("delta_rule_", "delta"),
          (r"attention_\w+_bytes_", "kv_bytes"), (r"attention_\w+_fresh_", "attention_fused"),
          ("attention_", "attention"))
# What changes no result, whatever it is replaced by.
HARMLESS = re.compile(r"s_(nop|delay_alu|clause|set_inst_prefetch|code_end|sendmsg|endpgm|"
                      r"setprio|cbranch_execz)|buffer_gl\d_inv|s_waitcnt_depctr")


def disassemble(path):
    """{kernel: [(file address, n words, text)]}"""
    out = subprocess.run(["llvm-objdump-19", "-d", path], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    found, now = {}, None
    for line in out.splitlines():
        if line.endswith(">:"):
            now = found.setdefault(line[line.index("<") + 1:-2], [])
        m = re.match(r"\t(.*?)\s*// ([0-9A-F]+): ((?:[0-9A-F]{8} ?)+)", line)
        if m and now is not None:
            now.append((int(m.group(2), 16), len(m.group(3).split()), m.group(1)))
    return found


def run(target, case, removed=(), coverage=None):
    """(do the cases pass without these instructions, what they say)"""
    nops = "+".join("%x:%d" % (a, n) for a, n, _ in removed)
    env = dict(os.environ, HALOD_TEST_HIP_LIBRARY=LIBRARY,
               HALOD_GFX11="target=%s,nops=%s,max_insts=20000000" % (target, nops),
               HALOD_CHECK="short,case=" + case.replace(" ", ",quant="))
    if coverage:
        env["HALOD_GFX11"] += ",coverage=" + coverage
    program = "run_forms" if case == "route" else "run_fibers"
    with subprocess.Popen([os.path.join(BUILD, "tests/kernel", program)], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as program:
        for line in program.stdout:
            if line.startswith(("not ok", "hip-on-gfx11:")):
                program.kill()  # the first is enough
                return False, line.strip()
    return program.returncode == 0, "exit status %d" % program.returncode


def reached(path, kernel):
    for line in open(path):
        fields = line.split()
        if len(fields) == 5 and fields[1] == kernel:
            return fields[4]
    return ""


def choose(instructions, digits, equal, seed, limit):
    """Numbers of the instructions to remove, of those that ran."""
    live = [i for i, d in enumerate(digits)
            if d != "0" and i not in equal and not HARMLESS.match(instructions[i][2]) and
            (d == "2" or not instructions[i][2].startswith("s_waitcnt"))]
    waits = [i for i in live if instructions[i][2].startswith(("s_waitcnt", "s_barrier"))]
    others = [i for i in live if i not in waits]
    random.Random(seed).shuffle(others)
    chosen = waits + others[:50]
    if limit:
        random.Random(seed).shuffle(chosen)
    return sorted(chosen[:limit] if limit else chosen)


def cached_case(kernel):
    return next(case for name, case in CACHED if re.match(name, kernel))


def choose_caches(instructions, digits):
    """Numbers of the instructions of group_arrive."""
    texts = [text for _, _, text in instructions]
    atomic = next(i for i, text in enumerate(texts)
                  if re.match(r"global_atomic_add_u32 .* glc", text))
    if digits[atomic] == "0":
        raise SystemExit("the cases do not reach the atomic")
    end = texts.index("buffer_gl0_inv", atomic)
    barrier = max(i for i in range(atomic) if texts[i] == "s_barrier")
    stores = [i for i in range(barrier - 16, barrier) if texts[i].startswith("s_waitcnt_vscnt")]
    return stores[-1:] + [i for i in range(barrier, end + 1)
                          if re.match(r"s_barrier|buffer_gl\d_inv", texts[i]) or
                          (texts[i].startswith("s_waitcnt") and digits[i] == "2")]


def must_pass(args, kernel, removed, coverage=None):
    is_good, why = run(args.target, args.case[kernel], removed, coverage)
    if not is_good:
        raise SystemExit("%s fails %s: %s" % (
            kernel, "without what does nothing" if removed else "unchanged", why))


def mutants(args, kernel, instructions, folder):
    """(noticed, tried) of one kernel. Prints a row of mutations.tsv."""
    coverage = os.path.join(folder, kernel)
    must_pass(args, kernel, [], coverage)
    equal = {} if args.caches else useless.useless(instructions)
    if equal:
        must_pass(args, kernel, [instructions[i] for i in sorted(equal)])
    for i in sorted(equal) if args.verbose else ():
        print("  %x: %s: %s" % (instructions[i][0], instructions[i][2], equal[i]))
    digits = reached(coverage, kernel)
    numbers = (choose_caches(instructions, digits) if args.caches else
               choose(instructions, digits, equal, kernel, args.limit))
    if not numbers:
        raise SystemExit("%s: its cases do not launch it" % kernel)
    missed = []
    for i in numbers:
        is_passed, why = run(args.target, args.case[kernel], [instructions[i]])
        if is_passed:
            missed.append(instructions[i][2])
            print("  not noticed: %s %x: %s" % (kernel, instructions[i][0], missed[-1]))
        elif args.verbose:
            print("  %x: %s: %s" % (instructions[i][0], instructions[i][2], why[:150]))
        sys.stdout.flush()
    print("%s\t%d\t%d\t%s" % (kernel, len(numbers) - len(missed), len(numbers),
                              " | ".join(missed) or (args.caches and args.case[kernel]) or ""))
    sys.stdout.flush()
    return len(numbers) - len(missed), len(numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=[])
    parser.add_argument("--target", default="gfx1151")
    parser.add_argument("--limit", type=int, help="at most so many of a kernel")
    parser.add_argument("--goal", type=float, default=90)
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    path = os.path.join(BUILD, "kernels", args.target + ".hsaco")
    code, n_noticed, n_all = disassemble(path), 0, 0
    args.case = {k: cached_case(k) for k in code
                 if any(text == "buffer_gl0_inv" for _, _, text in code[k])
                 } if args.caches else KERNELS
    if args.caches:
        args.goal = 100
    for kernel in args.kernels:
        if kernel not in args.case:
            parser.error("%s is none of: %s" % (kernel, " ".join(args.case)))
    with tempfile.TemporaryDirectory() as folder:
        for kernel in args.kernels or args.case:
            a, b = mutants(args, kernel, code[kernel], folder)
            n_noticed += a
            n_all += b
    share = 100 * n_noticed / max(n_all, 1)
    print("%d of %d noticed (%.1f %%)" % (n_noticed, n_all, share))
    return share < args.goal


if __name__ == "__main__":
    sys.exit(main())
