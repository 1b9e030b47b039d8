#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The grid of IQ2_XXS, which is data of the format, as src/model/formats/iq2xxs_grid.h: from
the gguf package for Python (pip install gguf). Run from the top of the tree."""
import numpy as np
from gguf.quants import IQ2_XXS

IQ2_XXS.init_grid()
grid = IQ2_XXS.grid.reshape(256, 8)
code = np.searchsorted([8, 25, 43], grid)
words = (code << (2 * np.arange(8))).sum(1)
with open("src/model/formats/iq2xxs_grid.h", "w") as f:
    f.write("""/* SPDX-License-Identifier: Apache-2.0
 *
 * IQ2_XXS: 256 points of eight magnitudes, two bits each, the first lowest: 0, 1 and 2
 * are 8, 25 and 43. Data of the format, from the gguf package for Python
 * (tests/golden/make_iq2_grid.py).
 */
#pragma once
#ifndef TABLE /* how device code has constants */
#define TABLE static const
#endif
TABLE unsigned short iq2xxs_grid[256] = {
""")
    for i in range(0, 256, 8):
        f.write("\t" + " ".join("0x%04X," % w for w in words[i:i + 8]) + "\n")
    f.write("};\n")
