# SPDX-License-Identifier: Apache-2.0
"""Which instructions of a kernel do nothing that a result could depend on.

mutate.py does not try to remove them. There are two rules, both over the graph of branches:
dead    It writes only registers that nothing reads any more. What is not known reads every
        register that its text names, and is never called dead. A vector register is never
        taken to be written whole, since lanes may be off.
kept    It copies EXEC to where that value is already, or adds lanes to EXEC that are on. For
        each pair of EXEC and scalar registers it is known, or not, that one has all lanes of
        the other. Comparisons only take lanes from EXEC.
"""
import re

ALL = "all"  # stands for every register
# Scalar instructions whose first operand is the result and nothing else.
SCALAR = re.compile(
    r"s_(mov|add|sub|addc|subb|and|or|xor|not|nand|nor|xnor|and_not1|or_not1|lshl|lshr|ashr|bfe|"
    r"bfm|mul|mul_hi|cselect|min|max|abs|absdiff|sext|bcnt0|bcnt1|ctz|clz|cls|brev|lshl[1-4]_add)_"
    r"(b|i|u)(32|64)(_i32_i8|_i32_i16|_u32_b32|_i32_b32|_i32_b64|_i32_u32|_i32_u64)?$")
SPARES_SCC = re.compile(r"s_(mov|cselect|mul|mul_hi|bfm|sext|ctz|clz|cls|brev)_")
READS_SCC = re.compile(r"s_(cselect|addc|subb|cmov|cbranch_scc)")
# Vector instructions whose first operand is a vector register that they do not read.
VECTOR = re.compile(
    r"v_(mov|add|sub|subrev|mul|and|or|xor|not|lshlrev|lshrrev|ashrrev|lshl_add|add_lshl|lshl_or|"
    r"and_or|or3|add3|xad|bfe|bfi|bfrev|perm|alignbit|alignbyte|cndmask|max|min|max3|min3|med3|"
    r"mad|fma|exp|log|rcp|rsq|sqrt|sin|cos|cvt|mbcnt_lo|mbcnt_hi|dot4|dot8|dot2)_")
SECOND_RESULT = re.compile(r"v_(add_co|sub_co|subrev_co|mad_u64_u32|mad_i64_i32|div_scale)")


def registers(text):
    """The names of the registers in an operand."""
    found = set()
    for kind, one, low, high in re.findall(r"\b([vs])(?:(\d+)\b|\[(\d+):(\d+)\])", text):
        numbers = [int(one)] if one else range(int(low), int(high) + 1)
        found.update("%s%d" % (kind, n) for n in numbers)
    if "vcc" in text:
        found.add("vcc")
    if "exec" in text:
        found.add("exec")
    return found


def effects(text):
    """(what it reads, what it writes whole, what it may write or None: not known)"""
    halves = [part.strip() for part in text.split("::")]
    if len(halves) == 2:
        both = [effects(half) for half in halves]
        known = None not in (both[0][2], both[1][2])
        return (both[0][0] | both[1][0], both[0][1] | both[1][1],
                both[0][2] | both[1][2] if known else None)
    name, _, rest = text.partition(" ")
    name = name.replace("v_dual_", "v_")
    operands = rest.split(",")
    first, others = registers(operands[0]), registers(",".join(operands[1:]))
    reads, scc = set(), {"scc"}
    if "movrel" in name:
        return {ALL}, set(), None
    if READS_SCC.match(name):
        reads |= scc
    if "saveexec" in name:
        return reads | others | {"exec"}, first | {"exec", "scc"}, first | {"exec", "scc"}
    if SCALAR.match(name):
        wrote = first | (set() if SPARES_SCC.match(name) else scc)
        return reads | others, wrote, wrote if "m0" not in operands[0] else None
    if re.match(r"s_(cmpk?|bitcmp[01])_", name):
        return first | others, scc, scc
    if re.match(r"s_(load|buffer_load)_", name):
        return reads | others, first, None
    if name.startswith("s_"):
        if re.match(r"s_(setpc|swappc|call|rfe|cbranch_(?!scc|vcc|exec))", name):
            return {ALL}, set(), None
        reads |= {"vcc"} if "vcc" in name else set()
        reads |= {"exec"} if "exec" in name else set()
        return reads | first | others, set(), None
    reads |= {"exec"}
    if re.match(r"v_(cndmask|div_fmas)", name):  # the short form does not name VCC
        reads |= {"vcc"}
    if name.startswith("v_cmpx"):
        return reads | first | others, {"exec"}, {"exec"}
    if name.startswith("v_cmp_"):
        return reads | others, first, first
    if name.startswith(("v_readlane", "v_readfirstlane")):
        return reads | others, first, first
    if SECOND_RESULT.match(name):
        second = registers(operands[1])
        return reads | registers(",".join(operands[2:])), second, first | second
    keeps = re.search(r"row_|quad_perm|dpp|op_sel|sel:|_d16|fmac|_f16|_b16|_i16|_u16", text)
    if VECTOR.match(name) and not keeps and not re.search(r"\bv_\w*(fmac|c_)", name):
        return reads | others, set(), first
    return reads | first | others, set(), None


