#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The grids of the formats IQ1, IQ2 and IQ3, which are data of the formats, as
src/model/formats/iq*_grid*.h: from the gguf package for Python (pip install gguf). Run from
the top of the tree; it writes the files that are named as arguments, or all."""
import sys

import numpy as np
from gguf import quants

FILES = {
    "iq2xxs_grid": ("The grid of IQ2_XXS: 256 points of eight magnitudes each. A magnitude "
                    "takes two bits,\n * the first in the lowest; codes 0, 1 and 2 mean 8, "
                    "25 and 43.", ["IQ2_XXS"], 8),
    "iq2_grids": ("The grids of IQ2_XS and IQ2_S: points of eight magnitudes each. A "
                  "magnitude takes two\n * bits, the first in the lowest; codes 0, 1 and 2 "
                  "mean 8, 25 and 43.", ["IQ2_XS", "IQ2_S"], 11),
    "iq3_grids": ("The grids of IQ3_XXS and IQ3_S: points of four magnitudes each. A "
                  "magnitude takes three\n * bits, the first in the lowest. Code c means 8 c "
                  "+ 4 in IQ3_XXS, and 62 for c = 7. It means\n * 2 c + 1 in IQ3_S.",
                  ["IQ3_XXS", "IQ3_S"], 11),
    "iq1_grid": ("The grid of IQ1_S and IQ1_M: 2048 points of eight numbers each. A number "
                 "takes two\n * bits, the first in the lowest; codes 0, 1 and 2 mean -1, 0 "
                 "and 1.", ["IQ1_S"], 11),
}
for name in sys.argv[1:] or FILES:
    what, types, n = FILES[name]
    text = """/* SPDX-License-Identifier: Apache-2.0
 *
 * %s This is
 * data of the format, from the gguf package for Python (tests/golden/make_iq2_grid.py).
 */
#pragma once
#ifndef TABLE /* device code defines TABLE as its kind of constant memory */
#define TABLE static const
#endif
""" % what
    for type_name in types:
        t = getattr(quants, type_name)
        t.init_grid()
        points, each = t.grid_shape
        code = np.searchsorted(np.array(t.grid_map, np.float32),
                               np.asarray(t.grid, np.float32).reshape(points, each))
        words = (code << ((16 // each if each == 8 else 3) * np.arange(each))).sum(1)
        c_name = {"IQ1_S": "iq1"}.get(type_name, type_name.lower().replace("_", ""))
        text += "TABLE unsigned short %s_grid[%d] = {\n" % (c_name, points)
        for i in range(0, points, n):
            text += "\t" + " ".join("0x%04X," % w for w in words[i:i + n]) + "\n"
        text += "};\n"
    with open("src/model/formats/%s.h" % name, "w", encoding="utf-8") as f:
        f.write(text)