def successors(instructions):
    """For each instruction, the numbers of those that may come next."""
    at = {address: i for i, (address, _, _) in enumerate(instructions)}
    out = []
    for i, (address, n, text) in enumerate(instructions):
        name, _, rest = text.partition(" ")
        after = [i + 1] if i + 1 < len(instructions) else []
        if name == "s_endpgm":
            after = []
        elif name == "s_branch" or name.startswith("s_cbranch"):
            offset = int(rest.split()[0])
            offset -= 65536 if offset > 32767 else 0
            target = at.get(address + 4 + 4 * offset)
            if target is None:
                raise ValueError("%x: %s leads nowhere" % (address, text))
            after = [target] + (after if name != "s_branch" else [])
        out.append(after)
    return out


def live_out_of(what, after):
    """For each instruction, the registers that may be read behind it."""
    live_in, live_out = [set() for _ in what], [set() for _ in what]
    changed = True
    while changed:
        changed = False
        for i in range(len(what) - 1, -1, -1):
            reads, wrote, _ = what[i]
            live_out[i] = set().union(*[live_in[j] for j in after[i]])
            new = reads | (live_out[i] - wrote)
            if new != live_in[i]:
                live_in[i], changed = new, True
    return live_out


def without(pairs, names):
    return {(a, b) for a, b in pairs if a not in names and b not in names}


def copied(pairs, to, source):
    """Behind to = source."""
    pairs = without(pairs, {to})
    more = {(to, b) for a, b in pairs if a == source} | {(a, to) for a, b in pairs if b == source}
    return pairs | more | {(to, source), (source, to)}


def shrunk(pairs):
    """Behind what takes lanes from EXEC, or none."""
    return {(a, b) for a, b in pairs if a != "exec"}


def behind(text, effect, pairs):
    """Pairs (a, b), a having all lanes of b, behind an instruction."""
    name, _, rest = text.partition(" ")
    operands = [part.strip() for part in rest.split(",")]
    if name == "s_mov_b32" and operands[1] == "exec_lo" and re.match(r"s\d+$", operands[0]):
        return copied(pairs, operands[0], "exec")
    if name == "s_and_saveexec_b32" and re.match(r"s\d+$", operands[0]):
        return shrunk(copied(pairs, operands[0], "exec"))
    if name == "s_or_b32" and operands[:2] == ["exec_lo"] * 2 and (operands[2], "exec") in pairs:
        return copied(pairs, "exec", operands[2])
    if name.startswith("v_cmpx") or (re.match(r"s_and(_not1)?_b32$", name) and
                                     operands[:2] == ["exec_lo"] * 2):
        return shrunk(pairs)
    written = effect[2] if effect[2] is not None else registers(rest) | (
        {"exec"} if "exec" in name and not name.startswith("s_cbranch") else set())
    return set() if ALL in effect[0] else without(pairs, written)


def known_pairs(instructions, what, after):
    """For each instruction, what is known before it; None: it is never reached."""
    before = [None] * len(instructions)
    before[0], todo = set(), {0}
    while todo:
        i = todo.pop()
        now = behind(instructions[i][2], what[i], before[i])
        for j in after[i]:
            new = now if before[j] is None else before[j] & now
            if new != before[j]:
                before[j] = new
                todo.add(j)
    return before


def is_kept(text, pairs, live):
    name, _, rest = text.partition(" ")
    operands = [part.strip() for part in rest.split(",")]
    if name == "s_mov_b32" and operands[1] == "exec_lo":
        return {(operands[0], "exec"), ("exec", operands[0])} <= pairs
    return (name == "s_or_b32" and operands[:2] == ["exec_lo"] * 2 and "scc" not in live and
            ALL not in live and ("exec", operands[2]) in pairs)


def useless(instructions):
    """{number of an instruction: the rule's name}. [(address, words, text)]"""
    after, what = successors(instructions), [effects(text) for _, _, text in instructions]
    live = live_out_of(what, after)
    pairs = known_pairs(instructions, what, after)
    found = {}
    for i, (_, _, written) in enumerate(what):
        if written and ALL not in live[i] and not written & live[i]:
            found[i] = "dead"
        elif pairs[i] is not None and is_kept(instructions[i][2], pairs[i], live[i]):
            found[i] = "kept"
    return found
